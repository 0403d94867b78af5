"""A new attempt begins where the last landed batch ended (CONTRACTS K4)."""

import itertools
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipc.messages import Batch, Done, Failed, Progress, ResumePoint, Stop, Yielded


def units_half(units, resume_seen=None):
    """A half over [(mark, rows)]: yields the rows of each unit after the mark it resumes from."""

    def half(job, ctx):
        if resume_seen is not None:
            resume_seen.append(ctx.resume)
        marks = [mark for mark, _ in units]
        begin = 0 if ctx.resume is None else marks.index(ctx.resume) + 1
        for mark, rows in units[begin:]:
            yield from rows
            ctx.checkpoint(mark)

    return half


UNITS = [("a", [(1,), (2,)]), ("b", [(n,) for n in range(3, 30)]), ("c", []), ("d", [(30,)])]
ROWS = [row for _, rows in UNITS for row in rows]

cell = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
)
row = st.lists(cell, min_size=1, max_size=4).map(tuple)
streams = st.lists(st.one_of(row, st.just("checkpoint")), max_size=60)
steps = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0005, 0.002, 0.03, 1.5]), st.booleans()), min_size=1, max_size=9
)


@settings(max_examples=150, deadline=None)
@given(
    stream=streams, steps=steps, limits=st.lists(st.integers(1, 12), min_size=2, max_size=2), data=st.data()
)
def test_a_replay_after_any_landed_batch_gives_exactly_the_missing_rows(
    benches, rows, stream, steps, limits, data
):
    """K4: for random rows, checkpoints, cuts, crashes and clocks; the second attempt cuts otherwise."""
    bench = benches()
    crash = data.draw(st.one_of(st.none(), st.integers(0, len(stream))))
    clockwork = itertools.cycle(steps)

    def half(crash_at=None):
        def half(job, ctx):
            begin = 0 if ctx.resume is None else int(ctx.resume) + 1
            for at, item in enumerate(stream[begin:], begin):
                if at == crash_at:
                    raise OSError("crash")
                step, acked = next(clockwork)
                bench.now += step
                if acked:
                    bench.ack()
                if item == "checkpoint":
                    ctx.checkpoint(str(at))
                else:
                    yield item

        return half

    free = {"window": 1000, "batch_bytes": 200}
    first = bench.make(half(crash), batch_rows=limits[0], **free)
    landed = [one for one in first if isinstance(one, Batch)]
    expected = [item for item in stream if item != "checkpoint"]
    if crash is None:
        assert rows(first) == expected
    else:
        assert rows(first) == [item for item in stream[:crash] if item != "checkpoint"], (
            "yielded, so it lands"
        )
    for kept in range(len(landed) + 1):
        point = landed[kept - 1].point if kept else ResumePoint()
        second = bench.make(half(), batch_rows=limits[1], point=point, landed_seq=kept, **free)
        assert isinstance(second[-1], Done), second[-1]
        assert rows(landed[:kept]) + rows(second) == expected
        assert [one.seq for one in second if isinstance(one, Batch)] == list(
            range(kept + 1, second[-1].last_seq + 1)
        )


def test_the_digest_does_not_depend_on_cuts(bench):
    """K4: it is over the rows since the mark, however they were cut and wherever the replay began."""
    half = units_half([("a", [(0,)]), ("z", [(n, "x") for n in range(64)])])
    digests = {}
    for size in (1, 3, 8, 64):
        for one in bench.make(half, batch_rows=size, window=1000)[:-1]:
            digests.setdefault((one.point.mark, one.point.skip), set()).add(one.point.digest)
    assert all(len(found) == 1 for found in digests.values())
    assert len(digests) > 60


def test_a_restart_lane_sees_no_mark_and_drops_nothing(bench, rows):
    """K4: restart starts over; its point is kept up all the same."""
    seen = []
    point = ResumePoint("b", 3, b"d" * 16)
    said = bench.make(units_half(UNITS, seen), resume="restart", point=point, landed_seq=7)
    assert seen == [None]
    assert rows(said) == ROWS
    assert said[0].seq == 8
    assert [one.point for one in said if isinstance(one, Batch)][-1] == ResumePoint("d")


def test_a_replay_lane_sees_its_mark(bench, rows):
    seen = []
    said = bench.make(units_half(UNITS, seen), point=ResumePoint("b"), landed_seq=2)
    assert seen == ["b"]
    assert rows(said) == [(30,)]


def landed_point(bench, skip):
    batches = bench.make(units_half(UNITS), batch_rows=1, window=1000)[:-1]
    return next(one.point for one in batches if isinstance(one, Batch) and one.point.skip == skip)


@pytest.mark.parametrize(
    ("units", "says"),
    [
        ([("a", [(1,), (2,)]), ("b", [(-n,) for n in range(3, 30)])], "rows that landed"),
        (
            [("a", [(1,), (2,)]), ("b", [(3,), (4,)]), ("c", [(5,)] * 30)],
            "mark 'b' came 2 rows after mark 'a'",
        ),
        ([("a", [(1,), (2,)])], "the end came 0 rows after mark 'a', 11 have landed"),
    ],
)
def test_a_replay_that_goes_another_way_fails_with_the_remedy(bench, units, says):
    """K4: a difference, a checkpoint or an end inside skip is resume_mismatch, terminal, nothing is sent."""
    point = landed_point(bench, 11)
    said = bench.make(units_half(units), point=point, landed_seq=5)
    assert not [one for one in said if isinstance(one, Batch)]
    failed = said[-1]
    assert isinstance(failed, Failed)
    assert (failed.code, failed.disposition, failed.last_seq) == ("resume_mismatch", "unstated", 5)
    assert says in failed.message
    assert 'resume="checkpoint"' in failed.message
    assert failed.message.endswith("laneway retry 1 --from-start")


def test_an_end_inside_skip_is_a_mismatch_also_without_a_checkpoint(bench):
    point = landed_point(bench, 11)

    def half(job, ctx):
        for n in range(3, 10):
            yield (n,)

    failed = bench.make(half, point=point)[-1]
    assert failed.code == "resume_mismatch"
    assert "the end came 7 rows after mark 'a'" in failed.message


def test_a_replay_that_ends_with_skip_is_whole(bench):
    point = landed_point(bench, 11)

    def half(job, ctx):
        yield from [(n,) for n in range(3, 14)]

    said = bench.make(half, point=point, landed_seq=5)
    assert said == [Progress(None, None, 1), Progress(None, None, 11), Done(5)]


def test_dropped_rows_are_reported(bench):
    """K4: the first at once, then every batch_rows, or every second when they come slowly."""
    point = landed_point(bench, 26)

    def half(job, ctx):
        for n in range(3, 30):
            bench.now += 0.3 if n > 20 else 0
            yield (n,)

    said = bench.make(half, point=point, batch_rows=10)
    assert [one.replayed for one in said if isinstance(one, Progress)] == [1, 11, 21, 26]


def test_stop_during_a_replay_yields_and_sends_nothing(bench):
    point = landed_point(bench, 26)

    def half(job, ctx):
        for n in range(3, 30):
            if n == 10:
                bench.channel.send(Stop(""))
                bench.now += 0.002
            yield (n,)

    said = bench.make(half, point=point, landed_seq=9)
    assert said[-1] == Yielded(9)
    assert not [one for one in said if isinstance(one, Batch)]


def test_a_mismatch_cannot_be_caught_by_the_half(bench):
    """The refusal passes `except Exception`, and a bare except only delays it to the next yield."""
    point = landed_point(bench, 11)

    def half(job, ctx):
        yield (3,)
        with suppress(BaseException):
            ctx.checkpoint("early")
        for n in range(4, 400):
            yield (n,)

    failed = bench.make(half, point=point)[-1]
    assert failed.code == "resume_mismatch"
    assert 'ctx.checkpoint("early")' in failed.traceback


def test_the_end_cannot_be_made_into_something_else_by_the_half(bench):
    """What the supervisor asked for wins over the exception that the half makes of it."""

    def half(job, ctx):
        yield (1,)
        bench.channel.send(Stop(""))
        bench.now += 1
        try:
            ctx.checkpoint("m")
        except BaseException as end:
            raise ValueError("mine") from end

    assert isinstance(bench.make(half)[-1], Yielded)
