"""`supervisor status`: what it says, what it loads, and that it never makes or blocks anything."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from landing.connect import open_writer, store_path
from landing.prune import Prune
from landing.store import Store
from policies.job import State
from supervisor import sensors
from supervisor.cli.status import Request, last_line, plain_request, who
from supervisor.client import Client
from supervisor.lock import SupervisorLock
from supervisor.told.status import complaints, status, supervisor_facts
from tests.cli.shell import Shell

HEAVY = {"msgspec", "rich", "rich_click", "click", "tenacity", "cloudpickle", "dataclasses", "inspect"}
LOADED = (
    "import sys; from supervisor.cli import main; code = main({words!r}); print(code, *sorted(sys.modules))"
)


def test_the_fast_path_loads_no_codec_and_no_screen(shell: Shell) -> None:
    """DESIGN sections 7 and 9."""
    shell("enqueue", "vault_sync")
    script = LOADED.format(words=["status", "--json", "--home", str(shell.home)])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={k: v for k, v in shell.environ.items() if not k.startswith("COVERAGE_")},  # it loads more
        capture_output=True,
        text=True,
        check=True,
        cwd=shell.folder,
    )
    facts, modules = done.stdout.splitlines()
    code, *loaded = modules.split()
    assert (code, json.loads(facts)["jobs"]) == ("0", {"queued": 1})
    assert HEAVY.isdisjoint(loaded)


def test_a_new_home_is_down_and_says_what_to_do(shell: Shell) -> None:
    shell("enqueue", "vault_sync", '{"root": "/"}')
    done = shell("status")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("laneway down")
    assert lines[0].endswith("UNHEALTHY")
    assert lines[1] == "!  no supervisor runs, 1 unfinished"
    assert lines[2] == "   next: supervisor run --app supervisor.lanes"
    assert lines[3] == "WAITING 1"
    assert lines[4].startswith("  1 x   vault_sync   no supervisor runs here   oldest ")
    assert shell("status", "--strict").code == 1


def test_json_has_every_fact(shell: Shell) -> None:
    """DESIGN section 7: status --json."""
    shell("enqueue", "vault_sync")
    facts = shell("status", "--json").json
    assert facts.keys() >= {
        "healthy",
        "reasons",
        "supervisor",
        "jobs",
        "landed",
        "lanes",
        "wal_mb",
        "free_mb",
    }
    assert facts["supervisor"].keys() >= {"state", "run", "pid", "age_s"}
    assert (facts["healthy"], facts["lanes"]) == (False, {"vault_sync": {"running": 0, "waiting": 1}})


def test_liveness_is_the_locks_word_whatever_the_store_does(tmp_path: Path) -> None:
    """K10, C193: a run that has not written its row yet is starting; a stale sign of life is stalled."""
    now = 1_000_000_000
    run = {"id": 7, "pid": 42, "started_at": now - 90_000_000, "clean": 0}
    assert supervisor_facts(tmp_path, None, now)["state"] == "down"
    assert supervisor_facts(tmp_path, run, now)["state"] == "died"
    assert supervisor_facts(tmp_path, {**run, "clean": 1}, now)["state"] == "down"
    lock = SupervisorLock(tmp_path, lambda: 0.0, lambda seconds: None)
    try:
        assert supervisor_facts(tmp_path, {**run, "clean": 1}, now)["state"] == "starting"
        assert supervisor_facts(tmp_path, None, now)["state"] == "starting"
        later = int((tmp_path / "supervisor.lock").stat().st_mtime * 1e6) + 2_000_000
        up = supervisor_facts(tmp_path, {**run, "started_at": later - 90_000_000}, later)
        assert (up["state"], up["pid"], up["run"], up["up_s"]) == ("up", 42, 7, 90)
        assert supervisor_facts(tmp_path, run, later + 10_000_000)["state"] == "stalled"
    finally:
        lock.release()


@pytest.mark.parametrize(
    ("state", "jobs", "wal", "said"),
    [
        ("up", {"queued": 5}, 1, []),
        ("down", {"done": 5}, 1, []),
        ("down", {"queued": 5}, 1, ["no supervisor runs, 5 unfinished"]),
        ("died", {}, 1, ["run 7 died; the next one recovers"]),
        ("stalled", {}, 1, ["the supervisor (pid 42) has not moved for 9 s"]),
        ("up", {}, 128, []),
        (
            "up",
            {},
            129,
            [
                "the WAL has grown to 129 MB: some process keeps an old snapshot of the store;"
                " find who has store.db open (fuser or lsof) and let it end its read transaction"
            ],
        ),
    ],
    ids=["up", "idle", "waiting", "died", "stalled", "small-wal", "wal"],
)
def test_health_is_bad_for_these_reasons_alone(
    state: str, jobs: dict[str, int], wal: int, said: list[str]
) -> None:
    who = {"state": state, "run": 7, "pid": 42, "age_s": 9.0}
    facts = {"supervisor": who, "jobs": jobs, "claiming_stopped": [], "survivors": [], "wal_mb": wal}
    assert complaints(facts) == said


def test_a_run_that_stops_is_stopping_until_it_does_not_move(tmp_path: Path) -> None:
    """K10: the lock says whether it lives, its own word that it stops."""
    run = {"id": 7, "pid": 42, "started_at": 1_000_000, "clean": 0}
    lock = SupervisorLock(tmp_path, lambda: 0.0, lambda seconds: None)
    try:
        now = int((tmp_path / "supervisor.lock").stat().st_mtime * 1e6) + 1_000_000
        facts = supervisor_facts(tmp_path, run, now, now - 3_000_000)
        assert (facts["state"], facts["stopping_s"]) == ("stopping", 3.0)
        assert who(facts).startswith("stopping since 3.0 s, pid 42, run 7, ")
        facts = supervisor_facts(tmp_path, run, now + 60_000_000, now - 3_000_000)
        assert who(facts).startswith("stalled, stopping since 1 min 3 s, pid 42, run 7, ")
    finally:
        lock.release()


def test_free_pages_are_told_where_they_are_worth_a_word(tmp_path: Path) -> None:
    """E11."""
    client = Client(tmp_path)
    job = client.enqueue("vault_sync", "x" * 1_000_000).id
    client.cancel(job)
    assert "free" not in last_line({**status(tmp_path), "free_mb": 0.99})
    prune = Prune(sensors.now_micros() + 1, frozenset({State.CANCELLED}))
    assert Store(tmp_path, sensors.now_micros).write(prune).jobs == 1
    facts = status(tmp_path)
    assert facts["free_mb"] >= 1
    assert f"({facts['free_mb']:g} MB free), WAL " in last_line(facts)


def test_looking_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    Client(tmp_path).enqueue("vault_sync")
    before = {file.name for file in tmp_path.iterdir()}
    status(tmp_path)
    siblings = {"store.db-wal", "store.db-shm"}
    assert {file.name for file in tmp_path.iterdir()} - siblings == before - siblings
    assert store_path(tmp_path).stat().st_mode & 0o777 == 0o600


def test_only_a_plain_request_takes_the_fast_path() -> None:
    assert plain_request([]) == Request()
    assert plain_request(["--json", "--home", "x", "--strict"]) == Request("x", as_json=True, strict=True)
    assert plain_request(["--home=x"]) == Request("x")
    assert plain_request(["--help"]) is None
    assert plain_request(["--home"]) is None
    assert plain_request(["extra"]) is None


def test_help_and_bad_options_of_status_are_answered_too(shell: Shell) -> None:
    assert "--strict" in shell("status", "--help").out
    assert "--home" in shell.refused("status", "--home", code=2)


def test_batches_that_came_too_late_are_counted_where_somebody_looks(shell: Shell) -> None:
    """K2: stale is a normal answer, and is told."""
    shell("enqueue", "vault_sync")
    with closing(open_writer(store_path(shell.home))) as db:
        db.execute(
            "INSERT INTO laneway_runs (pid, boot, version, marker, started_at, clean, stale)"
            " VALUES (1, '', '', '', 1, 1, 0)"
        )
        assert shell("status", "--json").json["supervisor"]["stale"] == 0
        assert "too late" not in shell("status").out
        db.execute("UPDATE laneway_runs SET stale = 3")
    assert shell("status", "--json").json["supervisor"]["stale"] == 3
    assert "\n3 batches of run 1 came too late and changed nothing\nlast hour: " in shell("status").out
    with closing(open_writer(store_path(shell.home))) as db:
        db.execute("UPDATE laneway_runs SET stale = 'zz'")
    assert shell("status", "--json").json["supervisor"]["stale"] == 0
    assert "too late" not in shell("status").out
