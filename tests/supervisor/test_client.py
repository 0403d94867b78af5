"""The store from outside a supervisor: enqueue, look, wait, cancel, retry, prune."""

import os
import socket
import sqlite3
import threading
from pathlib import Path

import pytest

from landing import views
from landing.connect import store_path
from landing.enqueue import UnknownKind
from landing.errors import InvalidTransition, JobNotFound, NoStore
from landing.retry import DiscardMissing
from landing.snapshot import snapshot
from policies.options import Options
from policies.payload import PayloadRefused
from supervisor.api import App
from supervisor.application import load_application
from supervisor.client import Client, JobRef
from supervisor.errors import OptionRefused, WaitedTooLong
from supervisor.settings.values import Settings


def notes() -> App:
    app = App("notes")

    @app.lane("embed", priority=7)
    def embed(job, ctx):
        yield 1

    return app


def test_an_enqueue_makes_the_store_and_declares_the_application(tmp_path: Path) -> None:
    """K7, K15, A1, C70: one file, made by whoever comes first."""
    client = Client(tmp_path / "home", notes())
    assert client.enqueue("embed", {"a": [1, None, "é"]}) == JobRef(1, "created")
    row = client.job(1)
    assert (row["kind"], row["state"], row["priority"], row["payload"]) == (
        "embed",
        "queued",
        7,
        '{"a":[1,null,"é"]}',
    )
    assert client.kinds()["embed"]["app"] == "notes"
    assert store_path(client.home).stat().st_mode & 0o777 == 0o600


def test_without_an_application_the_stores_kinds_and_the_built_in_ones_are_known(tmp_path: Path) -> None:
    """K7."""
    Client(tmp_path, notes()).enqueue("embed")
    client = Client(str(tmp_path))
    assert client.enqueue("embed").id == 2
    assert client.enqueue("vault_sync", {"root": "/"}).id == 3
    assert client.kinds()["vault_sync"]["app"] == "laneway"


def test_an_unknown_kind_is_refused_with_a_suggestion_and_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnknownKind) as caught:
        Client(tmp_path / "home", notes()).enqueue("embd")
    assert str(caught.value) == 'unknown kind "embd" (did you mean "embed"?); kinds here: embed, vault_sync'
    assert not (tmp_path / "home").exists()
    client = Client(tmp_path, notes())
    client.enqueue("embed")
    with pytest.raises(UnknownKind):
        client.enqueue("embd")
    assert len(client.jobs()) == 1


def test_the_kind_of_an_older_store_keeps_its_declaration(tmp_path: Path) -> None:
    """A client that is given no application declares only what is missing."""
    Client(tmp_path, notes()).enqueue("embed")
    before = Client(tmp_path).kinds()
    Client(tmp_path).enqueue("embed")
    assert Client(tmp_path).kinds() == before


def test_an_application_with_settings_declares_the_limits_after_them(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path,
        app="supervisor.lanes",
        max_workers=1,
        folder=tmp_path,
        kinds={"vault_sync": {"priority": 3}},
    )
    client = Client(tmp_path, load_application(settings))
    client.enqueue("vault_sync", {"root": "/"})
    assert client.job(1)["priority"] == 3


def test_many_jobs_are_queued_in_one_transaction_or_not_at_all(tmp_path: Path) -> None:
    client = Client(tmp_path, notes())
    jobs = client.enqueue_many("embed", [{"n": n} for n in range(100)])
    assert [job.id for job in jobs] == list(range(1, 101))
    with pytest.raises(PayloadRefused, match=r"NaN|nan"):
        client.enqueue_many("embed", [{"n": 1}, {"n": float("nan")}])
    assert len(client.jobs(limit=1000)) == 100
    assert client.enqueue_many("embed", []) == []


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        ({"a": [{"b": "\ud83d"}]}, r"\$\.a\[0\]\.b"),
        ({1: 2}, r"a key at \$"),
        ({"a": object()}, r"\$\.a"),
        (b"bytes", r"\$"),
        ("x" * (1 << 20), "at most 1048576"),
    ],
    ids=["surrogate", "key", "object", "bytes", "large"],
)
def test_a_bad_payload_is_refused_with_its_place(payload: object, place: str, tmp_path: Path) -> None:
    """K15."""
    with pytest.raises(PayloadRefused, match=place):
        Client(tmp_path, notes()).enqueue("embed", payload)


def test_a_job_may_bring_its_own_deadlines_priority_and_tag(tmp_path: Path) -> None:
    """K5."""
    client = Client(tmp_path, notes())
    client.enqueue("embed", priority=2, tag="nightly", batch_deadline=1.5, start_deadline=2, job_deadline=0)
    row = client.job(1)
    assert (row["priority"], row["tag"]) == (2, "nightly")
    assert row["options"] == '{"batch_deadline": 1.5, "start_deadline": 2, "job_deadline": 0}'


def test_a_job_may_bring_its_own_memory_limit_in_bytes(tmp_path: Path) -> None:
    """K13."""
    client = Client(tmp_path, notes())
    client.enqueue("embed", memory_limit=2 * 10**9)
    assert client.job(1)["options"] == '{"memory_limit": 2000000000}'
    with pytest.raises(OptionRefused, match="memory_limit 6 is under the 32000000 bytes"):
        client.enqueue("embed", memory_limit=6)


OF_THE_CHILD = ("env", "nice", "network", "shield", "process_limit", "cpu_limit", "open_files_limit")
OF_THE_CHILD += ("file_size_limit", "jobs_per_child", "spawn")


@pytest.mark.parametrize("name", OF_THE_CHILD)
def test_what_makes_the_world_of_a_child_belongs_to_its_kind_and_not_to_a_job(
    name: str, tmp_path: Path
) -> None:
    """K13: a child may be there before the job is."""
    with pytest.raises(OptionRefused, match=f"^a job has no option '{name}'"):
        Client(tmp_path, notes()).enqueue("embed", **{name: getattr(Options(), name)})


def test_all_bad_options_of_a_job_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(OptionRefused) as caught:
        Client(tmp_path, notes()).enqueue(
            "embed", batch_dedline=1, job_deadline=-1, tag=" \n", priority="low"
        )
    assert [line.split(" must ")[0] for line in caught.value.complaints] == [
        "a job has no option 'batch_dedline' (did you mean \"batch_deadline\"?)",
        "job_deadline",
        "tag",
        "priority",
    ]


def test_the_doorbell_rings_after_the_commit(tmp_path: Path) -> None:
    """K10: whoever is woken sees the job."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
        bell.settimeout(10)
        folder = os.open(tmp_path, os.O_RDONLY)
        bell.bind(f"/proc/self/fd/{folder}/doorbell.sock")
        os.close(folder)
        client = Client(tmp_path, notes())
        seen: list[int] = []

        def listen() -> None:
            bell.recv(16)
            seen.append(len(client.jobs()))

        listener = threading.Thread(target=listen)
        listener.start()
        client.enqueue("embed")
        listener.join(10)
    assert seen == [1]


def test_looking_makes_no_store(tmp_path: Path) -> None:
    """K15."""
    client = Client(tmp_path / "home")
    for look in (client.jobs, lambda: client.job(1), lambda: client.logs(1), lambda: client.cancel(1)):
        with pytest.raises(NoStore, match="no store in"):
            look()
    assert client.kinds() == {}
    assert not client.home.exists()


def test_a_half_made_store_is_none_and_the_next_enqueue_makes_it_whole(tmp_path: Path) -> None:
    store_path(tmp_path).touch()
    with pytest.raises(NoStore):
        Client(tmp_path).jobs()
    assert Client(tmp_path, notes()).enqueue("embed").id == 1


def test_a_job_that_is_not_there_is_said(tmp_path: Path) -> None:
    """C95."""
    client = Client(tmp_path, notes())
    client.enqueue("embed")
    for look in (client.job, client.logs, client.cancel, lambda job: client.wait([job])):
        with pytest.raises(JobNotFound, match="no job #9"):
            look(9)


def test_jobs_come_newest_first_in_pages(tmp_path: Path) -> None:
    """C95, C73."""
    client = Client(tmp_path, notes())
    client.enqueue_many("embed", range(5))
    client.enqueue("vault_sync", {"root": "/"})
    client.cancel(2)
    assert [row["id"] for row in client.jobs(limit=2)] == [6, 5]
    assert [row["id"] for row in client.jobs(limit=2, before=5)] == [4, 3]
    assert [row["id"] for row in client.jobs(state="cancelled")] == [2]
    assert [row["id"] for row in client.jobs(state="queued", kind="vault_sync")] == [6]


def test_a_waiting_job_is_cancelled_at_once_and_for_good(tmp_path: Path) -> None:
    """K6, U17."""
    client = Client(tmp_path, notes())
    client.enqueue("embed")
    assert client.cancel(1).state == "cancelled"
    assert client.cancel(1).state == "cancelled"
    assert client.logs(1) == ""
    assert [row["state"] for row in client.wait([1])] == ["cancelled"]


def test_a_done_job_cannot_be_cancelled(tmp_path: Path) -> None:
    client = Client(tmp_path, notes())
    client.enqueue("embed")
    with sqlite3.connect(store_path(tmp_path)) as db:
        db.execute("UPDATE laneway_jobs SET state = 'done' WHERE id = 1")
    db.close()
    with pytest.raises(InvalidTransition, match="job #1 is done"):
        client.cancel(1)


def test_waiting_ends_when_the_jobs_end_or_the_time_is_up(tmp_path: Path) -> None:
    client = Client(tmp_path, notes())
    client.enqueue_many("embed", range(2))
    with pytest.raises(WaitedTooLong) as caught:
        client.wait([1, 2], timeout=0)
    assert (caught.value.ids, str(caught.value)) == ((1, 2), "not ended yet: #1, #2")
    canceller = threading.Thread(target=lambda: [client.cancel(job) for job in (1, 2)])
    canceller.start()
    assert [row["id"] for row in client.wait([2, 1], timeout=20)] == [2, 1]
    canceller.join()


def test_a_client_leaves_nothing_open(tmp_path: Path) -> None:
    client = Client(tmp_path, notes())
    client.enqueue("embed")
    with snapshot(tmp_path):
        pass
    before = set(os.listdir("/proc/self/fd"))
    client.enqueue("embed")
    client.jobs()
    client.cancel(1)
    client.wait([1], timeout=1)
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_cancelled_job_is_retried_and_a_waiting_one_skipped(tmp_path: Path) -> None:
    """A33, A34, A35: the command line calls the same."""
    client = Client(tmp_path, notes())
    client.enqueue_many("embed", range(2))
    with pytest.raises(InvalidTransition, match="job #1 is queued and cannot be retried"):
        client.retry(1)
    client.cancel(1)
    assert client.retry(1).state == "queued"
    assert Client(tmp_path).job(1)["state"] == "queued"
    assert client.skip(2).state == "skipped"
    with pytest.raises(InvalidTransition, match="job #2 is skipped and cannot be retried"):
        client.retry(2)
    with pytest.raises(JobNotFound):
        client.skip(3)


def test_a_retry_with_an_application_declares_it_first(tmp_path: Path) -> None:
    """K4, K7: the discard that the lane has got since is known to the retry that needs it."""
    app = notes()
    Client(tmp_path, app).enqueue("embed")
    with sqlite3.connect(store_path(tmp_path)) as db:
        db.execute("UPDATE laneway_jobs SET state = 'failed', landed_rows = 3 WHERE id = 1")
    db.close()
    with pytest.raises(DiscardMissing):
        Client(tmp_path).retry(1, from_start=True)
    app.lanes["embed"].discard(lambda db, job: None)
    assert Client(tmp_path, app).retry(1, from_start=True).state == "queued"
    assert Client(tmp_path).retry(1, from_start=True).waited
    with snapshot(tmp_path) as db:
        assert views.discard(db, 1) == {"due": True, "possible": True}
    assert Client(tmp_path).ids("queued") == [1]


def test_what_cannot_be_changed_is_answered_beside_what_was(tmp_path: Path) -> None:
    client = Client(tmp_path, notes())
    client.enqueue_many("embed", range(3))
    client.skip(2)
    answers = client.cancel_many([1, 2, 3, 4])
    assert [getattr(one, "state", None) for one in answers] == ["cancelled", None, "cancelled", None]
    assert [str(answers[n]) for n in (1, 3)] == [
        "job #2 is skipped and cannot be cancelled: it has ended",
        "no job #4",
    ]
    assert [one.state for one in client.retry_many([3, 1])] == ["queued", "queued"]


def test_a_prune_takes_what_ended_long_enough_ago(tmp_path: Path) -> None:
    """B26, U33: failed jobs stay unless they are named."""
    client = Client(tmp_path, notes())
    client.enqueue_many("embed", range(5))
    for job in (1, 2):
        client.cancel(job)
    client.skip(3)
    with sqlite3.connect(store_path(tmp_path)) as db:
        db.execute("UPDATE laneway_jobs SET finished_at = finished_at - 3600000000 WHERE id = 1")
        db.execute("UPDATE laneway_jobs SET state = 'failed', finished_at = created_at WHERE id = 4")
    db.close()
    assert client.prunable(60) == 1
    assert client.prune(60).jobs == 1
    assert client.prunable(0, states=["cancelled"]) == 1
    assert client.prune(0, tag="none").jobs == 0
    assert (client.prune(0).jobs, [row["id"] for row in client.jobs()]) == (2, [5, 4])
    assert client.prune(0, states=["failed"], kind="embed").jobs == 1
    with pytest.raises(ValueError, match="lost"):
        client.prune(0, states=["lost"])
