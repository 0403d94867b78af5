"""The one table of moves."""

from policies import transitions
from policies.job import ENDED, IN_FLIGHT, State
from policies.transitions import TRANSITIONS, Move, allows, target

DRAWN = """
pending, deferred --wake--> queued
queued --hold_back--> pending
pending, queued, deferred --hold--> pending
queued --claim--> leased
leased --start--> running
running --complete--> done
pending, leased, running --fail--> failed
leased, running --fail_optional--> failed_optional
leased, running --back_off--> pending
leased, running --release--> queued
leased, running --defer--> deferred
pending, queued, deferred --skip--> skipped
pending, queued, leased, running, deferred, failed, failed_optional --cancel--> cancelled
failed, failed_optional, cancelled --resume--> queued
failed, failed_optional, cancelled --resume_waiting--> pending
failed --reopen--> pending
"""


def edges() -> set[tuple[State, Move, State]]:
    return {(source, move, to) for move, (sources, to) in TRANSITIONS.items() for source in sources}


def leading_to(*states: State) -> set[Move]:
    return {move for _, move, to in edges() if to in states}


def test_the_table_holds_exactly_these_edges() -> None:
    """U1, A32, A33, A34."""
    expected = set()
    for line in DRAWN.strip().splitlines():
        sources, rest = line.split(" --")
        move, to = rest.split("--> ")
        expected |= {(State(source), Move(move), State(to)) for source in sources.split(", ")}
    assert edges() == expected


def test_every_move_has_its_row() -> None:
    assert set(TRANSITIONS) == set(Move)


def test_every_move_is_in_the_drawing_that_people_read() -> None:
    for move in Move:
        assert f"--{move}-->" in transitions.__doc__, move


def test_only_claim_leases_and_only_start_runs() -> None:
    """U1, C83."""
    assert leading_to(State.LEASED) == {Move.CLAIM}
    assert leading_to(State.RUNNING) == {Move.START}
    assert {source for source, move, _ in edges() if move is Move.START} == {State.LEASED}


def test_done_and_skipped_are_terminal() -> None:
    """U1."""
    assert {source for source, _, _ in edges()} == set(State) - {State.DONE, State.SKIPPED}


def test_an_ended_row_gets_back_to_work_only_by_resume_and_reopening() -> None:
    """U1."""
    back = {move for source, move, to in edges() if source in ENDED and to not in ENDED}
    assert back == {Move.RESUME, Move.RESUME_WAITING, Move.REOPEN}


def test_no_move_leads_from_a_waiting_row_into_running() -> None:
    """U1."""
    assert {source for source, _, to in edges() if to is State.RUNNING} <= IN_FLIGHT


def test_allows_and_target_read_the_table() -> None:
    for move in Move:
        assert {state for state in State if allows(move, state)} == TRANSITIONS[move][0]
        assert target(move) is TRANSITIONS[move][1]
