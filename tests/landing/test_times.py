"""Times as earlier files wrote them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landing.times import micros

HALF_PAST = int(datetime(2023, 5, 6, 12, 30, tzinfo=UTC).timestamp()) * 10**6


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("2023-05-06T12:30:00", 0),
        ("2023-05-06 12:30:00", 0),
        ("2023-05-06T12:30:00Z", 0),
        ("2023-05-06T12:30:00+00:00", 0),
        ("2023-05-06T12:30:00.5", 500_000),
        ("2023-05-06T12:30:00.000001+00:00", 1),
    ],
)
def test_naive_text_is_utc_and_a_fraction_or_a_zone_may_be_there(text: str, after: int) -> None:
    """U11."""
    assert micros(text) == HALF_PAST + after


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_time_that_python_writes_is_read_back(time: datetime) -> None:
    """U11."""
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    assert micros(time.isoformat()) == (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds


@given(st.one_of(st.text(), st.from_regex(r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\Z")))
def test_what_is_no_time_is_none_and_never_an_error(text: str) -> None:
    """C92, U11."""
    try:
        is_time = datetime.fromisoformat(text) is not None and len(text) >= 19
    except ValueError:
        is_time = False
    assert is_time or micros(text) is None
