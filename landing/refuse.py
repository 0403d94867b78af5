"""What a claim ends at once, because no attempt could use it: a receipt without a child (SPEC U23, U32).

handler_missing: nobody has declared its kind here | unreadable: a cell holds what nobody stored there
"""

from dataclasses import dataclass

from landing.finish import Finish
from landing.ledger import Report
from landing.sql import queue as sql
from landing.transaction import Transaction
from policies.job import Outcome
from policies.transitions import Move
from policies.verdict import Verdict

MISSING = "handler_missing"
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Refused:
    """A job that was failed: by which attempt, the code of its receipt, why in one line."""

    job: int
    kind: str
    number: int
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Taken:
    """A row under a lease, which nobody will be given: its attempt, whose it is."""

    job: int
    kind: str
    attempt: int
    run: int
    fence: str


def missing(tx: Transaction, taken: Taken) -> Refused:
    """Fail a job of a kind that nobody has declared: no retry, nothing spent, resumable."""
    return fail(tx, taken, MISSING, "handler_missing: no application has declared this kind here")


def unreadable(tx: Transaction, taken: Taken, cell: str) -> Refused:
    """Fail a job because of a cell of its row."""
    return fail(tx, taken, UNREADABLE, f"unreadable: {cell}")


def fail(tx: Transaction, taken: Taken, code: str, text: str) -> Refused:
    """Write the receipt of an attempt that nobody made, over whatever the row's cells hold."""
    tx.run(sql.MEND, {"run": None, "only": taken.job, "fence": taken.fence})
    row = tx.one(sql.ENDS, (taken.job,))
    assert row is not None
    Finish(
        job=taken.job,
        attempt=taken.attempt,
        number=row["claims"],
        run=taken.run,
        fence=taken.fence,
        last_seq=row["landed_seq"],
        verdict=Verdict(Move.FAIL, text),
        report=Report(
            outcome=Outcome.FAILED,
            error_code=code,
            error={"type": "", "message": text, "traceback": ""},
        ),
    ).apply(tx)
    return Refused(taken.job, taken.kind, row["claims"], code, text)
