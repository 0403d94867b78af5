"""`index` and `search`: the built-in vault from the command line."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from landing import views
from landing.errors import StoreError
from landing.snapshot import snapshot
from supervisor.lock import is_live
from tests.cli.shell import Shell


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "tides.md").write_text("# Tides\n\nThe heliotrope ferry leaves at high water.\n", "utf-8")
    (folder / "moon.txt").write_text("The moon pulls the water.\n", "utf-8")
    (folder / "photo.png").write_bytes(b"\x89PNG")
    return folder


def table(text: str) -> dict[str, str]:
    """Return the lines of a summary as name and value."""
    return {name: value.strip() for name, value in (line.split(maxsplit=1) for line in text.splitlines())}


def test_a_folder_is_indexed_in_the_foreground_when_nobody_runs(shell: Shell, notes: Path) -> None:
    """K15, C175."""
    done = shell("index", "notes")
    assert (done.code, done.err) == (0, "")
    facts = table(done.out)
    assert list(facts) == [
        "files",
        "indexed",
        "unchanged",
        "dropped",
        "skipped",
        "chunks",
        "batches",
        "rows",
        "seconds",
    ]
    assert (facts["files"], facts["indexed"], facts["skipped"]) == ("3", "2", "1 (1 binary)")
    again = shell("index", str(notes), "--json").json
    assert again.keys() >= {"id", "outcome", "result", "landed", "seconds"}
    assert (again["result"]["indexed"], again["result"]["unchanged"]) == (0, 2)
    assert not is_live(shell.home)


def test_the_same_folder_is_known_by_any_of_its_paths(shell: Shell, notes: Path) -> None:
    (shell.folder / "link").symlink_to(notes)
    shell("index", "notes/../notes")
    assert shell("vault", "link", "--json").json["result"]["unchanged"] == 2


def test_names_can_be_left_out(shell: Shell, notes: Path) -> None:
    result = shell("index", "notes", "--exclude", "*.txt", "--exclude", "photo.png", "--json").json["result"]
    assert (result["files"], result["skipped"]) == (1, {})


def test_an_index_needs_no_application_whatever_is_wrong_with_it(shell: Shell, notes: Path) -> None:
    shell.write("supervisor.toml", 'app = "broken.py"\n[kinds.embed]\nnice = 1\n')
    shell.write("broken.py", "1 / 0\n")
    assert shell("index", "notes").code == 0


def test_an_index_leaves_the_users_own_jobs_alone(project: Shell, notes: Path) -> None:
    project("enqueue", "square", '{"count": 2}')
    assert project("index", "notes").code == 0
    assert project("show", "1", "--json").json["state"] == "queued"


def test_an_index_waits_for_nobodys_backoff(project: Shell, notes: Path) -> None:
    """Another job may run again in an hour; the folder is indexed now."""
    project.write("supervisor.toml", 'app = "squares.py"\n[defaults]\nbackoff = "1h"\nbackoff_max = "1h"\n')
    project("enqueue", "moody")
    with project.start("run", "--json", stdin=subprocess.DEVNULL) as supervisor:
        while b'"state": "pending"' not in supervisor.stdout.readline():
            pass
        supervisor.terminate()
        supervisor.communicate(timeout=20)
    assert project("show", "1", "--json").json["reason"] == "backoff"
    assert project("index", "notes").code == 0


def test_an_index_whose_job_fails_says_why(shell: Shell, notes: Path) -> None:
    """Exit code 1."""
    shell.write("supervisor.toml", "[kinds.vault_sync]\njob_deadline = 0.001\ngrace = 0\nmax_attempts = 1\n")
    done = shell("index", "notes", "--json")
    assert done.code == 1
    assert done.json["outcome"] == "failed"
    assert done.lines == ["error: job #1 failed: not done for 0.001 s; supervisor show 1"]


def test_hits_are_ranked_lines_and_json_is_a_list(shell: Shell, notes: Path) -> None:
    """K15: search --json is a list of {path, line, score, snippet}."""
    shell("index", "notes")
    done = shell("search", "water")
    assert done.code == 0
    assert sorted(done.out.splitlines()) == [
        f"{notes}/moon.txt:1  The moon pulls the water.",
        f"{notes}/tides.md:3  The heliotrope ferry leaves at high water.",
    ]
    [hit] = shell("search", "heliotrope", "ferry", "--json").json
    assert hit.keys() == {"path", "line", "score", "snippet"}
    assert (hit["path"], hit["line"]) == (f"{notes}/tides.md", 3)
    assert len(shell("search", "water", "--limit", "1", "--json").json) == 1


def test_a_hit_is_one_line_whatever_its_path_and_text_hold(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "new\nline\x1b.md").write_text("one\x1b[2J\ttwo heliotrope\n")
    shell("index", "odd")
    assert shell("search", "heliotrope").out == (
        f"{tmp_path}/odd/new\\nline\\x1b.md:1  one\\x1b[2J two heliotrope\n"
    )


def test_no_hits_are_an_answer(shell: Shell, notes: Path) -> None:
    """K15, exit code 0."""
    shell("index", "notes")
    done = shell("search", "nowhere")
    assert (done.code, done.out, done.err) == (0, "", "hint: no hits\n")
    assert shell("search", "nowhere", "--json").json == []
    assert shell("search", "\udcff \0".replace("\0", ""), "--json").json == []


def test_a_search_before_the_first_index_says_what_to_do(project: Shell) -> None:
    """Exit code 1."""
    project("enqueue", "square")
    line = project.refused("search", "water", code=1)
    assert line == f"nothing is indexed in {project.home}; first: supervisor index FOLDER"


def test_an_index_behind_a_busy_supervisor_says_what_it_waits_for_and_stays_queued(
    project: Shell, notes: Path
) -> None:
    project("enqueue", "sleepy", '{"seconds": 60}')
    with project.start("run", "--max-workers", "1", stdin=subprocess.DEVNULL) as supervisor:
        while not landed(project):
            assert supervisor.poll() is None
        with project.start("index", "notes", stdin=subprocess.DEVNULL) as index:
            assert index.stderr.readline() == b"hint: job #2 waits for its turn: the one worker is busy\n"
            index.send_signal(signal.SIGINT)
            out, err = index.communicate(timeout=20)
        assert (index.returncode, out) == (130, b"")
        assert err == (
            b"hint: job #2 stays queued; the supervisor here sees it through, supervisor cancel 2 ends it\n"
        )
        with project.start("index", "notes", "--json", stdin=subprocess.DEVNULL) as index:
            index.stderr.readline()
            project("cancel", "1")
            out, _ = index.communicate(timeout=20)
        assert json.loads(out)["id"] == 2, "an equal job that is queued is the same work (C74)"
        supervisor.terminate()
        supervisor.communicate(timeout=20)
    assert project("index", "notes", "--json").json["id"] == 3


def test_an_interrupted_index_keeps_its_place(shell: Shell, tmp_path: Path) -> None:
    """Exit code 130; the next index goes on."""
    many = tmp_path / "many"
    many.mkdir()
    for n in range(3000):
        (many / f"{n}.md").write_text(f"note {n} about water\n" * 40)
    with shell.start("index", "many", stdin=subprocess.DEVNULL) as process:
        while not (shell.home / "store.db").exists() or not landed(shell):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.startswith(b"hint: job #1 keeps its place")
    assert shell("show", "1", "--json").json["state"] == "queued"
    assert shell("index", "many", "--json").json["result"]["files"] == 3000


def landed(shell: Shell) -> int:
    """Look straight into the store: a command would take as long as the index itself."""
    try:
        with snapshot(shell.home) as db:
            return int(views.job(db, 1)["landed_rows"])
    except StoreError:
        return 0
