"""When a batch leaves, and where it is cut (CONTRACTS K3); the clock is ours."""

import threading
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from ipc.messages import UNIT_ROWS, Ack, Batch, Done, Failed, Progress, ResumePoint, Stop, Yielded
from worker.batches.cutter import ROWS_LIMIT


def counts(messages):
    return [one.count for one in messages if isinstance(one, Batch)]


def test_the_first_row_leaves_at_once(bench):
    """K3: when nothing is unacknowledged; so the row before a wedge lands."""

    def half(job, ctx):
        yield (1,)
        assert counts(bench.said()) == [1]
        yield (2,)
        assert counts(bench.said()) == [1], "the first batch is not acknowledged"

    assert counts(bench.make(half)) == [1, 1]


def test_small_batches_keep_20_ms_apart(bench):
    """K3: nothing unacknowledged, but 20 ms after the last batch."""

    def half(job, ctx):
        yield (1,)
        bench.ack()
        bench.now += 0.010
        yield (2,)
        assert counts(bench.said()) == [1]
        bench.now += 0.011
        yield (3,)
        assert counts(bench.said()) == [1, 2]

    bench.make(half)


def test_a_row_waits_a_second_at_most(bench):
    """K3: 1 s after its first row a batch leaves, acknowledged or not."""

    def half(job, ctx):
        yield (1,)
        bench.now += 5
        yield (2,)
        bench.now += 0.99
        yield (3,)
        assert counts(bench.said()) == [1]
        bench.now += 0.02
        yield (4,)
        assert counts(bench.said()) == [1, 3]

    bench.make(half)


def test_without_credit_a_row_waits_longer_than_a_second(bench):
    def half(job, ctx):
        yield (1,)
        bench.now += 5
        yield (2,)
        bench.now += 5
        yield (3,)
        assert counts(bench.said()) == [1]
        bench.ack()
        bench.now += 5
        yield (4,)
        assert counts(bench.said()) == [1, 3]
        bench.ack()

    assert counts(bench.make(half, window=1)) == [1, 3]


def test_a_batch_is_full_when_the_next_row_would_pass_its_rows(bench):
    assert counts(bench.make(lambda job, ctx: ((n,) for n in range(100)), batch_rows=30)) == [
        1,
        30,
        30,
        30,
        9,
    ]


def test_a_batch_is_full_when_the_next_row_would_pass_its_bytes(bench):
    """K3: rows of 10 bytes, 105 bytes a batch; a row over the limit travels alone."""
    half = lambda job, ctx: (("x" * size,) for size in [8] * 25 + [200] + [8] * 3)  # noqa: E731
    said = bench.make(half, batch_bytes=105)
    assert counts(said) == [1, 10, 10, 4, 1, 3]
    assert all(len(memoryview(one.rows)) <= 106 for one in said[:4])


def test_cuts_for_size_fall_on_checkpoints(bench):
    """K3: the rest of a batch that was cut at a checkpoint stays, and its point says how far it is."""

    def half(job, ctx):
        yield (0,)
        for unit in "abc":
            for n in range(7):
                yield (n,)
            ctx.checkpoint(unit)

    batches = [one for one in bench.make(half, batch_rows=10) if isinstance(one, Batch)]
    assert [(one.count, one.point.mark, one.point.skip) for one in batches] == [
        (1, None, 1),
        (7, "a", 0),
        (7, "b", 0),
        (7, "c", 0),
    ]


def test_a_unit_larger_than_a_batch_is_cut_within(bench):
    def half(job, ctx):
        ctx.checkpoint("a")
        for n in range(25):
            yield (n,)
        ctx.checkpoint("b")
        yield (25,)

    batches = [one for one in bench.make(half, batch_rows=10) if isinstance(one, Batch)]
    assert [(one.count, one.point.mark, one.point.skip) for one in batches] == [
        (0, "a", 0),
        (10, "a", 10),
        (10, "a", 20),
        (6, "b", 1),
    ]


def test_a_mark_without_rows_leaves_once_a_second(bench):
    """K3: an empty batch carries the point; the next batch has the last mark of those in between."""

    def half(job, ctx):
        for n in range(24):
            ctx.checkpoint(f"m{n}")
            bench.now += 0.125
        yield (1,)

    batches = [one for one in bench.make(half) if isinstance(one, Batch)]
    assert [(one.count, one.point.mark) for one in batches] == [
        (0, "m0"),
        (0, "m8"),
        (0, "m16"),
        (1, "m23"),
    ]
    assert batches[-1].point.skip == 1


def test_rows_of_other_columns_are_cut_apart(bench, rows):
    """K3: one signature a batch: width, and which columns hold bytes."""
    stream = [
        (1, "a"),
        (2, "b"),
        (3, b"c"),
        (4, b"d"),
        (5, "e"),
        (6, "f", None),
        (7, None, None),
        (8, b"g", b"h"),
    ]
    said = bench.make(lambda job, ctx: iter(stream))
    batches = [one for one in said if isinstance(one, Batch)]
    assert [(one.count, one.width, one.blobs) for one in batches] == [
        (1, 2, []),
        (1, 2, []),
        (2, 2, [1]),
        (1, 2, []),
        (2, 3, []),
        (1, 3, [1, 2]),
    ]
    assert rows(said) == stream


def test_none_and_numbers_share_a_column_with_text_or_bytes(bench, rows):
    """A column with gaps does not cut a batch."""
    stream = [(None if n % 3 else b"x", "y" if n % 2 else n / 2, n % 5 == 0) for n in range(60)]
    said = bench.make(lambda job, ctx: iter(stream))
    assert counts(said) == [1, 59]
    assert rows(said) == stream


def test_thousands_of_combinations_of_gaps_share_a_batch(bench, rows):
    """Which cells are None is no signature, however many combinations there are."""
    stream = [tuple(b"x" if n >> bit & 1 else None for bit in range(11)) for n in range(2048)]
    said = bench.make(lambda job, ctx: iter(stream), batch_rows=3000)
    assert counts(said) == [1, 2047]
    assert rows(said) == stream


def test_a_reused_list_is_safe(bench, rows):
    """K3: a row is encoded when it is yielded."""

    def half(job, ctx):
        row = [0, "x"]
        for n in range(50):
            row[0] = n
            yield row

    assert rows(bench.make(half)) == [(n, "x") for n in range(50)]


def test_a_larger_batch_travels_alone(bench):
    """K3: more bytes than the window hold, so only when nothing else is unacknowledged."""

    def half(job, ctx):
        yield ("x" * 10,)
        bench.now += 2
        yield ("y" * 200,)
        assert counts(bench.said()) == [1]
        bench.ack()
        bench.now += 2
        yield ("z",)
        assert counts(bench.said()) == [1, 2]
        bench.now += 2
        yield ("z",)
        assert counts(bench.said()) == [1, 2]
        bench.ack()

    assert counts(bench.make(half, window_bytes=100)) == [1, 2, 1]


@settings(max_examples=40, deadline=None)
@given(
    window=st.integers(1, 8),
    window_bytes=st.integers(50, 3000),
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=150),
    pauses=st.lists(st.integers(0, 12), min_size=1, max_size=8),
)
def test_credit_is_never_exceeded(benches, rows, window, window_bytes, sizes, pauses):
    """K3: whatever the supervisor acknowledges when; and nothing is held back for ever."""
    bench = benches()
    taken, over, ended = [], [], threading.Event()

    def supervise():
        held, turn = [], 0
        while not ended.is_set() or held or bench.readable():
            for one in bench.channel.receive(1 << 20).messages:
                taken.append(one)
                held.append((one.seq, len(memoryview(one.rows))))
                if len(held) > window or (len(held) > 1 and sum(size for _, size in held) > window_bytes):
                    over.append(list(held))
            turn += 1
            if held and turn % 13 >= pauses[turn % len(pauses)]:
                bench.channel.send(Ack(held.pop(0)[0]))

    thread = threading.Thread(target=supervise)
    thread.start()
    try:
        half = lambda job, ctx: (("x" * size,) for size in sizes)  # noqa: E731
        word = bench.attempt(half, batch_rows=7, batch_bytes=500, window=window, window_bytes=window_bytes)
    finally:
        ended.set()
        thread.join()
    assert not over
    assert isinstance(word, Done)
    assert rows(taken) == [("x" * size,) for size in sizes]


def test_stop_ends_a_replay_lane_at_any_yield(bench, rows):
    """K12, C151: everything yielded leaves first, the half is closed, nothing is waited for."""
    closed = []

    def half(job, ctx):
        try:
            for n in range(100):
                if n == 40:
                    bench.channel.send(Stop("others wait"))
                    bench.now += 0.002
                yield (n,)
        finally:
            closed.append(True)

    said = bench.make(half)
    assert said[-1] == Yielded(2)
    assert rows(said) == [(n,) for n in range(41)]
    assert closed


def test_stop_ends_other_lanes_at_a_checkpoint(bench, rows):
    def half(job, ctx):
        for n in range(100):
            if n == 40:
                bench.channel.send(Stop("others wait"))
            bench.now += 0.002
            yield (n,)
            if n % 30 == 29:
                ctx.checkpoint(f"m{n}")

    for resume in ("restart", "checkpoint"):
        said = bench.make(half, resume=resume)
        assert isinstance(said[-1], Yielded)
        assert said[-2].point == ResumePoint("m59")
        assert said[-1].last_seq == said[-2].seq
        assert rows(said) == [(n,) for n in range(60)]


def test_stop_is_obeyed_while_waiting_for_credit(bench, rows):
    """K3, K4: what has no credit is not sent; it lies behind the resume point and comes again."""
    for resume in ("replay", "restart", "checkpoint"):

        def half(job, ctx):
            yield (0,)
            ctx.checkpoint("first")
            for n in range(1, 1000):
                if n == 10:
                    bench.channel.send(Stop("shutdown"))
                yield (n,)

        said = bench.make(half, resume=resume, batch_rows=20, window=1, batch_bytes=50)
        assert isinstance(said[-1], Yielded)
        assert rows(said) == [(0,)]
        assert said[-1].last_seq == 1


def test_a_half_that_ignores_the_end_is_ended_all_the_same(bench):
    """A bare except around ctx.checkpoint does not let an attempt go on after it yielded."""
    turns = []

    def half(job, ctx):
        while len(turns) < 100:
            turns.append(len(turns))
            yield (turns[-1],)
            with suppress(BaseException):
                ctx.checkpoint(str(turns[-1]))
            if turns[-1] == 5:
                bench.channel.send(Stop(""))
            bench.now += 0.01

    assert isinstance(bench.make(half, resume="restart")[-1], Yielded)
    assert turns[-1] == 7, "it was stopped at the checkpoint of 6, and ended at its next yield"


def test_progress_and_cost_travel_with_batches(bench):
    """C152: done and total are the last values said, spent is cumulative."""

    def half(job, ctx):
        ctx.progress(1, 10)
        ctx.spend(5)
        yield (1,)
        ctx.progress(2)
        ctx.spend(6)
        yield (2,)

    said = bench.make(half)
    assert said[0] == Progress(1, 10)
    assert [(one.done, one.total, one.spent) for one in said[1:-1]] == [(1, 10, 5), (2, None, 11)]
    assert said[-1] == Done(2, None, 11)


def test_progress_is_not_a_flood(bench):
    def half(job, ctx):
        for n in range(1000):
            ctx.progress(n, 1000)
            bench.now += 0.001
        yield (1,)

    said = bench.make(half)
    assert sum(isinstance(one, Progress) for one in said) <= 5
    assert said[-2].done == 999


def test_a_checkpoint_lane_is_cut_at_checkpoints_only(bench, rows):
    """K4: batch_rows and batch_bytes do not cut."""

    def half(job, ctx):
        for unit in range(5):
            for n in range(40):
                yield unit, n
            ctx.checkpoint(f"u{unit}")
        yield 9, 9

    said = bench.make(half, resume="checkpoint", batch_rows=10, batch_bytes=20)
    batches = [one for one in said if isinstance(one, Batch)]
    assert [(one.count, one.point.mark, one.point.skip) for one in batches] == [
        *((40, f"u{unit}", 0) for unit in range(5)),
        (1, "u4", 1),
    ]


def test_units_of_a_checkpoint_lane_share_a_batch_while_small(bench):
    def half(job, ctx):
        for n in range(100):
            yield (n,)
            ctx.checkpoint(str(n))

    assert counts(bench.make(half, resume="checkpoint", batch_rows=30)) == [1, 30, 30, 30, 9]


def test_a_unit_of_a_checkpoint_lane_has_one_signature(bench, rows):
    """Units of different columns are cut apart; within a unit it is an error that says so."""

    def half(job, ctx):
        yield 1, "text"
        ctx.checkpoint("a")
        yield 2, None
        yield 3, b"bytes"
        ctx.checkpoint("b")
        yield 4, b"bytes"
        yield 5, "text"

    said = bench.make(half, resume="checkpoint")
    assert rows(said) == [(1, "text"), (2, None), (3, b"bytes")]
    assert said[-1].code == "row_type"
    assert said[-1].message.startswith("row 5: ")


def test_a_unit_over_the_frame_is_refused_whole(bench, rows):
    """K4: unit_too_large, and nothing of it is sent; units before it are."""

    def half(job, ctx):
        yield ("small",)
        ctx.checkpoint("a")
        yield ("small",)
        ctx.checkpoint("b")
        for _ in range(9):
            yield ("x" * (1 << 20),)

    said = bench.make(half, resume="checkpoint")
    assert isinstance(said[-1], Failed)
    assert said[-1].code == "unit_too_large"
    assert rows(said) == [("small",), ("small",)]
    assert said[-2].point == ResumePoint("b")


def test_a_unit_has_at_most_so_many_rows(spawn, rows):
    """K3, K4: rows of one small cell fill a frame only as objects of 260 MB on the other side."""
    worker = spawn("""
        @app.lane("tiny", resume="checkpoint")
        def tiny(job, ctx):
            for n in range(job.payload):
                yield (None,)
                if not n:
                    ctx.checkpoint("first")
    """)
    said = worker.job("tiny", str(UNIT_ROWS + 1), resume="checkpoint")
    assert isinstance(said[-1], Done), said[-1]
    assert len(rows(said)) == UNIT_ROWS + 1
    assert max(one.count for one in said if isinstance(one, Batch)) == UNIT_ROWS
    said = worker.job("tiny", str(UNIT_ROWS + 2), resume="checkpoint")
    assert (said[-1].code, said[-1].disposition) == ("unit_too_large", "unstated")
    assert said[-1].message.startswith(f"row {UNIT_ROWS + 2}: ")
    assert len(rows(said)) == 1, "the unit before it"


def test_only_the_last_rows_of_a_checkpoint_lane_carry_no_digest(bench):
    """K4: so they are known for the last when the lane resumes by replay one day."""

    def half(job, ctx):
        yield (1,)
        ctx.checkpoint("a")
        yield (2,)

    points = [one.point for one in bench.make(half, resume="checkpoint")[:-1]]
    assert points == [ResumePoint("a"), ResumePoint("a", 1)]


def test_a_frame_holds_the_largest_batch_with_the_longest_mark_and_keys(start):
    """K3, K15: batch_bytes at the frame's limit still leaves room for the header."""
    worker = start("""
        import string
        @app.lane("large")
        def large(job, ctx):
            keys = [f"{n:06}" + "k" * 30 for n in range(1700)]
            ctx.checkpoint("m" * (16 << 10))
            row = dict.fromkeys(keys, b"x" * 1000)
            for n in range(12):
                yield row
    """)
    worker.next()
    said = worker.job("large", batch_rows=100, batch_bytes=8 << 20)
    assert isinstance(said[-1], Done), said[-1]
    batches = [one for one in said if isinstance(one, Batch)]
    assert sum(one.count for one in batches) == 12
    assert max(len(memoryview(one.rows)) for one in batches) > ROWS_LIMIT - (2 << 20)
