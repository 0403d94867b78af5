"""Children that say how it went, each in another odd way, and children that do not leave after that."""

import atexit
import ctypes
import os
import select
import sys
import threading
import time
from typing import Any

from unruly import Context, Jobs, Pairs, application, channel_of, child, land, until_beside

app = application("speaking")
speaks = child(app)


# --- what it raises


@speaks
def leaves_by_sys_exit(job: Jobs, ctx: Context) -> None:
    sys.exit(7)


@speaks
def leaves_by_sys_exit_0(job: Jobs, ctx: Context) -> None:
    sys.exit()


@speaks
def interrupts_itself(job: Jobs, ctx: Context) -> None:
    raise KeyboardInterrupt


@speaks
def stops_the_iteration(job: Jobs, ctx: Context) -> None:
    raise StopIteration


@speaks
def leaves_its_generator(job: Jobs, ctx: Context) -> None:
    raise GeneratorExit


@speaks
def recurses_without_end(job: Jobs, ctx: Context) -> None:
    recurses_without_end(job, ctx)


@speaks
def asks_for_input(job: Jobs, ctx: Context) -> None:
    input("your name? ")


class Unspeakable(Exception):
    """Whoever asks for its text dies of it."""

    def __str__(self) -> str:  # noqa: PLE0307 - it does not return
        os._exit(9)

    __repr__ = __str__


@speaks
def raises_what_kills_who_reads_it(job: Jobs, ctx: Context) -> None:
    raise Unspeakable("a", Unspeakable("b"))


@speaks
def raises_what_nobody_can_name(job: Jobs, ctx: Context) -> None:
    class Hostile(type):
        __name__ = property(lambda cls: os._exit(9))  # type: ignore[assignment]

        def __instancecheck__(cls, other: object) -> bool:
            os._exit(9)

    class Nameless(Exception, metaclass=Hostile):
        pass

    raise Nameless


@speaks
def raises_a_huge_text(job: Jobs, ctx: Context) -> None:
    raise ValueError("x" * 100_000_000)


@speaks
def raises_text_that_is_none(job: Jobs, ctx: Context) -> None:
    raise ValueError("\ud800 \0 \x1b[31m \N{CLOWN FACE}")


@speaks
def raises_a_chain_without_end(job: Jobs, ctx: Context) -> None:
    error: Exception = ValueError("0")
    for n in range(10_000):
        one = ValueError(str(n))
        one.__cause__ = error
        error = one
    raise error


@speaks
def raises_a_group_of_groups(job: Jobs, ctx: Context) -> None:
    error: Exception = ValueError("inmost")
    for n in range(500):
        error = ExceptionGroup(f"group {n}", [error])
    raise error


# --- after its word


@speaks
def leaves_threads_behind(job: Jobs, ctx: Context) -> None:
    for _ in range(5):
        threading.Thread(target=threading.Event().wait).start()


@speaks
def leaves_a_busy_thread_behind(job: Jobs, ctx: Context) -> None:
    threading.Thread(target=busy).start()


def busy() -> None:
    while True:
        pass


@speaks
def hangs_at_its_exit(job: Jobs, ctx: Context) -> None:
    atexit.register(threading.Event().wait)


@speaks
def dies_at_its_exit(job: Jobs, ctx: Context) -> None:
    atexit.register(os.abort)


@speaks
def keeps_the_gil_after_its_word(job: Jobs, ctx: Context) -> None:
    """A thread waits until the other end hangs up, after the last word, and then lets nobody go on."""
    hangup = select.poll()
    hangup.register(channel_of(ctx), select.POLLRDHUP)
    threading.Thread(target=lambda: (hangup.poll(), ctypes.PyDLL(None).pause())).start()
    atexit.register(time.sleep, 3600)


class Sticky:
    """Objects whose end is an error."""

    def __del__(self) -> None:
        raise RuntimeError("let me live")


@speaks
def has_objects_that_do_not_want_to_go(job: Jobs, ctx: Context) -> None:
    for _ in range(100):
        Sticky()


@child(app, batch_deadline=0.5, grace=10.0)
def hangs_in_its_cleanup(job: Jobs, ctx: Context) -> Pairs:
    """Its row is refused, so its generator is closed, which takes for ever."""
    try:
        yield 1, object()  # type: ignore[misc]
    finally:
        threading.Event().wait()  # cleanup


@speaks
def yields_in_its_cleanup(job: Jobs, ctx: Context) -> Pairs:
    try:
        yield 1, object()  # type: ignore[misc]
    finally:
        yield 2, "one more"


# --- what it returns


class Nothing:
    """A result that is no data, and that kills whoever looks at it."""

    def __repr__(self) -> str:
        os._exit(9)

    __str__ = __repr__


def endless() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["itself"] = value
    return value


RESULTS: dict[str, Any] = {
    "an object": Nothing,
    "a dict of itself": endless,
    "no number": lambda: float("nan"),
    "a huge text": lambda: "x" * 100_000_000,
    "a huge number": lambda: 10**100_000,
    "bytes": lambda: b"\xff",
    "a class": lambda: Nothing,
    "a module": lambda: sys,
    "a lone surrogate": lambda: {"\ud800": "\ud800"},
}


@app.lane("returns", max_attempts=1, batch_deadline=20)
def returns(job: Jobs, ctx: Context) -> Any:
    for _ in until_beside(job):
        pass
    return RESULTS[job.payload["what"]]()


returns.lander(land)
