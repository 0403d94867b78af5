"""What an attempt leaves behind: the facts of its end as a Finish, pure but for the child's last words."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ipc.child import Exit
from ipc.guardian.orders import GROUP
from ipc.ladder import BEFORE_KILL
from landing.finish import Finish
from landing.ledger import Report
from policies import deadlines
from policies.job import Outcome
from policies.retry import judge
from policies.transitions import Move, target
from policies.verdict import Verdict
from supervisor import events, machine
from supervisor.attempt.ending import Ending
from supervisor.attempt.state import Attempt
from supervisor.children.worker import Worker, thread_left

CLOSED_LOG: Final = 1 << 20
OWN_DEATHS: Final = frozenset({"died", "cpu_limit"})
LIMITS: Final = (
    "memory_limit",
    "process_limit",
    "cpu_limit",
    "open_files_limit",
    "file_size_limit",
)


def finish_of(attempt: Attempt, run: int, now: int, monotonic: float) -> Finish:
    """Return the operation that ends an attempt whose ending is known.

    Args:
        attempt: it has an ending.
        run: the run's id.
        now: microseconds UTC, for the verdict's backoff.
        monotonic: seconds, for the time that counts toward job_deadline.
    """
    ending, claimed = attempt.ending, attempt.claimed
    assert ending is not None
    verdict = judge(attempt.ended(), attempt.options, claimed.failures, now)
    report = report_of(attempt, ending)
    last_seq = attempt.received_seq if ending.outcome is Outcome.DONE else attempt.landed_seq
    return Finish(
        job=claimed.job,
        attempt=claimed.attempt,
        number=claimed.number,
        run=run,
        fence=claimed.fence,
        last_seq=last_seq,
        verdict=named(verdict, report),
        report=report,
        result=ending.result,
        awake=deadlines.awake(attempt.clocks, monotonic),
        stale=attempt.stale,
        discard=attempt.discard,
        events=(*attempt.notes, *((("killed", report.kill),) if report.kill else ())),
    )


def bare(finish: Finish) -> Finish:
    """Return the same end without anything that the store may have refused: a receipt must be written."""
    report = Report(
        outcome=finish.report.outcome,
        error_code="receipt_refused",
        error={"type": "", "message": "the store refused the full receipt", "traceback": ""},
        spent=finish.report.spent,
    )
    verdict = replace(finish.verdict, reason=finish.report.outcome)
    return replace(finish, verdict=verdict, report=report, result=None, events=())


def named(verdict: Verdict, report: Report) -> Verdict:
    """Give a failed job its reason in words; other moves keep theirs."""
    if verdict.move not in {Move.FAIL, Move.FAIL_OPTIONAL}:
        return verdict
    return Verdict(verdict.move, reason_line(report), verdict.wake_at, verdict.counts)


def reason_line(report: Report) -> str:
    """Say in one line why an attempt did not succeed."""
    error = report.error or {}
    kind, text = str(error.get("type") or ""), str(error.get("message") or "")
    line = f"{kind}: {text}" if kind and text else kind or text or report.outcome
    return line.splitlines()[0][:300]


def report_of(attempt: Attempt, ending: Ending) -> Report:
    """Gather what the receipt keeps."""
    worker = attempt.worker
    worker.child.log.drain(CLOSED_LOG)
    return Report(
        outcome=ending.outcome,
        error_code=ending.code,
        error=ending.error,
        exit=None if attempt.loaded.profile.thread else exit_facts(worker.child.exit),
        kill=kill_facts(attempt, ending),
        world=world_facts(attempt),
        spent=attempt.spent,
        log=worker.child.log.text(),
    )


def exit_facts(ended: Exit | None) -> Mapping[str, Any] | None:
    """Return the exit code and signal, or None while the process lives."""
    return None if ended is None else {"code": ended.code, "signal": ended.signal}


def world_facts(attempt: Attempt) -> Mapping[str, Any]:
    """Return what was on: how the child came about, how surely it could be ended, what it was kept from."""
    child, profile = attempt.worker.child, attempt.loaded.profile
    limits = {} if profile.thread else {name: getattr(attempt.options, name) for name in LIMITS}
    return {
        "spawn": child.spawn,
        "kill": child.tier,
        "shield": machine.shield().kept_off if profile.shield else None,
        "network": "open" if profile.network else "sealed",
        "limits": {name: value for name, value in limits.items() if value},
    }


def kill_facts(attempt: Attempt, ending: Ending) -> Mapping[str, Any] | None:
    """Return the record of a kill: which limit, how long it took, where it was stuck, who survived."""
    worker = attempt.worker
    if worker.climb is None or worker.climb.last is None or is_its_own(ending):
        return None
    climb, overdue = worker.climb, ending.overdue
    graced = 0.0 if climb.last in BEFORE_KILL else climb.grace
    is_over = ending.outcome is Outcome.MEMORY or ending.code == "process_limit"
    crossed = worker.child.crossed if is_over else None
    memory = {"limit": attempt.options.memory_limit, "used": 0, "processes": 0}
    if crossed is not None:
        memory |= {"used": crossed.memory, "processes": crossed.processes}
    return {
        "reason": overdue.clock if overdue else ending.code or ending.outcome,
        "deadline_s": overdue.limit if overdue else None,
        "grace_s": climb.grace or ending.grace,
        "rung": climb.last,
        "took_ms": round((worker.gone_at - climb.decided) * 1000, 1),
        "late_ms": round((worker.gone_at - climb.decided - graced) * 1000, 1),
        "stack": worker.child.stack() if ending.hung else "",
        **ended_facts(worker),
        "survivors": list(worker.child.left),
        **({} if crossed is None else {"memory": memory}),
    }


def ended_facts(worker: Worker) -> Mapping[str, Any]:
    """Say how many processes ended, where anybody counts them; of a thread, whether it had to be left."""
    if worker.profile.thread:
        left = thread_left(worker)
        return {"abandoned": left is not None, **({} if left is None else {"thread": left})}
    return {} if worker.child.tier == GROUP else {"ended": worker.child.ended}


def is_its_own(ending: Ending) -> bool:
    """Tell an end that the child came to by itself, though it may have been stopped meanwhile, or since."""
    return ending.by_word or (ending.outcome is Outcome.DIED and ending.code in OWN_DEATHS)


def ended_event(attempt: Attempt, finish: Finish, *, cancelled: bool) -> events.AttemptEnded:
    """Return what a person is told about an end."""
    claimed, verdict, report = attempt.claimed, finish.verdict, finish.report
    return events.AttemptEnded(
        job=claimed.job,
        kind=claimed.kind,
        attempt=claimed.number,
        outcome=Outcome.CANCELLED if cancelled else report.outcome,
        state="cancelled" if cancelled else target(verdict.move),
        reason=verdict.reason,
        error=reason_line(report) if report.error else "",
        kill=report.kill,
        rows=attempt.rows,
        wake_at=verdict.wake_at,
    )


def ended_unseen(job: int, kind: str, number: int, outcome: Outcome, reason: str) -> events.AttemptEnded:
    """Return the same of an attempt that no child ever saw: it was cancelled before, or was of no use."""
    return events.AttemptEnded(
        job=job,
        kind=kind,
        attempt=number,
        outcome=outcome,
        state=outcome,
        reason=reason,
        error=reason if outcome is Outcome.FAILED else "",
        kill=None,
        rows=0,
        wake_at=None,
    )
