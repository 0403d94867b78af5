"""Children that attack the wire: the attempt ends with its reason, others notice nothing."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from ipc.inlet import refuse_descriptors
from supervisor import events
from supervisor.run.serve import serve
from tests.supervisor import hostile
from tests.supervisor.serving import House, offspring

HOSTILE = str(Path(hostile.__file__))

MiB = 1 << 20

DONE = ("done", None)
DIED = ("died", "died")
HUNG_UP = ("died", "hung_up")
LATE = ("timed_out", "batch_deadline")
LIMITS: dict[tuple[str, str | None], dict[str, float]] = {LATE: {"batch_deadline": 1.0}}


def refused(code: str) -> tuple[str, str]:
    return "failed", code


def whose_descriptors_come() -> str:
    """Name how it ends: a newer kernel refuses them to the sender, else the supervisor does."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return "raised" if refuse_descriptors(ours) else "descriptors"


ENDS = {
    "batch 0": refused("order"),
    "batch 1 again": refused("order"),
    "batch 3 before batch 2": refused("order"),
    "the last number there is": refused("order"),
    "done after no batch": refused("order"),
    "done after the last number there is": refused("order"),
    "failed after batches that were never sent": refused("order"),
    "a header of more rows": refused("row_type"),
    "a header of fewer rows": refused("row_type"),
    "a header of endless rows": refused("rows"),
    "a header of more columns": refused("row_type"),
    "a header of endless columns": refused("row_type"),
    "a header of bytes where text is": refused("row_type"),
    "a header of names for other columns": refused("row_type"),
    "rows that are a map": refused("row_type"),
    "rows that nest": refused("row_type"),
    "a million tiny batches": refused("credit"),
    "a million tiny reads": refused("order"),
    "a million starts": refused("order"),
    "batches outside of its credit": refused("credit"),
    "answers that it never reads": refused("unread"),
    "a ready of a million kinds": refused("message"),
    "a failed of a million bases": refused("message"),
    "a tag of half a frame": refused("message"),
    "a tag that can be decoded": refused("message"),
    "a read of a million arguments": LATE,
    "rows nested without end": refused("message"),
    "half a batch and silence": LATE,
    "half a batch and death": DIED,
    "half a length and silence": LATE,
    "a length and silence": LATE,
    "garbage after done": DONE,
    "two dones": DONE,
    "failed after done": DONE,
    "batches after done": DONE,
    "silence after done": DONE,
    "shut for writing": HUNG_UP,
    "shut for reading": LATE,
    "shut both ways": HUNG_UP,
    "another socket in its place": HUNG_UP,
    "an urgent byte": DONE,
    "descriptors sent along": refused(whose_descriptors_come()),
    "one byte at a time": DONE,
}
"""What a child does to the wire -> how its attempt ends, and with which code."""

LANDED = {
    "batches outside of its credit": (2, 3),  # more where the first lands while the last is on its way
    "half a batch and silence": (2,),
    "half a batch and death": (2,),
    "an urgent byte": (2,),
    "one byte at a time": (3,),
}
"""Whole batches that came before the harm; one in all other cases."""

KEPT = {deed: '"kept"' for deed in ENDS if deed.endswith((" after done", " dones"))}
"""Results: the first last word counts."""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, app=HOSTILE)


class Meeting:
    """A hostile job, one that works beside it, and a quick one after it, on two slots."""

    def __init__(self, house: House, deed: str, **options: Any) -> None:
        self.house = house
        paths = {name: str(house.settings.folder / name) for name in ("beside", "over")}
        self.job = house.enqueue("hostile", paths | {"deed": deed}, **options)
        self.beside = house.enqueue("bystander", paths)
        self.after = house.enqueue("quick")
        self._over = Path(paths["over"])
        self.grown = 0

    def report(self, event: events.Event) -> None:
        self.house.events.append(event)
        if isinstance(event, events.AttemptEnded) and event.job == self.after:
            self._over.touch()

    def take_place(self) -> dict[str, Any]:
        """Serve until all three are over, check the other two, and return the hostile attempt."""
        before, children = descriptors(), offspring()
        house = self.house
        with Peak() as peak:
            served = serve(house.application, house.settings, until_idle=True, report=self.report)
        self.grown = peak.grown
        assert served.ended == "idle"
        assert descriptors() == before
        assert offspring() == children
        self.check_others()
        (attempt,) = house.attempts(self.job)
        return attempt

    def check_others(self) -> None:
        for job in (self.beside, self.after):
            (attempt,) = self.house.attempts(job)
            assert (attempt["outcome"], attempt["kill"]) == ("done", None)
        rows = self.house.items(self.beside)
        assert [n for n, _ in rows] == list(range(len(rows))), "each row once, in order"
        assert len(self.house.items(self.after)) == 3


class Peak:
    """How far this process's memory rose above where it was, as the kernel counts it."""

    grown = 0

    def __enter__(self) -> "Peak":
        Path("/proc/self/clear_refs").write_text("5")
        self._before = held("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.grown = held("VmHWM") - self._before


def held(which: str) -> int:
    """Return VmRSS or VmHWM, the most there was since that was last asked for anew, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(which))


def descriptors() -> dict[str, str]:
    """What this process, in which the supervisor runs, has open."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the folder that was being read
            continue
    return found


@pytest.mark.parametrize("deed", hostile.DEEDS)
def test_whatever_a_child_does_to_the_wire_its_attempt_ends_with_its_reason(house: House, deed: str) -> None:
    """C150, C151, C155, C161, K2, K3, FIELD A3, FIELD D1: what came in whole before the harm has landed."""
    meeting = Meeting(house, deed, **LIMITS.get(ENDS[deed], {}))
    attempt = meeting.take_place()
    assert (attempt["outcome"], attempt["error_code"]) == ENDS[deed]
    rows = [n for n, _ in house.items(meeting.job)]
    assert rows == list(range(len(rows)))
    assert len(rows) in LANDED.get(deed, (1,))
    assert house.job(meeting.job)["result"] == KEPT.get(deed)
    assert len((attempt["error"] or {}).get("message", "")) <= 300
    assert meeting.grown < 64 * MiB


def test_a_child_may_close_any_of_its_descriptors_and_only_its_channel_costs_it_the_job(house: House) -> None:
    """C155, C161, FIELD A3: all from 0 on, one after another, beside each other."""
    before = descriptors()
    jobs = [house.enqueue("closes", {"fd": fd}) for fd in range(12)]
    assert house.serve().ended == "idle"
    assert descriptors() == before
    ends = {}
    for job in jobs:
        (attempt,) = house.attempts(job)
        (_, what), *rest = house.items(job)
        ends.setdefault(what, set()).add((attempt["outcome"], len(rest)))
    assert ends == {"another": {("done", 1)}, "channel": {("died", 0)}}


def test_a_channel_that_no_longer_blocks_loses_nothing(house: House) -> None:
    """C154: more rows than any socket holds, each larger than it."""
    job = house.enqueue("unblocked")
    assert house.serve().ended == "idle"
    assert house.job(job)["state"] == "done"
    assert [n for n, _ in house.items(job)] == list(range(40))


def test_a_child_has_no_descriptor_of_a_sibling(house: House) -> None:
    """FIELD B9: nothing through which it could speak for another, or hear that another has ended."""
    paths = [str(house.settings.folder / name) for name in "ab"]
    jobs = [
        house.enqueue("looks", {"mine": mine, "other": other}) for mine, other in (paths, reversed(paths))
    ]
    house.serve()
    mine, other = ({what for _, what in house.items(job)} for job in jobs)
    assert mine
    assert mine.isdisjoint(other)
    assert [sum(is_socket for is_socket, _ in house.items(job)) for job in jobs] == [1, 1]


def test_arguments_of_any_nature_are_refused_in_words(house: House) -> None:
    """C127, C153: and a read that is asked properly after them is answered."""
    job = house.enqueue("asks")
    house.serve()
    *refusals, last = [text for _, text in house.items(job)]
    said = dict(zip(hostile.ARGUMENTS, refusals, strict=True))
    assert {name for name, text in said.items() if text == "it was answered"} == set()
    assert last.startswith("landed: ")
    assert house.job(job)["state"] == "done"
