"""The queue from outside a supervisor: keys, tiers, and what is held."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from landing.connect import store_path
from landing.enqueue import KeyInUse, UnknownKind, UnknownTier
from landing.errors import InvalidTransition, JobNotFound, NoStore
from landing.runs import CloseRun, OpenRun, Tell
from policies.retry import judge
from supervisor import sensors
from supervisor.api import App
from supervisor.client import Client, JobRef
from supervisor.client.change import change
from supervisor.errors import OptionRefused
from supervisor.lock import SupervisorLock
from supervisor.told.story import story


def notes() -> App:
    app = App("notes")

    @app.lane("embed")
    def embed(job, ctx):
        yield 1

    @app.lane("report", unique="waiting", exclusive_by="day")
    def report(job, ctx):
        yield 1

    @app.lane("ingest", unique="forever")
    def ingest(job, ctx):
        yield 1

    return app


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path, notes())


def put(client: Client, statement: str, *args: object) -> None:
    """Change the store behind everybody's back."""
    with sqlite3.connect(store_path(client.home)) as db:
        db.execute(statement, args)
    db.close()


def reasons(client: Client, job: int) -> list[str]:
    return [wait["text"] for wait in story(client.home, job)["waits"]]


# --- keys, tiers


def test_a_key_alone_has_the_same_wait_only_once(client: Client) -> None:
    """U2, C74, C77: the answer says which."""
    assert client.enqueue("embed", {"n": 1}, key="n1", priority=50) == JobRef(1, "created")
    assert client.enqueue("embed", {"n": 1}, key="n1", priority=10) == JobRef(1, "coalesced")
    assert client.enqueue("embed", {"n": 1}) == JobRef(2, "created"), "without the key it is a job of its own"
    assert client.enqueue("report", {"n": 1}, key="n1") == JobRef(3, "created"), "a key is its kind's"
    row = client.job(1)
    assert (row["key"], row["priority"]) == ("n1", 10)
    client.skip(1)
    assert client.enqueue("embed", {"n": 1}, key="n1") == JobRef(4, "created"), "nothing with it waits"


def test_kinds_that_say_so_meet_without_a_key(client: Client) -> None:
    """U2, A9, C74: waiting meets what waits, forever whatever is there."""
    made = client.enqueue_many("report", [{"n": 1}, {"n": 2}, {"n": 1}])
    assert made == [JobRef(1, "created"), JobRef(2, "created"), JobRef(1, "coalesced")]
    assert client.enqueue("ingest", {"a": 1, "b": 2}) == JobRef(3, "created")
    client.cancel(3)
    assert client.enqueue("ingest", {"b": 2, "a": 1}) == JobRef(3, "existing")


def test_a_key_that_waits_with_another_payload_is_refused(client: Client) -> None:
    """U2: to drop either would lose work."""
    client.enqueue("embed", {"n": 1}, key="k")
    with pytest.raises(KeyInUse, match="key 'k' belongs to job #1, which waits with another payload"):
        client.enqueue("embed", {"n": 2}, key="k")
    assert len(client.jobs()) == 1


def test_one_key_for_several_payloads_is_refused_without_naming_a_job_that_is_not_kept(
    client: Client,
) -> None:
    """U2: all or nothing."""
    with pytest.raises(KeyInUse) as caught:
        client.enqueue_many("embed", [1, 2, 1], key="k")
    assert str(caught.value) == "key 'k' stands for one waiting job, not for 2 payloads; nothing was queued"
    assert client.jobs() == []
    same = client.enqueue_many("embed", [1, 1], key="k")
    assert [job.outcome for job in same] == ["created", "coalesced"]


def test_a_tier_is_one_that_somebody_has_defined(tmp_path: Path) -> None:
    """C112: before the first run, the settings of whoever asks say which there are."""
    client = Client(tmp_path, notes(), {"minilm": 512, "large": 8192})
    client.enqueue("embed")
    with pytest.raises(UnknownTier, match=r"unknown tier 'minlm'.*did you mean .minilm"):
        client.enqueue("embed", tier="minlm")
    assert len(client.jobs()) == 1
    client.enqueue("embed", tier="large")
    client.enqueue("embed", tier="")
    rows = [client.job(job) for job in (1, 2, 3)]
    assert [(row["tier"], row["num_ctx"]) for row in rows] == [("", 0), ("large", 8192), ("", 0)]
    with pytest.raises(UnknownTier, match=r"tiers here: large, minilm$"):
        Client(tmp_path).enqueue("embed", tier="zebra")


def test_the_tiers_that_need_no_settings_are_known_to_a_new_store(client: Client) -> None:
    """C110."""
    assert client.enqueue("embed", tier="synthesis").id == 1
    assert client.job(1)["tier"] == "synthesis"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"key": ""}, "key must be 1 to 1000 printable characters, not ''"),
        ({"key": "a\nb"}, "key must be 1 to 1000 printable characters, not 'a\\nb'"),
        ({"key": 7}, "key must be 1 to 1000 printable characters, not 7"),
        ({"tier": None}, "tier must be a name of at most 128 characters, not None"),
        ({"priority": 1.5}, "priority must be a whole number from -1000000000 to 1000000000, not 1.5"),
        ({"priority": True}, "priority must be a whole number from -1000000000 to 1000000000, not True"),
        ({"kee": "a"}, "a job has no option 'kee' (did you mean \"key\"?)"),
    ],
)
def test_a_bad_place_in_the_queue_is_refused(options: dict[str, object], line: str, client: Client) -> None:
    """C72: nothing is written."""
    with pytest.raises(OptionRefused) as caught:
        client.enqueue("embed", **options)
    assert caught.value.complaints == (line,)
    assert not store_path(client.home).exists()


def test_a_long_key_is_shown_by_its_beginning(client: Client) -> None:
    with pytest.raises(OptionRefused) as caught:
        client.enqueue("embed", key="k" * 1001)
    assert len(str(caught.value)) < 300


# --- holding jobs


def test_a_held_job_waits_until_it_is_let_go(client: Client) -> None:
    """U27: twice is once."""
    client.enqueue("embed")
    assert [(one.state, one.changed) for one in (client.hold(1), client.hold(1))] == [
        ("pending", True),
        ("pending", False),
    ]
    row = client.job(1)
    assert (row["state"], row["reason"]) == ("pending", "held")
    assert reasons(client, 1) == ["held", "no supervisor runs here"]
    assert [(one.state, one.changed) for one in (client.unhold(1), client.unhold(1))] == [
        ("queued", True),
        ("queued", False),
    ]
    assert client.job(1)["reason"] is None


@pytest.mark.parametrize("state", ["done", "failed", "skipped", "cancelled", "running", "leased"])
def test_only_what_waits_can_be_held(state: str, client: Client) -> None:
    """U1: the line says what to do."""
    client.enqueue("embed")
    in_flight = state in {"running", "leased"}
    lease = ("f", 1) if in_flight else (None, None)
    put(client, "UPDATE laneway_jobs SET state = ?, fence = ?, lease_expires_at = ?", state, *lease)
    remedy = "cancel it, or hold its kind" if in_flight else "it does not wait any more"
    with pytest.raises(InvalidTransition, match=f"^job #1 is {state} and cannot be held: {remedy}$"):
        client.hold(1)
    with pytest.raises(JobNotFound, match="no job #2"):
        client.hold(2)
    with pytest.raises(JobNotFound, match="no job #2"):
        client.unhold(2)


def test_of_many_each_is_answered_for_itself(client: Client) -> None:
    """A2: one that is refused holds up none of the others."""
    client.enqueue_many("embed", range(3))
    client.cancel(2)
    answers = client.hold_many([1, 2, 9, 3])
    assert [str(one) if isinstance(one, Exception) else one.state for one in answers] == [
        "pending",
        "job #2 is cancelled and cannot be held: it does not wait any more",
        "no job #9",
        "pending",
    ]
    assert [one.state for one in client.unhold_many([3, 1])] == ["queued", "queued"]


def test_a_job_that_waits_for_its_next_attempt_does_so_again_once_it_is_let_go(client: Client) -> None:
    """U8: holding shortens no backoff."""
    client.enqueue("embed")
    far = 4_000_000_000_000_000
    put(
        client,
        "UPDATE laneway_jobs SET state = 'pending', reason = 'backoff', watch = 'backoff', wake_at = ?",
        far,
    )
    client.hold(1)
    assert client.job(1)["wake_at"] is None
    assert client.unhold(1).state == "pending"
    row = client.job(1)
    assert (row["reason"], row["wake_at"]) == ("backoff", far)


# --- holding kinds


def test_a_held_kind_holds_all_of_it_and_what_comes_later(client: Client) -> None:
    """U27, K14: its rows stay queued; the newest reason stands."""
    client.enqueue("embed")
    assert client.hold_kind("embed", "the disk is full") is True
    assert client.hold_kind("embed", "the disk is nearly full") is False
    client.enqueue("embed")
    client.enqueue("report")
    assert [client.job(job)["state"] for job in (1, 2)] == ["queued", "queued"]
    nobody = "no supervisor runs here"
    assert reasons(client, 2) == ["kind embed is held: the disk is nearly full", nobody]
    assert reasons(client, 3) == [nobody]
    client.hold(1)
    assert reasons(client, 1) == ["kind embed is held: the disk is nearly full", "held", nobody]
    client.cancel(2)
    assert reasons(client, 2) == [], "what has ended waits for nothing"
    assert (client.unhold_kind("embed"), client.unhold_kind("embed")) == (True, False)
    assert reasons(client, 1) == ["held", nobody], "a job that is held itself stays so"


def test_a_kind_is_held_before_its_first_job_and_only_where_somebody_has_declared_it(client: Client) -> None:
    """U27."""
    with pytest.raises(NoStore):
        client.hold_kind("embed")
    client.enqueue("embed")
    assert client.hold_kind("vault_sync"), "a built-in kind, which nobody has used here"
    for act in (client.hold_kind, client.unhold_kind):
        with pytest.raises(UnknownKind) as caught:
            act("embd")
        assert str(caught.value) == (
            'unknown kind "embd" (did you mean "embed"?); kinds here: embed, ingest, report, vault_sync'
        )


@pytest.mark.parametrize("why", ["x" * 501, "two\nlines"])
def test_a_reason_is_one_line(why: str, client: Client) -> None:
    client.enqueue("embed")
    with pytest.raises(OptionRefused, match="why must be at most 500 printable characters"):
        client.hold_kind("embed", why)
    assert reasons(client, 1) == ["no supervisor runs here"]


# --- why it waits


def test_a_story_tells_what_sets_a_jobs_place_in_the_queue_apart(client: Client) -> None:
    """C73, U29."""
    client.enqueue("report", {"day": 1}, key="k", tier="stretch")
    client.enqueue("embed")
    put(client, "UPDATE laneway_jobs SET deferrals = 3 WHERE id = 1")
    names = ("key", "tier", "unique", "exclusive_by", "deferrals")
    told = [{name: story(client.home, job)[name] for name in names} for job in (1, 2)]
    assert told[0] == {
        "key": "k",
        "tier": "stretch",
        "unique": "waiting",
        "exclusive_by": "day",
        "deferrals": 3,
    }
    assert told[1] == {"key": None, "tier": "", "unique": None, "exclusive_by": None, "deferrals": 0}


QUIET = {"gate": "quiet", "text": "quiet hours", "until": "06:00"}
FLOOR = {"gate": "power_floor", "text": "battery at 9 %, below 20 %", "until": ""}


@pytest.fixture
def run(client: Client) -> Iterator[int]:
    """Have a run live here, which holds the lock and runs nothing."""
    client.enqueue_many("embed", range(2))
    lock = SupervisorLock(client.home, sensors.monotonic, threading.Event().wait)
    opening = OpenRun(
        pid=1, boot="b", version="0", marker="m", judge=judge, kinds=["embed", "report"], slots=1
    )
    yield change(client.home, opening).run
    lock.release()


def told(client: Client, **facts: object) -> None:
    change(client.home, Tell(1, facts))


def test_a_run_tells_which_gates_hold_a_kind_back(client: Client, run: int) -> None:
    """U27, K14: what holds everything comes first; a hold is the store's own word."""
    held = {"gate": "held", "text": "held", "until": "unhold"}
    told(client, total=FLOOR, blocked={"embed": [held, QUIET], "report": [held]})
    assert story(client.home, 1)["waits"] == [
        {"reason": "power_floor", "text": "battery at 9 %, below 20 %", "until": None},
        {"reason": "quiet", "text": "quiet hours", "until": "06:00"},
    ]
    client.hold_kind("embed")
    client.hold(2)
    both = ["kind embed is held", "battery at 9 %, below 20 %", "quiet hours"]
    assert (reasons(client, 1), reasons(client, 2)) == (both, [*both, "held"])
    told(client, total=None, blocked={})
    client.unhold_kind("embed")
    assert reasons(client, 2) == ["held"]
    assert reasons(client, 1) == [], "it is about to be taken"


def test_a_run_that_ended_holds_nobody_back(client: Client, run: int) -> None:
    """U27: what it told last is not so any more."""
    told(client, blocked={"embed": [QUIET]})
    change(client.home, CloseRun(run))
    assert "quiet hours" not in reasons(client, 1)


def test_a_job_that_nobody_takes_says_whether_the_run_could(client: Client, run: int) -> None:
    """K14: a kind that is not loaded waits for another run, whoever runs in this one."""
    client.enqueue("ingest")
    assert reasons(client, 3) == ["kind not loaded by the running supervisor"]
    put(client, "UPDATE laneway_jobs SET waiting_since = 0")
    assert reasons(client, 1) == ["no child is ready for it yet"]
    put(client, "UPDATE laneway_jobs SET state = 'running', fence = 'f', lease_expires_at = 1 WHERE id = 2")
    assert reasons(client, 1) == ["the one worker is busy"]
    assert reasons(client, 3) == ["kind not loaded by the running supervisor"]
    told(client, blocked={"embed": [QUIET]})
    assert reasons(client, 1) == ["quiet hours"]


@pytest.mark.parametrize(
    "cell",
    [
        *(None, 7, b"\xff", "", "[]", "{", "[" * 100_000, '{"blocked": []}', '{"blocked": {"embed": 3}}'),
        *('{"blocked": {"embed": ["quiet"]}}', '{"blocked": {"embed": [{"gate": "quiet"}]}}', '{"total": 3}'),
        '{"blocked": {"embed": [{"gate": "quiet", "text": "quiet hours", "until": 6}]}}',
        '{"blocked": {"other": [{"gate": "quiet", "text": "quiet hours", "until": ""}]}}',
    ],
)
def test_garbage_in_a_runs_row_holds_nobody_back(cell: object, client: Client, run: int) -> None:
    """K14: it is shown to people, and decides nothing."""
    put(client, "UPDATE laneway_runs SET told = ?, kinds = ?", cell, cell)
    assert reasons(client, 1) == []
