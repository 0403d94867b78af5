"""Sizes and counts as screens show them."""

import pytest

from supervisor.told.units import count, human_size, size


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 B"),
        (812, "812 B"),
        (999.4, "999 B"),
        (999.6, "1 KB"),
        (4096, "4.1 KB"),
        (65_536, "65.5 KB"),
        (500_000_000, "500 MB"),
        (512_345_678, "512 MB"),
        (999_400_000, "999 MB"),
        (999_600_000, "1 GB"),
        (1 << 30, "1.07 GB"),
        (9_996_000_000, "10 GB"),
        (15_960_000_000, "16 GB"),
        (100_000_000_000, "100 GB"),
        (2_300_000_000_000, "2,300 GB"),
    ],
)
def test_a_size_reads_as(value: float, said: str) -> None:
    """FIELD J5: measured values in three digits."""
    assert human_size(value) == said


def test_a_size_that_was_set_is_said_as_it_was_written() -> None:
    """FIELD J5."""
    for text in ("1 KB", "500 MB", "6 GB", "1.5 GB", "64 B"):
        found = size(text)
        assert found is not None
        assert human_size(found) == text


def test_processes_and_batches_are_counted_in_english() -> None:
    assert [count(number, "process") for number in (0, 1, 2)] == ["0 processes", "1 process", "2 processes"]
