"""However many rows are due at one instant, a claim wakes a bounded number, and the next one goes on."""

import pytest

from landing.claim import NEVER, WAKES
from landing.transaction import Transaction
from tests.landing.stand import START, Stand


class Wait:
    """Make `count` rows that wait, each until its wake."""

    def __init__(self, count: int, wakes: str) -> None:
        self.count, self.wakes = count, wakes

    def apply(self, tx: Transaction) -> None:
        tx.run(
            "INSERT INTO laneway_jobs (kind, state, group_id, priority, payload, created_at, waiting_since,"
            "                          wake_at, watch, reason)"
            " WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"
            f" SELECT 'embed', 'pending', 1, 50, '{{}}', n, n, {self.wakes}, 'backoff', 'backoff' FROM n",
            (self.count,),
        )


def waiting(stand: Stand) -> int:
    return int(stand.query("SELECT COUNT(*) FROM laneway_jobs WHERE state = 'pending'")[0][0])


@pytest.fixture
def grouped(stand: Stand) -> Stand:
    """A store with the group that the rows of `Wait` are in."""
    stand.cancel(stand.enqueue("embed"))
    return stand


def test_a_claim_wakes_the_longest_due_first_and_says_that_more_are_due(grouped: Stand) -> None:
    """K14, C97."""
    grouped.write(Wait(2 * WAKES + 1, f"{START} - n"))
    woken = []
    for _ in range(3):
        reply = grouped.look("scan")
        woken.append((waiting(grouped), reply.next_wake))
    assert woken == [(WAKES + 1, START), (1, START), (0, None)]
    assert [one.kind for one in reply.wanted] == ["embed"]


def test_those_that_wake_later_are_told_when_all_that_are_due_are_awake(grouped: Stand) -> None:
    """K14."""
    grouped.write(Wait(WAKES, f"{START} - n"))
    grouped.write(Wait(2, f"{START} + 5 + n"))
    assert grouped.look("scan").next_wake == START  # as many as fit: there may be more
    assert grouped.look("scan").next_wake == START + 6
    assert waiting(grouped) == 2


def test_any_number_of_wakes_that_hold_garbage_is_got_rid_of(grouped: Stand) -> None:
    """Garbage degrades its own row: it is due."""
    grouped.write(Wait(WAKES + 5, "'soon'"))
    grouped.write(Wait(1, f"{START} + {NEVER} + 1"))
    assert grouped.look("scan").next_wake == START
    assert waiting(grouped) == 6
    assert grouped.look("scan").next_wake is None
    assert waiting(grouped) == 0


def test_every_row_of_many_that_are_due_at_one_instant_is_claimed_once(grouped: Stand) -> None:
    """K14: what the first claim does not wake the next ones do."""
    grouped.write(Wait(WAKES + 3, f"{START}"))
    jobs = []
    while (claimed := grouped.look("embed").claimed) is not None and len(jobs) < 20:
        jobs.append(claimed.job)
        grouped.finish(claimed)
    assert len(set(jobs)) == 20
    assert waiting(grouped) == 0
