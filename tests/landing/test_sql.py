"""Every statement over the control tables lives in one folder, runs on the real schema, and scales."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from landing.claim import WAKES, Claim
from landing.connect import open_writer, store_path
from landing.sql import ask, attempt, control, prune, queue, runs, schema
from landing.transaction import Transaction
from policies.job import IN_FLIGHT
from policies.priority import in_claim_order
from policies.transitions import TRANSITIONS
from tests.landing.stand import START, Stand

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = (queue, attempt, control, runs, prune, ask, schema)
FRAGMENTS = {"ENDED", "ENDED_STATES", "IN_FLIGHT", "JOB_COLUMNS", "MAY_GO", "NOT_BEGUN", "WITH_HEADS"}


def statements() -> dict[str, str]:
    found = {}
    every = (item for module in MODULES for item in vars(module).items())
    for name, value in every:
        if name.isupper() and name not in FRAGMENTS and name != "TRANSITIONS":
            named = value if isinstance(value, dict) else {"": value}
            found |= {f"{name} {move}".strip(): text for move, text in named.items()}
    return found


@pytest.fixture
def db(stand: Stand) -> Iterator[sqlite3.Connection]:
    with closing(open_writer(store_path(stand.home))) as db:
        yield db


def plan(db: sqlite3.Connection, statement: str) -> list[str]:
    names = re.findall(r":(\w+)", statement)
    args = dict.fromkeys(names, 1) if names else (1,) * statement.count("?")
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", args)]


def test_there_are_statements_to_look_at() -> None:
    assert len(statements()) > 35
    assert {"CLAIM", "LAND", "FINISH complete", "ADD_RECEIPT"} <= set(statements())


@pytest.mark.parametrize("name", statements())
def test_every_statement_prepares_on_the_real_schema(db: sqlite3.Connection, name: str) -> None:
    plan(db, statements()[name])


HOT = [
    *(
        "HEADS",
        "WAITING_GROUPS",
        "CLAIM",
        "START",
        "RENEW",
        "LAND",
        "FINISH complete",
        "WAKE_DUE",
        "NEXT_WAKE",
        "NEXT_TRY",
        "GROUPS_IN_FLIGHT",
        "FREE_EXCLUSIVE",
        "SAME_WAITING",
        "SAME_EVER",
    ),
    *("ORPHANS", "CANCELS", "ADD_RECEIPT", "JOB", "JOBS", "JOBS_IN_STATE", "ATTEMPTS", "EVENTS", "PENDING"),
    *("IN_FLIGHT_JOBS", "ENDED_SINCE", "LAST_RUN", "GROUP", "RETRIED"),
    *(name for name in statements() if name.startswith(("PRUNABLE", "DELETE_"))),
    *("JOBS_TAGGED", "JOBS_OF_KIND", "WAKE_LOST", "DISCARD", "LAST_CODE", "SURVIVORS"),
    *("ATTEMPTS_WITHOUT_WORLDS", "IN_FLIGHT_BEFORE", "COUNT_ANEW"),
]


@pytest.mark.parametrize("name", HOT)
def test_no_statement_walks_a_whole_table_without_an_index(db: sqlite3.Connection, name: str) -> None:
    """C97, U31: the queue may be a million deep."""
    scans = [step for step in plan(db, statements()[name]) if re.match(r"SCAN (laneway_|[jhncar]\b)", step)]
    assert [step for step in scans if "INDEX" not in step and not walks_by_id(name)] == []


def walks_by_id(name: str) -> bool:
    """Newest first, with a LIMIT: the walk over ids ends after a page."""
    return name in {"JOBS", "LAST_RUN"}


INDEXES = {
    "JOBS_TAGGED": "laneway_jobs_tags (tag=? AND id<?)",
    "JOBS_IN_STATE": "laneway_jobs_states (state=? AND id<?)",
    "JOBS_OF_KIND": "laneway_jobs_kinds (kind=? AND id<?)",
    "IDS": "laneway_jobs_states (state=? AND id>?)",
    "IDS_TAGGED": "laneway_jobs_tags (tag=? AND id>?)",
    "STOPPING_SINCE": "laneway_events_jobless (at>?)",
    "PRUNABLE": "laneway_jobs_ended (kind=? AND state=? AND finished_at<?)",
    "PRUNABLE_COUNT": "laneway_jobs_ended (kind=? AND state=? AND finished_at<?)",
    "PRUNABLE_TAGGED": "laneway_jobs_tags (tag=?)",
    "SAME_EVER": "laneway_jobs_identities (identity=?)",
    "SAME_WAITING": "laneway_jobs_identities (identity=? AND state=?)",
    "WAKE_DUE": "laneway_jobs_wakes (wake_at<?)",
    "WAKE_LOST": "laneway_jobs_wakes (wake_at>?)",
    "DELETE_RUNS": "laneway_attempts_runs (run_id=?)",
    "DELETE_JOBLESS_EVENTS": "laneway_events_jobless (at<?)",
}


@pytest.mark.parametrize("name", INDEXES)
def test_a_page_of_jobs_and_what_may_go_are_found_by_their_index(db: sqlite3.Connection, name: str) -> None:
    """C97, U33: whatever the size of the table."""
    assert INDEXES[name] in "; ".join(plan(db, statements()[name]))


def fill(db: sqlite3.Connection, state: str, depth: int) -> None:
    columns = "kind, state, group_id, priority, payload, created_at, waiting_since, wake_at"
    wake = START + 10**9 if state == "pending" else None
    rows = [("embed", state, 1 + n % 2, 50, "{}", START, START + n, wake) for n in range(depth)]
    db.execute("BEGIN")
    db.executemany(f"INSERT INTO laneway_jobs ({columns}) VALUES ({', '.join('?' * 8)})", rows)
    db.execute("COMMIT")


def steps_of_a_claim(db: sqlite3.Connection) -> int:
    """How many instructions SQLite runs for it."""
    claim = Claim(
        run=1, pid=1, fence="f", ready=frozenset({"embed"}), loaded=frozenset({"embed"}), order=in_claim_order
    )
    steps: list[None] = []
    db.execute("BEGIN")
    db.set_progress_handler(lambda: steps.append(None), 1)
    assert claim.apply(Transaction(db, START)).claimed is not None
    db.set_progress_handler(None, 1)
    db.execute("ROLLBACK")
    return len(steps)


def test_a_claim_costs_the_same_at_any_depth(stand: Stand, db: sqlite3.Connection) -> None:
    """C79, U15: over the heads of groups, also with many rows in backoff."""
    stand.enqueue("embed")
    stand.enqueue("scan")
    shallow = steps_of_a_claim(db)
    fill(db, "queued", 5000)
    fill(db, "pending", 5000)
    assert steps_of_a_claim(db) <= shallow * 1.1


def test_a_claim_costs_the_same_however_many_rows_are_due(stand: Stand, db: sqlite3.Connection) -> None:
    """K14: 100,000 jobs whose backoff ends in one instant."""
    stand.enqueue("embed")
    stand.enqueue("scan")
    fill(db, "pending", WAKES)
    db.execute("UPDATE laneway_jobs SET wake_at = ?", (START,))
    few = steps_of_a_claim(db)
    fill(db, "pending", 5 * WAKES)
    db.execute("UPDATE laneway_jobs SET wake_at = ?", (START,))
    assert steps_of_a_claim(db) <= few * 1.1


def test_control_tables_are_named_nowhere_else() -> None:
    """A1, U14: the room's one file of SQL, its migrations, and tests."""
    rooms = ["supervisor", "worker", "landing", "ipc", "policies"]
    naming = {
        str(file.relative_to(ROOT))
        for room in rooms
        for file in (ROOT / room).rglob("*.py")
        if re.search(r"\blaneway_[a-z]", file.read_text("utf-8"))
    }
    assert {Path(file).parent.as_posix() for file in naming} == {"landing/sql"}


def test_only_claim_writes_leased_and_only_start_writes_running() -> None:
    """U1, C83."""
    writing = {state: set[str]() for state in IN_FLIGHT}
    for name, text in statements().items():
        for state in IN_FLIGHT:
            if re.search(rf"SET\s+state = '{state}'|VALUES[^;]*'{state}'", text):
                writing[state].add(name)
    assert writing == {"leased": {"CLAIM"}, "running": {"START"}}


def test_every_state_that_is_written_by_name_is_the_target_of_a_move() -> None:
    """U1."""
    targets = {str(to) for _, to in TRANSITIONS.values()}
    written = {
        state for text in statements().values() for state in re.findall(r"SET\s+state = '(\w+)'", text)
    }
    assert written <= targets
    assert {"leased", "running", "done", "cancelled", "queued"} <= written


@pytest.mark.parametrize(
    "name", [name for name in statements() if "SET state" in statements()[name].replace("\n", " ")]
)
def test_every_move_is_a_compare_and_set_on_the_state(name: str) -> None:
    """U1."""
    assert re.search(r"WHERE.*\bstate IN \(", statements()[name], re.DOTALL)
