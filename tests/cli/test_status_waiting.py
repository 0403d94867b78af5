"""`supervisor status` for the person who asks "why does it wait?": every reason, and what frees it."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from landing.connect import open_writer, store_path
from landing.enqueue import Enqueue, Register
from landing.hold import Hold, HoldKind
from landing.store import Store
from policies.options import Options
from supervisor import sensors
from supervisor.cli.status import batch, memory, screen
from supervisor.lock import SupervisorLock
from supervisor.told.running import running_facts
from supervisor.told.status import status
from tests.told.test_gates import BOOKS, GARBAGE, POWER

BATTERY = {"gate": "power", "text": "on battery (61 %)", "until": "mains"}
HERE = {"gate": "presence", "text": "you are here", "until": "300 s without a touch"}
FULL = {"gate": "max_running", "text": "max_running 1 reached", "until": "one of them ends"}


class Home:
    """A store in which jobs wait, and on request a run that lives and tells."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = Store(home, sensors.now_micros, create_missing=True)
        kinds = ("embed", "transcribe", "report")
        self.store.write(Register("app", {kind: Options(batch_deadline=120.0) for kind in kinds}))
        self._lock: SupervisorLock | None = None

    def enqueue(self, kind: str, number: int = 1) -> list[int]:
        return [self.store.write(Enqueue(kind=kind, payload="{}")).id for _ in range(number)]

    def run(self, sql: str, *args: Any) -> None:
        with closing(open_writer(store_path(self.home))) as db:
            db.execute(sql, args)

    def live(self, told: Any = None, kinds: Any = ("embed", "transcribe", "report"), slots: Any = 2) -> None:
        """Have this process look like a supervisor whose run tells this."""
        self._lock = SupervisorLock(self.home, lambda: 0.0, lambda seconds: None)
        cells = [
            json.dumps(cell) if isinstance(cell, dict | tuple) else cell for cell in (kinds, slots, told)
        ]
        self.run(
            "INSERT INTO laneway_runs (pid, boot, version, marker, started_at, kinds, slots, told)"
            " VALUES (7, '', '', '', 1, ?, ?, ?)",
            *cells,
        )

    def start(self, job: int, **cells: Any) -> None:
        """Make a row look like one in flight for 20 s."""
        cells = {"state": "running", "fence": "f", "lease_expires_at": 1, "claims": 1, **cells}
        cells = {"started_at": sensors.now_micros() - 20_000_000, **cells}
        self.run(
            f"UPDATE laneway_jobs SET {', '.join(f'{name} = ?' for name in cells)} WHERE id = ?",
            *cells.values(),
            job,
        )

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def waiting(self) -> dict[str, Any]:
        """Return by kind the group that waits."""
        return {group["kind"]: group for group in status(self.home)["waiting"]}

    def screen(self) -> list[str]:
        return list(screen(status(self.home) | {"next": ""}))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()


def reasons(group: dict[str, Any]) -> list[str]:
    return [one["reason"] for one in group["reasons"]]


def test_one_screen_says_what_is_and_why_it_waits(home: Home) -> None:
    """SCREENS status; U27, C97: gates, models, running, waiting by kind and reason."""
    job, *_ = home.enqueue("embed", 3)
    home.enqueue("transcribe", 2)
    home.start(job, done=31_400, total=50_000, landed_rows=31_400)
    home.live(
        {
            "gates": [POWER],
            "models": BOOKS,
            "blocked": {"embed": [BATTERY], "transcribe": [FULL, BATTERY]},
            "yielding": {str(job): "on battery"},
        }
    )
    lines = home.screen()
    assert lines[0].startswith("laneway up, pid 7, run 1, ")
    assert lines[1:4] == [
        "gates   power: battery 61 % (BAT0), closed",
        "models  minilm (1.2 GB, 2 jobs), qwen (4 GB, pinned)   5.2 GB of 12 GB   3 swaps   last load 4.2 s",
        "RUNNING 1 of 2",
    ]
    assert lines[4].startswith(f"  #{job}   embed   31,400 of 50,000, 31,400 rows   ")
    assert lines[4].endswith("   attempt 1, yielding: on battery")
    assert lines[5] == "WAITING 4"
    cells = sorted([cell.strip() for cell in line.split("   ") if cell.strip()] for line in lines[6:8])
    assert [[*row[:3], row[-1]] for row in cells] == [
        ["2 x", "embed", "on battery (61 %)", "until mains"],
        ["2 x", "transcribe", "max_running 1 reached (and 1 more)", "until one of them ends"],
    ]


def test_all_reasons_are_in_json_the_first_is_on_the_line(home: Home) -> None:
    """U27: reasons everywhere."""
    home.enqueue("embed")
    home.live(
        {
            "total": {"gate": "power_floor", "text": "battery at 5 %", "until": "mains"},
            "blocked": {"embed": [BATTERY, HERE]},
        }
    )
    group = home.waiting()["embed"]
    assert group["reasons"] == [
        {"reason": "power_floor", "text": "battery at 5 %", "until": "mains"},
        {"reason": "power", "text": "on battery (61 %)", "until": "mains"},
        {"reason": "presence", "text": "you are here", "until": "300 s without a touch"},
    ]
    assert {name: group[name] for name in ("reason", "text", "until")} == group["reasons"][0]


def test_a_kind_that_the_run_has_not_loaded_is_told_at_once_and_for_certain(home: Home) -> None:
    """K14: no longer a guess."""
    home.enqueue("embed")
    home.enqueue("report")
    home.live(kinds=("embed",))
    waiting = home.waiting()
    assert (reasons(waiting["report"]), reasons(waiting["embed"])) == (["kind_not_loaded"], ["queued"])


@pytest.mark.parametrize(
    ("slots", "running", "text"),
    [
        (3, 2, "queued"),
        (2, 2, "all 2 workers busy"),
        (1, 1, "the one worker is busy"),
        (None, 1, "the one worker is busy"),
    ],
)
def test_workers_are_busy_when_all_slots_are_taken(
    home: Home, slots: int | None, running: int, text: str
) -> None:
    """U27: a free slot is not told as a busy one."""
    for job in home.enqueue("embed", running):
        home.start(job)
    home.enqueue("transcribe")
    home.live(slots=slots)
    assert home.waiting()["transcribe"]["text"] == text
    head = f"RUNNING {running}" if slots is None else f"RUNNING {running} of {slots}"
    assert head in home.screen()


@pytest.mark.parametrize("live", [True, False])
def test_a_held_kind_is_told_with_its_reason_whoever_runs(home: Home, live: bool) -> None:
    """U27."""
    home.enqueue("embed")
    home.store.write(HoldKind("embed", "the disk is being copied"))
    if live:
        home.live({"blocked": {"embed": [{"gate": "held", "text": "held", "until": "unhold"}]}})
    group = home.waiting()["embed"]
    assert group["text"] == "kind embed is held: the disk is being copied"
    assert reasons(group) == ["kind_held"] + ([] if live else ["no_supervisor"])
    assert any("   supervisor unhold --kind embed" in line for line in home.screen())


def test_what_is_held_needs_no_run(home: Home) -> None:
    """U27: nothing is wrong, and no run would help, while all that waits was held by hand."""
    [job] = home.enqueue("embed")
    home.store.write(HoldKind("embed", ""))
    assert status(home.home)["reasons"] == []
    [other] = home.enqueue("report")
    assert status(home.home)["reasons"] == ["no supervisor runs, 2 unfinished"]
    home.store.write(Hold(other))
    assert status(home.home)["healthy"]
    home.start(job)
    assert not status(home.home)["healthy"]


def test_a_job_whose_thread_has_another_says_so(home: Home) -> None:
    """U27, C121: slots are free, and it waits all the same."""
    home.store.write(Register("app", {"embed": Options(mode="inproc"), "report": Options()}))
    first, _second = home.enqueue("embed", 2)
    home.enqueue("report")
    home.live()
    home.start(first)
    assert home.waiting()["embed"]["text"] == "its thread has a job"
    assert reasons(home.waiting()["embed"]) == ["thread_busy"]
    assert reasons(home.waiting()["report"]) == ["queued"]


def test_rows_with_a_reason_of_their_own_say_it_and_what_ends_it(home: Home) -> None:
    """K14, U27, U29: backoff, held, exclusive, deferred."""
    running, aside, held, failed, deferred = home.enqueue("embed", 5)
    soon = sensors.now_micros() + 3_000_000_000
    home.start(running, exclusive="disk")
    put = "UPDATE laneway_jobs SET state = ?, reason = ?, watch = ?, watch_key = ?, wake_at = ? WHERE id = ?"
    home.run(put, "pending", "exclusive", "exclusive", "disk", None, aside)
    home.store.write(Hold(held))
    home.run(put, "pending", "backoff", "backoff", None, soon, failed)
    home.run(put, "deferred", "ceiling: needs 9 GB", "deferred", None, soon + 60_000_000, deferred)
    home.live()
    groups = {group["reason"]: group for group in status(home.home)["waiting"]}
    said = {reason: (group["text"], group["until"]) for reason, group in groups.items()}
    assert said == {
        "exclusive": (f"may not run beside #{running}", f"#{running} ends"),
        "held": ("held", "unhold"),
        "backoff": ("backoff", None),
        "deferred": ("deferred: ceiling: needs 9 GB", None),
    }
    assert 2900 < groups["backoff"]["wakes_s"] < groups["deferred"]["wakes_s"] < 3100
    facts = status(home.home)
    assert (facts["next_wake"]["id"], facts["next_wake"]["reason"]) == (failed, "backoff")
    assert f"; next: #{failed} embed in " in home.screen()[-1]


def test_a_run_that_has_ended_tells_nothing_any_more(home: Home) -> None:
    """K10: what a dead run told is not so now."""
    home.enqueue("embed")
    home.live({"gates": [POWER], "models": BOOKS, "blocked": {"embed": [BATTERY]}})
    assert status(home.home)["gates"] != []
    home.close()
    facts = status(home.home)
    assert (facts["gates"], facts["models"], facts["slots"]) == ([], None, None)
    assert reasons(facts["waiting"][0]) == ["no_supervisor"]


@pytest.mark.parametrize("told", ["", "{", b"\xff\x00", 9, *map(json.dumps, GARBAGE), None])
def test_whatever_a_run_has_told_status_degrades_and_stands(home: Home, told: Any) -> None:
    """C97, U31: NULL, another version's, garbage."""
    job, _ = home.enqueue("embed", 2)
    home.start(job)
    home.live(told, kinds=told, slots=told)
    facts = status(home.home)
    assert (facts["gates"], len(facts["running"]), len(facts["waiting"])) == ([], 1, 1)
    assert home.screen()[-1].startswith("last hour: ")


@pytest.mark.parametrize("part", ["gates", "models", "blocked", "yielding", "total"])
@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
def test_one_part_that_is_garbage_costs_that_part_alone(home: Home, part: str, garbage: Any) -> None:
    """U31."""
    home.enqueue("embed")
    told = {"gates": [POWER], "models": BOOKS, "blocked": {"embed": [BATTERY]}, "yielding": {}, "total": None}
    home.live(told | {part: garbage})
    facts = status(home.home)
    assert (facts["gates"] == []) is (part == "gates")
    assert ("power" in reasons(facts["waiting"][0])) is (part != "blocked")
    assert home.screen()[-1].startswith("last hour: ")


@pytest.mark.parametrize(
    ("group", "jobs"), [("x'ff00'", 1), ("9e999", 1), ("'nowhere'", 3), ("CAST(x'ff41' AS TEXT)", 3)]
)
def test_a_group_that_is_garbage_still_waits_and_is_counted(home: Home, group: str, jobs: int) -> None:
    """U31, C97."""
    home.enqueue("embed", 3)
    with closing(sqlite3.connect(store_path(home.home), isolation_level=None)) as db:  # as a stranger would
        db.execute(f"UPDATE laneway_jobs SET group_id = {group}")
    assert home.waiting()["embed"]["jobs"] == jobs


ROW = {
    "id": 1,
    "kind": "embed",
    "state": "running",
    "claims": 2,
    "landed_seq": 5,
    "landed_rows": 300,
    "done": None,
    "total": None,
    "started_at": 1_000_000,
    "cancel_requested_at": None,
    "options": {"batch_deadline": 120.0, "start_deadline": 300.0, "memory_limit": 6_000_000_000},
    "landed_before": 0,
    "rows_before": 0,
    "landed_at": 7_800_000,
    "pid": 9,
}
NAMES = ("rate", "rate_s", "batch_s", "batch_limit", "batch_limit_s")
BATCH = ("batch_deadline", 120.0)


@pytest.mark.parametrize(
    ("cells", "live", "facts"),
    [
        ({}, True, (30.0, 10.0, 3.2, *BATCH)),
        ({"landed_before": 3, "rows_before": 250}, True, (5.0, 10.0, 3.2, *BATCH)),
        ({"rows_before": None, "landed_at": None}, True, (None, None, None, *BATCH)),
        ({"rows_before": 301}, True, (None, None, 3.2, *BATCH)),
        ({"landed_before": 5, "rows_before": 300}, True, (0.0, 10.0, 3.2, "start_deadline", 300.0)),
        ({"landed_before": 5, "options": {"batch_deadline": 120}}, True, (30.0, 10.0, 3.2, *BATCH)),
        ({"options": {"batch_deadline": "soon"}}, True, (30.0, 10.0, 3.2, None, 0)),
        ({"started_at": None}, True, (None, None, None, *BATCH)),
        ({"started_at": 10_500_000}, True, (None, None, 3.2, *BATCH)),
        ({"landed_at": 12_000_000}, True, (30.0, 10.0, 0.0, *BATCH)),
        ({"landed_before": 5}, False, (None, None, None, *BATCH)),
    ],
    ids=[
        *("whole", "resumed", "unknown", "odd", "first", "no-start", "garbage", "starting", "young"),
        *("clock-back", "dead"),
    ],
)
def test_rates_and_ages_are_told_only_where_somebody_knows_them(
    cells: dict[str, Any], live: bool, facts: tuple[Any, ...]
) -> None:
    """LESSONS 31, C197: a rate is of this attempt alone, an age of the batch that landed last."""
    found = running_facts({**ROW, **cells}, 11_000_000, None, live=live)
    assert tuple(found[name] for name in NAMES) == facts


@pytest.mark.parametrize(
    ("cells", "size", "facts", "words"),
    [
        ({}, 2_300_000_000, (2300.0, 6000.0), "2.3 GB of 6 GB"),
        ({"options": {}}, 51_234_567, (51.23, 0), "51.2 MB"),
        ({"options": {"memory_limit": "much"}}, 51_234_567, (51.23, 0), "51.2 MB"),
        ({}, None, (None, 0), ""),
    ],
    ids=["limit", "none", "garbage", "nobody-can-tell"],
)
def test_memory_is_told_with_its_limit_where_somebody_sees_the_processes(
    cells: dict[str, Any], size: int | None, facts: tuple[Any, ...], words: str
) -> None:
    """C97: a thread has no memory of its own, and nothing holds it to a limit."""
    found = running_facts({**ROW, **cells}, 11_000_000, size, live=True)
    assert (found["memory_mb"], found["memory_limit_mb"]) == facts
    assert memory(found) == words


@pytest.mark.parametrize(
    ("cells", "live", "words"),
    [
        ({}, True, "batch 3.2 of 120 s"),
        ({"landed_at": 1_000_000}, True, "batch 10 of 120 s"),
        ({"landed_before": 5}, True, "start 3.2 of 300 s"),
        ({"options": {}}, True, "batch 3.2 s, no limit"),
        ({"landed_at": None}, True, "batch limit 120 s"),
        ({"options": {}}, False, "no batch limit"),
    ],
)
def test_the_age_of_a_batch_is_told_against_its_limit(cells: dict[str, Any], live: bool, words: str) -> None:
    """SCREENS status."""
    assert batch(running_facts({**ROW, **cells}, 11_000_000, None, live=live)) == words
