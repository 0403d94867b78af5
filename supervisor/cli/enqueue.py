"""`supervisor enqueue`: one payload, or a whole file of them in one transaction."""

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, BinaryIO, Final

from landing.enqueue import COALESCED, CREATED, EXISTING, UnknownKind
from policies.job import Mode
from policies.payload import PAYLOAD_LIMIT, PayloadRefused, payload_from, payload_text
from supervisor.application import Application, load_application
from supervisor.cli import hints
from supervisor.cli.output import hint, print_json, warn
from supervisor.client import Client, JobRef
from supervisor.errors import ApplicationRefused, Refused
from supervisor.lock import is_live
from supervisor.settings.values import Flags, Settings, load_settings

READ_LIMIT: Final = 8 * PAYLOAD_LIMIT
MET: Final = {
    COALESCED: ("waits already", "wait already"),
    EXISTING: ("is there already", "are there already"),
}
"""What a person reads of jobs that were met instead of made: of one, of several."""
WORD: Final = 60
"""Characters of an argument that was meant as a text, it seems."""
NAMED: Final = 10
"""Jobs that a hint names; a file may hold thousands."""


def enqueue_command(
    *,
    home: str | None,
    app: str | None,
    as_json: bool,
    kind: str,
    payload: str | None,
    lines: str | None,
    **options: Any,
) -> int:
    """Queue what was asked for and print the ids."""
    settings = load_settings(Flags(home=home, app=app))
    if lines is not None and payload is not None:
        raise Refused(["a payload and --lines exclude each other"])
    payloads = [one_payload(payload)] if lines is None else list(payload_lines(lines))
    given = {name: value for name, value in options.items() if value is not None}
    with redirect_stdout(sys.stderr):  # an application's router may print
        jobs = enqueue(settings, kind, payloads, given, register=app is not None)
    if not jobs:
        raise Refused([f"--lines {lines} holds no payload, 0 queued; write one JSON value a line"])
    report(jobs, as_json=as_json, single=lines is None)
    for warning in dict.fromkeys(job.warning for job in jobs if job.warning):
        warn(f"{warning}; the rules decided instead")
    if "memory_limit" in given and Client(settings.home).kinds()[kind]["options"].get("mode") == Mode.INPROC:
        hint(f"{kind} runs on a thread, which nothing holds to --memory-limit: it has no effect")
    if any(job.outcome == CREATED for job in jobs) and not is_live(settings.home):
        hint(f"queued; no supervisor runs here, start one: {hints.run([kind])}")
    return 0


def enqueue(
    settings: Settings, kind: str, payloads: list[Any], options: dict[str, Any], *, register: bool
) -> list[JobRef]:
    """Queue; the application of the settings is loaded for its router, or a kind that the store lacks."""
    tiers = {tier.name: tier.window for tier in settings.scheduling.tiers.values()}

    def client(application: Application | None = None) -> Client:
        return Client(settings.home, application, tiers)

    if register:
        return client(load_application(settings)).enqueue_many(kind, payloads, **options)
    asks = settings.app is not None and options.get("tier") is None and client().has_router(kind)
    try:
        return client(with_router(settings) if asks else None).enqueue_many(kind, payloads, **options)
    except UnknownKind as error:
        if settings.app is None:
            raise Refused([f"{error} (an application's own: --app FILE.py)"]) from None
    return client(load_application(settings)).enqueue_many(kind, payloads, **options)


def with_router(settings: Settings) -> Application | None:
    """Load the application for its router; one that does not load keeps no job out (SPEC C110)."""
    try:
        return load_application(settings)
    except ApplicationRefused as error:
        warn(f"the router was not asked, for the application does not load: {error.complaints[0]}")
        return None


def report(jobs: list[JobRef], *, as_json: bool, single: bool) -> None:
    """Print the ids; a person is told which of them are no new jobs."""
    if as_json:
        answers = [{"id": job.id, "outcome": job.outcome} for job in jobs]
        print_json(answers[0] if single else answers)
        return
    print("\n".join(str(job.id) for job in jobs))
    for outcome, many in MET.items():
        met = list(dict.fromkeys(job.id for job in jobs if job.outcome == outcome))
        if met:
            names = " ".join(f"#{job}" for job in met[:NAMED])
            more = f" and {len(met) - NAMED:,} more" if met[NAMED:] else ""
            hint(f"{names}{more} {many[bool(met[1:])]}; no job was added for the same again")


def one_payload(text: str | None) -> Any:
    """Return the payload of an argument: JSON, - for stdin, {} when there is none.

    Raises:
        PayloadRefused: it is not JSON, or stdin holds nothing.
    """
    if text is None:
        return {}
    if text != "-":
        return payload_of_word(text)
    if not (data := sys.stdin.buffer.read(READ_LIMIT + 1)).strip():
        raise PayloadRefused("stdin is empty; a payload is JSON, by default {}")
    return payload_from(decoded(data))


def payload_of_word(text: str) -> Any:
    """Return the payload of an argument; a shell has taken the quotes of a text, so the error shows them.

    Raises:
        PayloadRefused: it is no strict JSON.
    """
    try:
        return payload_from(text)
    except PayloadRefused as error:
        is_word = 0 < len(text) <= WORD and text.isprintable() and text[0] not in '{["'
        example = json.dumps(text if is_word else {"root": "docs"}, ensure_ascii=False)
        raise PayloadRefused(f"{error}; JSON is, for example, {shlex.quote(example)}") from None


def payload_lines(source: str) -> Iterator[Any]:
    """Yield the payload of every line that is not empty.

    Raises:
        Refused: the file cannot be read.
        PayloadRefused: a line is no payload; names it by number.
    """
    try:
        if source == "-":
            yield from numbered_payloads(sys.stdin.buffer)
        else:
            with Path(source).open("rb") as file:
                yield from numbered_payloads(file)
    except OSError as error:
        raise Refused([f"--lines {source}: {error.strerror}"]) from None


def numbered_payloads(file: BinaryIO) -> Iterator[Any]:
    """Yield payloads; each is checked here, where its line is known."""
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            value = payload_from(decoded(line))
            payload_text(value)
        except PayloadRefused as error:
            raise PayloadRefused(f"line {number}: {error}") from None
        yield value


def decoded(data: bytes) -> str:
    """Return the text of bytes that should be UTF-8.

    Raises:
        PayloadRefused: they are not, or there are too many.
    """
    if len(data) > READ_LIMIT:
        raise PayloadRefused(f"the payload is over {READ_LIMIT} bytes; pass a path instead")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise PayloadRefused(f"the payload is not UTF-8 (byte {error.start})") from None
