"""The queue from outside a supervisor: keys, tiers, and what is held."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from landing.connect import store_path
from landing.enqueue import KeyInUse, RegisterTiers, UnknownKind, UnknownTier
from landing.errors import InvalidTransition, JobNotFound, NoStore
from landing.runs import CloseRun, OpenRun, Tell
from policies.retry import judge
from policies.routing import Tier
from supervisor import sensors
from supervisor.api import App
from supervisor.application import LoadedApp, checked
from supervisor.client import Client, JobRef
from supervisor.client.change import change
from supervisor.errors import OptionRefused
from supervisor.lock import SupervisorLock
from supervisor.settings.gates import Scheduling
from supervisor.settings.values import Settings
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
    with pytest.raises(UnknownTier, match=r"tiers here: large, minilm, pinned, routine, stretch, synthesis$"):
        Client(tmp_path).enqueue("embed", tier="zebra")


def test_a_kinds_own_tier_has_its_window_from_the_first_job_on(tmp_path: Path) -> None:
    """C113: before any run, for whoever has the settings, or an application that was loaded with them."""
    app = App("warm")

    @app.lane("embed", tier="minilm")
    def embed(job, ctx):
        yield 1

    @embed.lander
    def land(db, job, rows):
        pass

    minilm = {"minilm": Tier("minilm", window=512)}
    settings = Settings(
        home=tmp_path, app=None, max_workers=1, folder=tmp_path, scheduling=Scheduling(tiers=minilm)
    )
    application = checked((LoadedApp("warm.py", app),), settings)
    for number, client in enumerate(
        (Client(tmp_path / "a", app, {"minilm": 512}), Client(tmp_path / "b", application)), 1
    ):
        row = client.job(client.enqueue("embed").id)
        assert (number, row["tier"], row["num_ctx"]) == (number, "minilm", 512)
    blind = Client(tmp_path / "c", app)
    first, second = blind.enqueue("embed").id, Client(tmp_path / "c", application).enqueue("embed").id
    assert [blind.job(job)["num_ctx"] for job in (first, second)] == [0, 512]


def test_a_kind_of_the_table_goes_by_it_whoever_declares_it(tmp_path: Path) -> None:
    """C110, C111, C112, U35: also where nobody has loaded any settings."""
    app = App("ruled")

    @app.lane("dream")
    def dream(job, ctx):
        yield 1

    @app.handler("ambassador", priority=5)
    def ambassador(job, ctx):
        return None

    client = Client(tmp_path, app)
    rows = [client.job(client.enqueue(kind).id) for kind in ("dream", "ambassador", "vault_sync")]
    assert [(row["tier"], row["priority"]) for row in rows] == [
        ("synthesis", 100),
        ("pinned", 5),
        ("pinned", 100),
    ]


# --- a router


def routed(*answers: object) -> tuple[App, list[tuple[str, object]]]:
    """An application with a router that gives these answers, and what it was asked."""
    app, asked, left = notes(), list[tuple[str, object]](), list(answers)

    @app.lane("large", tier="stretch")
    def large(job, ctx):
        yield 1

    @app.lane("dream")
    def dream(job, ctx):
        yield 1

    @app.router
    def choose(kind: str, payload: object) -> object:
        asked.append((kind, payload))
        answer = left.pop(0) if left else "synthesis"
        if isinstance(answer, Exception):
            raise answer
        return answer

    return app, asked


def test_a_router_decides_the_tier_of_a_kind_that_nobody_has_routed(tmp_path: Path) -> None:
    """C110: rules first; it sees kind and payload, and the priority stays the kind's."""
    app, asked = routed("minilm", "stretch")
    client = Client(tmp_path, app, {"minilm": 512, "stretch": 0, "synthesis": 0})
    refs = client.enqueue_many("embed", [{"n": (1, 2)}, 2])
    refs += [client.enqueue("large"), client.enqueue("dream"), client.enqueue("vault_sync")]
    refs += [client.enqueue("embed", tier="synthesis"), client.enqueue("embed", tier="")]
    rows = [client.job(ref.id) for ref in refs]
    assert [(row["kind"], row["tier"], row["num_ctx"], row["priority"]) for row in rows] == [
        ("embed", "minilm", 512, 50),
        ("embed", "stretch", 0, 50),
        ("large", "stretch", 0, 50),
        ("dream", "synthesis", 0, 100),
        ("vault_sync", "pinned", 0, 100),
        ("embed", "synthesis", 0, 50),
        ("embed", "", 0, 50),
    ]
    assert asked == [("embed", {"n": [1, 2]}), ("embed", 2)]
    assert {ref.warning for ref in refs} == {""}


@pytest.mark.parametrize(
    ("answer", "warning"),
    [
        (OSError("no model"), "the router raised OSError"),
        ("minlm", "the router said 'minlm', which is no tier"),
        ("", "the router said '', which is no tier"),
        (512, "the router said no tier but a value of type int"),
    ],
)
def test_a_router_that_is_of_no_use_costs_a_warning_and_no_job(
    tmp_path: Path, answer: object, warning: str
) -> None:
    """C110: the job goes where it would have gone without a router."""
    client = Client(tmp_path, routed(answer)[0])
    assert client.enqueue("embed") == JobRef(1, "created", warning)
    assert client.job(1)["tier"] == ""
    assert client.enqueue("embed") == JobRef(2, "created")
    assert client.job(2)["tier"] == "synthesis"


def test_a_router_may_know_no_tier(tmp_path: Path) -> None:
    """C110: the rules decide, and nobody is warned."""
    client = Client(tmp_path, routed(None)[0])
    assert client.enqueue("embed") == JobRef(1, "created")
    assert client.job(1)["tier"] == ""


def test_a_store_knows_which_kinds_a_router_may_be_asked_about(tmp_path: Path) -> None:
    """C110: those of an application that has one now, of which nobody has said a tier."""
    elsewhere = Client(tmp_path)
    assert not elsewhere.has_router("embed"), "there is no store"
    Client(tmp_path, routed()[0]).enqueue("embed")
    kinds = ("embed", "large", "dream", "vault_sync", "unheard")
    assert [elsewhere.has_router(kind) for kind in kinds] == [True, False, False, False, False]
    Client(tmp_path, notes()).enqueue("embed")
    assert not elsewhere.has_router("embed"), "the application has lost it"


def test_a_router_is_asked_by_whoever_has_the_application_loaded(tmp_path: Path) -> None:
    """C110: elsewhere the rules decide."""
    app, asked = routed()
    Client(tmp_path, app).enqueue("embed")
    elsewhere = Client(tmp_path)
    elsewhere.enqueue("embed")
    assert [elsewhere.job(job)["tier"] for job in (1, 2)] == ["synthesis", ""]
    assert asked == [("embed", None)]


def test_a_router_knows_the_tiers_that_a_run_has_told_the_store(tmp_path: Path) -> None:
    """C110."""
    app, _asked = routed("minilm")
    client = Client(tmp_path, app)
    change(tmp_path, RegisterTiers({"minilm": 512}), create_missing=True)
    ref = client.enqueue("embed")
    assert (ref.warning, client.job(ref.id)["num_ctx"]) == ("", 512)


def test_what_a_router_says_makes_no_other_request_of_the_same(tmp_path: Path) -> None:
    """C74, A9, U2: it may change its mind, and more urgent requests still promote."""
    app, _asked = routed("synthesis", "stretch", "synthesis", None)
    client = Client(tmp_path, app)
    assert client.enqueue("report", 1) == JobRef(1, "created")
    assert client.enqueue("report", 1, priority=10) == JobRef(1, "coalesced")
    assert client.enqueue("ingest", 1) == JobRef(2, "created")
    assert client.enqueue("ingest", 1) == JobRef(2, "existing")
    row = client.job(1)
    assert (row["tier"], row["priority"]) == ("synthesis", 10)
    with sqlite3.connect(store_path(tmp_path)) as db:
        group = "SELECT g.tier, g.priority FROM laneway_jobs j JOIN laneway_groups g ON g.id = group_id"
        assert db.execute(f"{group} WHERE j.id = 1").fetchall() == [("synthesis", 10)]
    db.close()


def test_an_application_has_one_router_that_takes_kind_and_payload() -> None:
    """C110: one typed error."""
    app, _asked = routed()
    with pytest.raises(ValueError, match=r"^app 'notes' has a router already$"):
        app.router(lambda kind, payload: None)
    with pytest.raises(ValueError, match=r"^the router of app 'bare' must take \(kind, payload\), not"):
        App("bare").router(lambda kind: None)  # type: ignore[arg-type]


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


def test_a_kind_that_nobody_has_declared_is_held_where_there_are_jobs_of_it(client: Client) -> None:
    """U23, U27: else the next run would fail what was imported."""
    client.enqueue("embed")
    with closing(sqlite3.connect(client.home / "store.db")) as db, db:
        db.execute("DELETE FROM laneway_kinds WHERE kind = 'embed'")
    assert Client(client.home).hold_kind("embed", "not yet") is True


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
