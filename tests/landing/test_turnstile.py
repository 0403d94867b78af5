"""Writers from outside get in while the lander commits group after group."""

import fcntl
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from landing.connect import open_writer, store_path
from landing.errors import StoreBusy
from landing.transaction import Transaction
from landing.turnstile import TRIES, TRIES_AT_TURNSTILE, TRY_MILLISECONDS, Turnstile, open_lock
from landing.turnstile import stand as stand_at
from tests.landing.stand import PATIENCE, Stand, lander_thread


class Hand:
    """A monotonic clock that only pauses move."""

    def __init__(self) -> None:
        self.now, self.pauses = 100.0, 0

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.pauses += 1


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """The lander's connection to a store that is none of its concern here."""
    with closing(sqlite3.connect(tmp_path / "store.db")) as db:
        yield db


@pytest.fixture
def turnstile(tmp_path: Path, db: sqlite3.Connection, hand: Hand) -> Iterator[Turnstile]:
    with closing(Turnstile(tmp_path, db, lambda: hand.now, hand.pause)) as turnstile:
        yield turnstile


def is_held(home: Path) -> bool:
    fd = open_lock(home)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        fd.close()
    return False


def test_nobody_there_costs_no_time(turnstile: Turnstile, hand: Hand, tmp_path: Path) -> None:
    """K7."""
    turnstile.step_aside()
    assert hand.pauses == 0
    assert not is_held(tmp_path)


def test_the_lander_waits_at_most_fifty_milliseconds_and_then_ignores_the_waiter_for_a_second(
    turnstile: Turnstile, hand: Hand, tmp_path: Path
) -> None:
    """K7."""
    waiter = open_lock(tmp_path)
    fcntl.flock(waiter, fcntl.LOCK_EX)
    turnstile.step_aside()
    assert hand.now == pytest.approx(100.05, abs=0.002)
    paused = hand.pauses
    for later in (0.0, 0.5, 0.99):
        hand.now = 100.05 + later
        turnstile.step_aside()
    assert hand.pauses == paused
    hand.now = 101.1
    turnstile.step_aside()
    assert hand.pauses > paused
    waiter.close()


def at_the_third_pause(hand: Hand, act: Callable[[], object]) -> Callable[[float], None]:
    """A pause in whose third call something happens."""

    def pause(seconds: float) -> None:
        hand.pause(seconds)
        if hand.pauses == 3:
            act()

    return pause


def test_the_lander_goes_on_as_soon_as_the_waiter_is_through(
    tmp_path: Path, db: sqlite3.Connection, hand: Hand
) -> None:
    """K7."""
    waiter = open_lock(tmp_path)
    fcntl.flock(waiter, fcntl.LOCK_EX)
    pause = at_the_third_pause(hand, lambda: fcntl.flock(waiter, fcntl.LOCK_UN))
    with closing(Turnstile(tmp_path, db, lambda: hand.now, pause)) as turnstile:
        turnstile.step_aside()
        assert hand.pauses == 3
        turnstile.step_aside()
    waiter.close()


def test_where_others_wait_still_but_one_got_in_it_was_not_in_vain(stand: Stand, hand: Hand) -> None:
    """K7: eight writers in a row would else be ignored for a second because the last of them still waits."""
    waiter = open_lock(stand.home)
    fcntl.flock(waiter, fcntl.LOCK_EX)
    pause = at_the_third_pause(hand, stand.enqueue)
    with (
        closing(open_writer(store_path(stand.home))) as db,
        closing(Turnstile(stand.home, db, lambda: hand.now, pause)) as turnstile,
    ):
        turnstile.step_aside()
        assert hand.now == pytest.approx(100.05, abs=0.002)
        paused = hand.pauses
        turnstile.step_aside()
        assert hand.pauses == 2 * paused, "it steps aside again"
        turnstile.step_aside()
        assert hand.pauses == 2 * paused, "and now it was in vain"
    waiter.close()


def test_a_store_that_cannot_say_who_committed_makes_it_a_wait_in_vain(
    turnstile: Turnstile, db: sqlite3.Connection, hand: Hand, tmp_path: Path
) -> None:
    """K7, A4: what is wrong with it is for the next BEGIN to say."""
    (tmp_path / "store.db").write_bytes(b"no database" * 1000)
    waiter = open_lock(tmp_path)
    fcntl.flock(waiter, fcntl.LOCK_EX)
    turnstile.step_aside()
    paused = hand.pauses
    turnstile.step_aside()
    assert hand.pauses == paused
    waiter.close()


def test_one_stands_at_the_turnstile_until_it_steps_aside_for_the_next(tmp_path: Path) -> None:
    """K7."""
    first, second = open_lock(tmp_path), open_lock(tmp_path)
    stand_at(first, aside=False)
    stand_at(first, aside=False)
    stand_at(second, aside=False)
    second.close()
    assert is_held(tmp_path)
    stand_at(first, aside=True)
    assert not is_held(tmp_path)
    first.close()


def test_a_writer_that_never_gets_in_gives_up_with_the_stores_error(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7, A4, U38."""
    monkeypatch.setattr("landing.turnstile.TRIES", 12)
    monkeypatch.setattr("landing.turnstile.TRIES_AT_TURNSTILE", 5)
    monkeypatch.setattr("landing.turnstile.TRY_MILLISECONDS", 2)
    with closing(open_writer(store_path(stand.home))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="kept the store locked for too long") as busy:
            stand.enqueue()
        assert busy.value.code == "database_error"
        other.execute("ROLLBACK")
    assert stand.enqueue() == 1
    assert not is_held(stand.home)


def test_a_writer_stands_at_the_turnstile_while_it_waits(stand: Stand) -> None:
    """K7."""
    with closing(open_writer(store_path(stand.home))) as other:
        other.execute("BEGIN IMMEDIATE")
        writer = threading.Thread(target=stand.enqueue)
        writer.start()
        until = time.monotonic() + PATIENCE
        while not is_held(stand.home):
            assert time.monotonic() < until
        other.execute("ROLLBACK")
        writer.join()
    assert not is_held(stand.home)


def test_a_writer_lets_the_next_one_stand_there_after_five_seconds(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7: 625 tries of 8 ms."""
    assert TRIES_AT_TURNSTILE * TRY_MILLISECONDS == 5_000
    assert TRIES * TRY_MILLISECONDS == 30_000
    asides: list[bool] = []
    monkeypatch.setattr("landing.turnstile.stand", lambda fd, aside: asides.append(aside))
    monkeypatch.setattr("landing.turnstile.TRIES", 7)
    monkeypatch.setattr("landing.turnstile.TRIES_AT_TURNSTILE", 3)
    monkeypatch.setattr("landing.turnstile.TRY_MILLISECONDS", 1)
    with closing(open_writer(store_path(stand.home))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            stand.enqueue()
    assert asides == [False, False, True, False, False, True, False]


def test_the_turnstile_is_free_again_once_the_writer_is_in(stand: Stand) -> None:
    """K7: held while it waits, not while it writes."""

    class Look:
        def apply(self, tx: Transaction) -> bool:
            return is_held(stand.home)

    assert stand.write(Look()) is False


@pytest.mark.parametrize("waiting", [True, False])
def test_the_lander_steps_aside_before_each_group(stand: Stand, waiting: bool) -> None:
    """K7: its clock here goes on by a millisecond at every look."""
    looks = count()
    seen = []

    class Look:
        def apply(self, tx: Transaction) -> None:
            seen.append(next(looks))

    waiter = open_lock(stand.home)
    if waiting:
        fcntl.flock(waiter, fcntl.LOCK_EX)
    with lander_thread(stand.home, monotonic=lambda: next(looks) / 1000) as thread:
        thread.ask(Look())
    waiter.close()
    assert (seen[0] >= 50) is waiting
