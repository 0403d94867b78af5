"""The one wait: descriptors, posted calls, signals, time that was lost."""

import os
import signal
import threading

import pytest

from supervisor import sensors
from supervisor.loop import MAX_WAIT, READ, Loop


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_call_posted_from_another_thread_wakes_the_loop_and_runs_on_it() -> None:
    loop = Loop(sensors.monotonic)
    seen: list[tuple[str, int]] = []
    call = lambda answer: seen.append((answer, threading.get_ident()))  # noqa: E731
    thread = threading.Thread(target=loop.post, args=(call, "hello"))
    thread.start()
    while not seen:
        loop.turn(float("inf"))
    assert seen == [("hello", threading.get_ident())]
    thread.join()
    loop.close()


def test_a_call_posted_by_a_call_runs_in_the_next_turn() -> None:
    loop = Loop(sensors.monotonic)
    seen: list[int] = []

    def again(n: int) -> None:
        seen.append(n)
        if n < 3:
            loop.post(again, n + 1)

    loop.post(again, 1)
    loop.turn(0.0)
    assert seen == [1]
    loop.turn(0.0)
    loop.turn(0.0)
    assert seen == [1, 2, 3]
    loop.close()


def test_a_ready_descriptor_calls_back_until_it_is_unwatched() -> None:
    loop = Loop(sensors.monotonic)
    read, write = os.pipe()
    seen: list[int] = []
    loop.watch(read, READ, seen.append)
    os.write(write, b"x")
    loop.turn(float("inf"))
    loop.turn(float("inf"))
    assert seen == [READ, READ]
    loop.unwatch(read)
    loop.unwatch(read)
    loop.turn(0.0)
    assert seen == [READ, READ]
    loop.close()
    os.close(read)
    os.close(write)


def test_a_callback_that_unwatches_another_ready_descriptor_is_obeyed() -> None:
    loop = Loop(sensors.monotonic)
    pairs = [os.pipe() for _ in range(2)]
    seen: list[int] = []

    def only_one(fd: int, other: int) -> None:
        seen.append(fd)
        loop.unwatch(other)

    (a, _), (b, _) = pairs
    loop.watch(a, READ, lambda _e: only_one(a, b))
    loop.watch(b, READ, lambda _e: only_one(b, a))
    for _, write in pairs:
        os.write(write, b"x")
    loop.turn(float("inf"))
    assert len(seen) == 1
    loop.close()
    for pair in pairs:
        for fd in pair:
            os.close(fd)


def test_a_signal_runs_its_call_on_the_loop_and_the_old_handler_comes_back() -> None:
    """STYLE 4: a handler leaves a note and rings the bell."""
    loop = Loop(sensors.monotonic)
    before = signal.getsignal(signal.SIGUSR1)
    seen: list[str] = []
    with loop.signals((signal.SIGUSR1,), lambda number: seen.append(signal.Signals(number).name)):
        os.kill(os.getpid(), signal.SIGUSR1)
        while not seen:
            loop.turn(float("inf"))
    assert seen == ["SIGUSR1"]
    assert signal.getsignal(signal.SIGUSR1) is before
    loop.close()


def test_time_in_which_nobody_ran_is_told_and_waiting_is_not() -> None:
    """K5: a callback that held the thread, a machine that slept."""
    clock = HandClock()
    loop = Loop(clock)
    assert loop.turn(clock.now) == 0.0
    clock.now += 7.0
    assert loop.turn(clock.now) == 7.0
    assert loop.turn(clock.now) == 0.0
    clock.now += 0.9
    assert loop.turn(clock.now) == 0.0
    loop.close()


def test_who_posts_to_a_loop_that_is_closed_harms_nobody() -> None:
    """K11: a lander that did not come back in time answers later, and its pipe's number is another file's."""
    loop = Loop(sensors.monotonic)
    loop.close()
    read, write = os.pipe()
    os.set_blocking(read, False)
    loop.post(print, "too late")
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    os.close(read)
    os.close(write)


def test_no_wait_is_longer_than_a_second() -> None:
    """K10."""
    loop = Loop(sensors.monotonic)
    start = sensors.monotonic()
    loop.turn(float("inf"))
    assert sensors.monotonic() - start < MAX_WAIT + 5.0
    loop.close()
