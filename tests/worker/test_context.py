"""What a compute half may ask for."""

import pytest
from msgspec import Raw
from msgspec.msgpack import decode, encode

from ipc.messages import MARK_LIMIT, Ack, Batch, Done, Read, ReadReply, ResumePoint, Started, Stop, Yielded

READS = """
    from types import SimpleNamespace
    known = SimpleNamespace(name="known")
    @app.lane("read")
    def read(job, ctx):
        yield "row",
        answer = ctx.read(known, path="a", n=[1, b"x", None])
        second = ctx.read("by_name")
        yield "more",
        return {"answers": [answer, second]}
    @app.lane("refused")
    def refused(job, ctx):
        ctx.read("nobody")
    @app.lane("unpackable")
    def unpackable(job, ctx):
        try:
            ctx.read("known", x=object())
        except TypeError:
            ctx.read("known", x="x" * (5 << 20))
"""


def test_a_read_is_a_question_over_the_wire(spawn, run):
    """C127, C153: a verb and plain arguments up, data down; acknowledgements may come between."""
    worker = spawn(READS)
    worker.send(run("read"))
    started, batch, first = worker.next(), worker.next(), worker.next()
    assert isinstance(started, Started)
    assert isinstance(first, Read)
    assert (first.verb, decode(first.args)) == ("known", {"path": "a", "n": [1, b"x", None]})
    worker.send(Ack(batch.seq))
    worker.send(ReadReply(first.id, Raw(encode({"rows": [1, 2]}))))
    second = worker.next()
    assert (second.verb, decode(second.args)) == ("by_name", {})
    assert second.id != first.id
    worker.send(ReadReply(first.id, Raw(encode("an old answer"))))
    worker.send(ReadReply(second.id, Raw(encode(None))))
    assert worker.until(Done)[-1].result == '{"answers":[{"rows":[1,2]},null]}'


def test_a_refused_read_is_an_exception_of_the_half(spawn, run):
    """C153: unknown verb or a store error is an error reply."""
    worker = spawn(READS)
    worker.send(run("refused"))
    worker.next()
    asked = worker.next()
    worker.send(ReadReply(asked.id, Raw(encode(None)), "there is no read 'nobody'"))
    failed = worker.next()
    assert (failed.type, failed.message) == ("ReadFailed", "there is no read 'nobody'")
    assert "ctx.read" in failed.traceback
    large = worker.job("unpackable")[-1]
    assert large.type == "ValueError"
    assert "5242" in large.message


def test_stop_while_a_read_is_open_is_obeyed_after_its_answer(spawn, run):
    worker = spawn("""
        @app.lane("endless")
        def endless(job, ctx):
            answer = ctx.read("known")
            while True:
                yield answer,
    """)
    worker.send(run("endless"))
    while not isinstance(asked := worker.next(), Read):
        pass
    worker.send(Stop("others wait"))
    worker.send(ReadReply(asked.id, Raw(encode("answer"))))
    assert isinstance(worker.until(Yielded, Done)[-1], Yielded)


def test_a_child_whose_supervisor_dies_during_a_read_leaves(spawn, run):
    worker = spawn(READS)
    worker.send(run("read"))
    while not isinstance(worker.next(), Read):
        pass
    worker.channel.close()
    assert worker.wait_exit() == 0


@pytest.mark.parametrize(
    ("mark", "error"),
    [
        (7, TypeError),
        (None, TypeError),
        (b"x", TypeError),
        ("x" * (MARK_LIMIT + 1), ValueError),
        ("é" * (MARK_LIMIT // 2 + 1), ValueError),
        ("\ud800", ValueError),
    ],
)
def test_a_bad_mark_is_an_exception_of_the_half(bench, mark, error):
    """K15: text of at most 16 KiB."""

    def half(job, ctx):
        with pytest.raises(error):
            ctx.checkpoint(mark)
        yield (1,)

    assert isinstance(bench.make(half)[-1], Done)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (7, "a mark is text, not int; ctx.checkpoint(str(...)), and int(ctx.resume) to read it back"),
        (0.5, "a mark is text, not float; ctx.checkpoint(str(...)), and float(ctx.resume) to read it back"),
        (b"x", "a mark is text, not bytes; ctx.checkpoint(str(...))"),
        (True, "a mark is text, not bool; ctx.checkpoint(str(...))"),
    ],
)
def test_a_mark_that_is_no_text_says_how_to_write_it(bench, mark, said):
    def half(job, ctx):
        ctx.checkpoint(mark)
        yield (1,)

    failed = bench.make(half)[-1]
    assert (failed.type, failed.message) == ("TypeError", said)


def test_the_longest_mark_and_odd_marks_travel(bench):
    class Text(str):
        def __str__(self):
            return "a lie"

    marks = ["", "é" * (MARK_LIMIT // 2), "\0", Text("true")]

    def half(job, ctx):
        for mark in marks:
            ctx.checkpoint(mark)
            bench.now += 2

    said = bench.make(half)
    assert [one.point for one in said if isinstance(one, Batch)] == [ResumePoint(mark) for mark in marks]


@pytest.mark.parametrize(
    "call",
    [
        "ctx.checkpoint('m')",
        "ctx.progress(1)",
        "ctx.spend(1)",
        "ctx.read('r')",
        "ctx.log('l')",
    ],
)
def test_ctx_belongs_to_one_thread_and_one_job(spawn, call):
    """K13: another thread, or a later job, is refused with a clear message."""
    worker = spawn(f"""
        import threading
        kept = []
        @app.lane("other_thread")
        def other_thread(job, ctx):
            kept.append(ctx)
            caught = []
            def use():
                try: {call}
                except RuntimeError as error: caught.append(str(error))
            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
            return {{"caught": caught}}
        @app.lane("later")
        def later(job, new):
            ctx = kept[0]
            {call}
    """)
    assert "from another thread" in worker.job("other_thread")[-1].result
    failed = worker.job("later")[-1]
    assert failed.type == "RuntimeError"
    assert "after its job had ended" in failed.message


@pytest.mark.parametrize(
    "call", ["ctx.progress(-1)", "ctx.progress(1.5)", "ctx.progress(1, True)", "ctx.spend(-1)"]
)
def test_counts_are_whole_and_not_negative(bench, call):
    def half(job, ctx):
        with pytest.raises((TypeError, ValueError)):
            eval(call)
        yield (1,)

    assert isinstance(bench.make(half)[-1], Done)


def test_a_checkpoint_needs_no_rows_and_no_generator(bench):
    """A plain function may set marks, and is stopped at one."""

    def half(job, ctx):
        for n in range(100):
            if n == 50:
                bench.channel.send(Stop(""))
            bench.now += 0.5
            bench.ack()
            ctx.checkpoint(str(n))

    said = bench.make(half)
    assert isinstance(said[-1], Yielded)
    assert said[-2].point == ResumePoint("50")
