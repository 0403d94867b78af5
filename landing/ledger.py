"""The append-only side: one receipt an attempt, and events (SPEC U10, B25)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from landing.sql import attempt as sql
from landing.text import clean
from landing.transaction import Transaction
from policies.job import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a receipt keeps. Mappings are stored as JSON; `log` is the capped tail.

    `world` says what was on while the attempt ran: `spawn`, `kill`, `shield`, `network`, and those
    `limits` that were set, in bytes, seconds or counts. None where there was no child to have one.
    """

    outcome: Outcome
    error_code: str | None = None
    error: Mapping[str, Any] | None = None
    exit: Mapping[str, Any] | None = None
    kill: Mapping[str, Any] | None = None
    world: Mapping[str, Any] | None = None
    spent: int = 0
    log: str = ""


def add_receipt(tx: Transaction, job: int, attempt: int, report: Report, outcome: Outcome) -> None:
    """Append the terminal fact of an attempt; a second one is ignored."""
    tx.run(
        sql.ADD_RECEIPT,
        {
            "attempt": attempt,
            "job": job,
            "outcome": outcome,
            "now": tx.now,
            "error_code": cleaned(report.error_code),
            "error": as_json(report.error),
            "exit": as_json(report.exit),
            "kill": as_json(report.kill),
            "world": as_json(report.world),
            "spent": report.spent,
            "log": clean(report.log),
        },
    )


def with_survivors(reason: str, kill: Mapping[str, Any] | None) -> str:
    """Add to why a job ended which of its processes live on, or it would read as if all were gone."""
    left = ", ".join(f"pid {pid}" for pid in (kill or {}).get("survivors") or ())
    return f"{reason}, survivors: {left}" if left else reason


def add_event(
    tx: Transaction, job: int | None, run: int | None, name: str, detail: Mapping[str, Any] | None = None
) -> None:
    """Append something that a person would want to read back."""
    tx.run(
        sql.ADD_EVENT,
        {"now": tx.now, "job": job, "run": run, "name": clean(name), "detail": as_json(detail)},
    )


def as_json(value: Mapping[str, Any] | None) -> str | None:
    """Return a mapping as ASCII JSON, which holds NUL and surrogates harmlessly; None stays None."""
    return None if value is None else json.dumps(dict(value), default=type_of, skipkeys=True)


def type_of(value: object) -> str:
    """Stand in for a value that JSON does not have."""
    return type(value).__name__


def cleaned(text: str | None) -> str | None:
    """Return text as it can be stored; None stays None."""
    return None if text is None else clean(text)
