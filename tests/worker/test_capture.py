"""Exceptions of any nature become bounded text, and none of their code runs (SPEC B51-B58, U22)."""

import linecache
import sys
from pathlib import Path

import pytest

from ipc.capture import capture, frames_of
from ipc.endings import Ending, Fail, Retry, Skip
from ipc.messages import Batch, Done, Failed, encoder, up_decoder


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return caught


class Hostile(type):
    """A metaclass whose every hook is a trap."""

    def __getattribute__(cls, name):
        raise AssertionError(f"asked the metaclass for {name}")

    def __eq__(cls, other):
        raise AssertionError("compared the class")

    def __hash__(cls):
        raise AssertionError("hashed the class")


def trap(*_):
    raise AssertionError("a hook of the exception ran")


Trapped = Hostile(
    "Trapped",
    (Exception,),
    dict.fromkeys(
        ["__str__", "__repr__", "__getattribute__", "__hash__", "__eq__", "__bool__", "__len__"], trap
    )
    | {
        "args": property(trap),
        "__cause__": property(trap),
        "__traceback__": property(trap),
        "__dict__": property(trap),
    },
)


class LyingText(str):
    __str__ = __repr__ = __len__ = __getitem__ = encode = trap


def test_no_hook_of_a_hostile_exception_runs():
    """B58: neither str nor repr nor attributes nor its metaclass are asked."""
    seen = capture(raised(Trapped("plain text")))
    assert (seen.type, seen.message, seen.disposition) == ("Trapped", "plain text", "unstated")
    assert seen.bases == [f"{__name__}.Trapped", "Exception", "BaseException"]
    assert seen.traceback.endswith("Trapped: plain text\n")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("as it is"), "as it is"),
        (ValueError(), "<ValueError raised>"),
        (ValueError("a", 2, None), '"a", 2, None'),
        (KeyError("k"), "k"),
        (SystemExit(3), "3"),
        (ValueError(LyingText("x")), "<LyingText>"),
        (ValueError(object(), {"k": b"\xff"}), '<object>, {"k": <bytes of 1: ff>}'),
        (ValueError("x" * 5000), "x" * 1000),
        (ValueError("lone \ud800"), "lone \\ud800"),
        (ValueError("\ud800" * 1000), "\\ud800" * 166 + "\\ud8"),
        (FileNotFoundError(2, "No such file", "a.txt"), '2, "No such file", "a.txt"'),
        (MemoryError(), "<MemoryError raised>"),
        (KeyboardInterrupt(), "<KeyboardInterrupt raised>"),
        (GeneratorExit("g"), "g"),
    ],
)
def test_the_message_comes_from_the_raw_arguments(error, message):
    """B58: one text argument as it is, none is said, more are summed up; at most 1000 characters."""
    assert capture(raised(error)).message == message


def test_a_type_label_is_safe_and_bounded():
    """B56."""
    assert capture(raised(type("Ärger\n1", (Exception,), {})())).type == "_rger_1"
    assert capture(raised(type("X" * 500, (Exception,), {})())).type == "X" * 128
    assert capture(raised(type("", (Exception,), {})())).type == "unknown"


def test_endings_say_how_the_attempt_ends():
    """U6; a subclass is of its family whatever its attributes claim."""

    class Mine(Retry):
        disposition = "skip"

    class Claims(Retry):
        after = property(trap)

    assert [
        capture(raised(one)).disposition for one in (Retry(), Fail(), Skip(), Ending(), ValueError())
    ] == [
        "retry",
        "fail",
        "skip",
        "fail",
        "unstated",
    ]
    seen = capture(raised(Mine("later", after=2)))
    assert (seen.disposition, seen.retry_after, seen.message) == ("retry", 2.0, "later")
    for after in (-1, "soon", float("nan"), float("inf"), True, None):
        assert capture(raised(Retry(after=after))).retry_after is None
    assert capture(raised(Fail("no", optional=True))).disposition == "optional"
    assert capture(raised(Fail("no", optional="yes"))).disposition == "fail"
    odd = Claims.__new__(Claims)
    assert capture(raised(odd)).disposition == "retry"


def test_bases_are_named_as_retry_on_names_them():
    from supervisor.checks import class_name

    error = raised(FileNotFoundError(2, "x"))
    assert capture(error).bases == ["FileNotFoundError", "OSError", "Exception", "BaseException"]
    assert capture(raised(Retry())).bases[0] == class_name(Retry) == "ipc.endings.Retry"

    class Local(Exception):
        __module__ = 5

    assert capture(raised(Local())).bases[0].endswith("<locals>.Local")


def deep(n):
    if n == 0:
        raise OSError("at the bottom")
    deep(n - 1)


def test_a_long_traceback_keeps_both_ends():
    try:
        deep(400)
    except OSError as error:
        seen = capture(error)
    assert len(seen.traceback) <= 16 << 10
    assert "test_a_long_traceback_keeps_both_ends" in seen.traceback
    assert "... 352 frames ..." in seen.traceback
    assert 'raise OSError("at the bottom")' in seen.traceback
    assert seen.traceback.endswith("OSError: at the bottom\n")


def test_causes_are_told_first_and_never_for_ever():
    first, second = ValueError("first"), RuntimeError("second")
    first.__cause__, second.__cause__ = second, first
    seen = capture(raised(second))
    assert seen.traceback.index("ValueError: first") < seen.traceback.index("RuntimeError: second")
    hidden = ValueError("outer")
    hidden.__context__ = KeyError("inner")
    assert "inner" in capture(hidden).traceback
    hidden.__suppress_context__ = True
    assert "inner" not in capture(hidden).traceback


def test_whatever_is_captured_fits_the_wire():
    huge = type("N" * 10_000, (Exception,), {"__module__": "m" * 10_000, "__qualname__": "\ud800" * 5000})
    for _ in range(100):
        huge = type("N" * 10_000, (huge,), {"__module__": "m" * 10_000})
    for error in (huge(*[["x" * 10_000]] * 100), huge("\ud800" * 100_000)):
        seen = capture(raised(error))
        sent = Failed(
            1, seen.disposition, "", seen.type, seen.message, seen.traceback, seen.bases, seen.retry_after
        )
        assert up_decoder.decode(encoder.encode(sent)) == sent


RAISES = """
    import sys
    class Unspeakable(Exception):
        def __str__(self): raise RuntimeError("no text")
        __repr__ = __str__
    def recurse(): recurse()
    def memory(): raise MemoryError
    def unspeakable(): raise Unspeakable(object())
    def leave(): sys.exit("bye")
    def interrupt(): raise KeyboardInterrupt
    def generator_exit(): raise GeneratorExit
    def stop_iteration(): raise StopIteration
    def retry(): raise Retry("later", after=3)
    def fail(): raise Fail("never")
    def optional(): raise Fail("not this time", optional=True)
    def skip(): raise Skip("nothing to do")
    @app.lane("raise")
    def raise_(job, ctx):
        yield "before",
        yield "the last",
        ctx.spend(7)
        globals()[job.payload]()
    @app.lane("at_once")
    def at_once(job, ctx):
        globals()[job.payload]()
"""


@pytest.mark.parametrize(
    ("what", "type_", "disposition"),
    [
        ("recurse", "RecursionError", "unstated"),
        ("memory", "MemoryError", "unstated"),
        ("unspeakable", "Unspeakable", "unstated"),
        ("leave", "SystemExit", "unstated"),
        ("interrupt", "KeyboardInterrupt", "unstated"),
        ("generator_exit", "GeneratorExit", "unstated"),
        ("stop_iteration", "RuntimeError", "unstated"),
        ("retry", "Retry", "retry"),
        ("fail", "Fail", "fail"),
        ("optional", "Fail", "optional"),
        ("skip", "Skip", "skip"),
    ],
)
def test_a_half_may_raise_anything_and_the_rows_before_it_have_left(spawn, rows, what, type_, disposition):
    """C155, K2: a typed failure after the batches that came before it; the child lives on."""
    worker = spawn(RAISES)
    said = worker.job("raise", f'"{what}"')
    assert rows(said) == [("before",), ("the last",)]
    failed = said[-1]
    assert (failed.type, failed.disposition, failed.code, failed.spent) == (type_, disposition, "", 7)
    assert failed.last_seq == [one for one in said if isinstance(one, Batch)][-1].seq
    assert failed.retry_after == (3.0 if what == "retry" else None)
    assert "in raise_" in failed.traceback
    assert "worker/" not in failed.traceback, "it begins in the user's code"
    at_once = worker.job("at_once", f'"{what}"')[-1]
    assert at_once.type in {type_, "StopIteration"}
    assert worker.job("raise", '"no_such_name"')[-1].type == "KeyError"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to set the limit just above what is used")
def test_a_row_that_memory_does_not_suffice_for_is_no_half_row(spawn, rows):
    """The real thing: the limit of the process is met while a row is encoded."""
    worker = spawn("""
        import resource
        @app.lane("large")
        def large(job, ctx):
            text = "x" * 7_000_000
            yield "before", None
            yield "buffered", None
            pages = int(open("/proc/self/statm").read().split()[0])
            resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + 1_000_000, -1))
            yield text, text
    """)
    said = worker.job("large")
    assert rows(said) == [("before", None), ("buffered", None)]
    assert said[-1].type == "MemoryError"


def test_an_iterator_that_fails_is_a_half_that_raised(spawn, rows):
    worker = spawn("""
        class Rows:
            def __init__(self): self.n = 0
            def __iter__(self): return self
            def __next__(self):
                self.n += 1
                if self.n > 3: raise OSError(5, "gone", "disk")
                return self.n,
        @app.lane("rows")
        def rows(job, ctx): return Rows()
        class NoIter:
            def __iter__(self): raise LookupError("no iterator")
        @app.lane("none")
        def none(job, ctx): return NoIter()
    """)
    said = worker.job("rows")
    assert rows(said) == [(1,), (2,), (3,)]
    assert (said[-1].type, said[-1].message) == ("OSError", '5, "gone", "disk"')
    assert worker.job("none")[-1].type == "LookupError"


def test_a_checkpoint_lane_drops_the_unit_that_was_under_way(spawn, rows):
    """K4: only complete units land; the retry yields the rest again."""
    worker = spawn("""
        @app.lane("units")
        def units(job, ctx):
            yield 1,
            ctx.checkpoint("a")
            yield 2,
            ctx.checkpoint("b")
            yield 3,
            raise OSError
    """)
    said = worker.job("units", resume="checkpoint")
    assert rows(said) == [(1,), (2,)]
    assert [one for one in said if isinstance(one, Batch)][-1].point.mark == "b"


def test_a_mark_set_before_a_crash_is_told(spawn):
    """The retry begins there, although no row came after it."""
    worker = spawn("""
        @app.lane("marks")
        def marks(job, ctx):
            ctx.checkpoint("a")
            ctx.checkpoint("b")
            raise OSError
    """)
    said = worker.job("marks")
    assert [one.point.mark for one in said if isinstance(one, Batch)] == ["a", "b"]


def test_a_half_that_cleans_up_is_closed_before_the_next_job(spawn):
    worker = spawn("""
        log = []
        @app.lane("bad")
        def bad(job, ctx):
            try:
                yield 1,
                yield object(),
            finally:
                log.append("closed")
                ctx.checkpoint("beyond the bad row")
        @app.lane("log")
        def log_(job, ctx): return {"log": log}
    """)
    said = worker.job("bad")
    assert said[-1].code == "row_type"
    assert all(one.point.mark is None for one in said if isinstance(one, Batch))
    assert worker.job("log")[-1] == Done(0, '{"log":["closed"]}')


def test_a_frame_with_an_endless_source_line_is_cut(tmp_path: Path) -> None:
    """C155: generated code is one line, and its traceback must fit the message that carries it."""
    line, source = f"nothing  # {'long' * 60_000}", str(tmp_path / "generated.py")
    linecache.cache[source] = (1, None, [line], source)
    with pytest.raises(NameError) as caught:
        exec(compile(line, source, "exec"), {})
    assert "nothing  # long" in frames_of(caught.value)
    assert len(frames_of(caught.value)) < 4000
