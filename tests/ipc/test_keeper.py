"""The supervisor's side of a guardian: what it understands, and what becomes of one that does not listen."""

import errno
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ipc.guardian import orders
from ipc.inlet import Inlet
from ipc.keeper import Beside, Crossed, Failed, Keeper, Left, Over, Started, read
from tests.ipc.kept import Kept, alive, state_of

KIB = 1 if sys.platform == "darwin" else 1024


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("started 7 0 guardian cold", Started(7, 0, "guardian", "cold")),
        ("started 7 5 cgroup template", Started(7, 5, "cgroup", "template")),
        ("started 7 0 group cold it has 2 threads", Started(7, 0, "group", "cold it has 2 threads")),
        ("failed no such file", Failed("no such file")),
        ("failed ", Failed("")),
        ("failed 11 no room", Failed("no room", 11)),
        ("failed 0 12 monkeys", Failed("12 monkeys")),
        ("crossed 5 2", Crossed(5, 2)),
        ("beside 0 4096", Beside(0, 4096)),
        ("left 3 4 5", Left((3, 4, 5))),
        ("over -9 6 10 1500", Over(-9, 6, 10 * KIB, 1.5)),
    ],
)
def test_a_line_tells_what_a_guardian_says(text: str, told: object) -> None:
    assert read(text) == told


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "over", "over 1 2 3", "over 1 2 3 4 5"),
        *("over one 2 3 4", "over  1 2 3 4", "over 1.5 2 3 4", "nonsense 1 2", "Over 1 2 3 4"),
        *("started 7", "started 7 0", "started x 0 guardian cold", "crossed 1", "beside 1 2 3", "left x"),
        *("over 1 2 3 " + "9" * 19, "over 1 2 3 " + "9" * 9000, "over 1\n 2 3 4"),
    ],
)
def test_nonsense_tells_nothing(text: str) -> None:
    """A job has its user's rights, and might speak in its guardian's place: nothing it says is trusted."""
    assert read(text) is None


@pytest.fixture
def forged(kept: Kept) -> socket.socket:
    """The other end of a lifeline, in the hands of somebody else."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    kept.keeper._inlet.close()
    kept.keeper._lifeline, kept.keeper._inlet = ours, Inlet(ours)
    return theirs


@pytest.mark.parametrize(
    "noise",
    [
        b"\xff\xfe\x00\n",
        b"left \xc3\n",
        "failed é".encode()[:-1] + b"\n",
        b"\n\n\n",
        b"x" * 300_000,
        bytes(64),
    ],
)
def test_hostile_bytes_on_a_lifeline_are_left_out_and_bounded(
    forged: socket.socket, kept: Kept, noise: bytes
) -> None:
    """C150: and what comes after them in a line of its own is understood."""
    forged.setblocking(False)
    left = noise + b"\nbeside 1 2\n"
    told = []
    while left:
        left = left[forged.send(left) :]
        told += kept.keeper.receive()
        assert len(kept.keeper._heard) <= orders.LINE
    while Beside(1, 2) not in told:
        told += kept.keeper.receive()
    assert told[-1] == Beside(1, 2)
    assert all(isinstance(one, Failed) for one in told[:-1])
    forged.close()
    assert kept.keeper.receive() == []
    assert kept.keeper.gone
    kept.keeper.kill()


def test_a_line_that_was_cut_in_a_letter_is_told_all_the_same(forged: socket.socket, kept: Kept) -> None:
    """Its length is counted in letters by who says it, and in bytes by who reads it."""
    forged.sendall(orders.line(orders.FAILED, "é" * orders.LINE))
    (told,) = kept.keeper.receive()
    assert isinstance(told, Failed)
    assert told.why.startswith("ééé")
    forged.close()


def test_an_order_that_is_too_long_is_refused_and_the_guardian_stays_free(kept: Kept) -> None:
    """It would arrive in part, and never be obeyed."""
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="longer than 128 KiB") as refusal:
        kept.start(env={"LARGE": "x" * orders.LONGEST})
    assert refusal.value.errno == errno.E2BIG
    assert kept.keeper.free
    assert len(os.listdir("/proc/self/fd")) == before
    child = kept.over(kept.start("import os; print(len(os.environ['LARGE']))", env={"LARGE": "x" * 100_000}))
    assert child.log.text() == "100000\n"


def test_a_guardian_that_takes_no_orders_is_put_down(kept: Kept) -> None:
    """One that is stopped for long: when there is no room for an order, what it keeps is taken over."""
    child = kept.up()
    os.kill(kept.keeper.pid, signal.SIGSTOP)
    kept.wait_for(lambda: state_of(kept.keeper.pid) == "T")
    with suppress(BlockingIOError):
        while True:
            kept.keeper._lifeline.send(orders.pack(orders.ASK))
    kept.keeper.kill()
    kept.wait_for(lambda: kept.keeper.gone)
    kept.wait_for(lambda: child.pid not in alive(kept.marker))
    assert kept.keeper._process.wait(20) == -signal.SIGKILL


def test_an_order_to_a_guardian_that_is_gone_signals_nobody(kept: Kept) -> None:
    kept.keeper.put_down()
    kept.wait_for(lambda: kept.keeper.gone)
    kept.wait_for(kept.keeper.reap)
    kept.keeper.kill()
    kept.keeper.let_go()
    child = kept.start()
    assert child.pid == 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_guardian_that_cannot_be_started_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError):
        Keeper({}, tmp_path / "lock")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_guardian_without_its_lock_leaves_at_once(tmp_path: Path) -> None:
    """CONTRACTS K9: the folder of the store is gone, and with it the run."""
    keeper = Keeper({}, tmp_path / "gone" / "lock")
    assert keeper._process.wait(20) == 0
    assert keeper.receive() == []
    assert keeper.gone
    keeper.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc on this system")
def test_a_guardian_keeps_none_of_its_callers_files_open(kept: Kept) -> None:
    """One that cannot be ended would keep whoever reads its caller's output waiting."""
    kept.up()
    assert [os.readlink(f"/proc/{kept.keeper.pid}/fd/{fd}") for fd in range(3)] == ["/dev/null"] * 3


def test_a_guardian_holds_its_lock_until_it_has_ended_what_it_keeps(kept: Kept) -> None:
    """CONTRACTS K9."""
    from fcntl import LOCK_EX, LOCK_NB, flock

    with open(kept.folder / "guardians.lock") as lock:
        kept.up()
        with pytest.raises(BlockingIOError):
            flock(lock, LOCK_EX | LOCK_NB)
        kept.keeper.let_go()
        flock(lock, LOCK_EX)
        assert alive(kept.marker) in ([], [kept.keeper.pid])
