"""A child's output is drained without end and kept within a bound (SPEC C161)."""

import os

from ipc.logtail import LogTail


def tail_of(*pieces: bytes, keep: int = 16) -> LogTail:
    read, write = os.pipe()
    os.set_blocking(read, False)
    tail = LogTail(read, keep)
    for piece in pieces:
        os.write(write, piece)
        tail.drain(1 << 20)
    os.close(write)
    tail.drain(1 << 20)
    return tail


def test_what_fits_is_kept_as_it_came() -> None:
    tail = tail_of(b"one ", b"two\n")
    assert tail.closed
    assert tail.text() == "one two\n"
    tail.close()


def test_what_does_not_fit_is_counted_and_the_end_is_kept() -> None:
    """C161."""
    tail = tail_of(b"x" * 1000, b"the very end 1234")
    first, last = tail.text().split("\n", 1)
    assert "1001 bytes" in first
    assert last == "he very end 1234"
    tail.close()


def test_bytes_that_are_no_text_are_escaped() -> None:
    tail = tail_of(b"a\xff\x00b")
    assert tail.text() == "a\\xff\x00b"
    tail.close()


def test_a_drain_stops_at_its_budget_and_says_that_there_may_be_more() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.write(write, b"y" * 5000)
    tail = LogTail(read, 8)
    assert tail.drain(1000)
    assert not tail.drain(100_000)
    assert "4992 bytes" in tail.text()
    os.close(write)
    tail.close()


def test_a_closed_tail_stays_readable_and_reads_nothing_more() -> None:
    tail = tail_of(b"last words")
    tail.close()
    assert not tail.drain(100)
    assert tail.text() == "last words"
