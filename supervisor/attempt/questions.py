"""Reads that compute halves ask for: a fixed set of verbs, bounded both ways (SPEC C127, CONTRACTS K8)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from ipc.capture import capture
from ipc.messages import Read as Asked
from ipc.messages import ReadReply, encoder
from landing.reader import Unanswered
from supervisor.api import Read

ARGUMENT_LIMIT: Final = 64 << 10
"""Bytes of arguments; decoded, they cost at most some MiB whatever they hold."""

ANSWER_LIMIT: Final = 4 << 20
"""Bytes of an answer (CONTRACTS K16)."""

NOTHING: Final = Raw(b"\xc0")

Question = tuple[Callable[..., Any], Mapping[str, Any], Callable[[Any], Raw | Unanswered]]


def question(asked: Asked, reads: Mapping[str, Read]) -> Question | str:
    """Return what the reader needs to answer, or why it will not."""
    if (read := reads.get(asked.verb)) is None:
        known = ", ".join(sorted(reads)) or "none"
        return f"no read {asked.verb!r} is registered (reads here: {known})"
    if len(memoryview(asked.args)) > ARGUMENT_LIMIT:
        return f"the arguments of read {asked.verb!r} are over {ARGUMENT_LIMIT} bytes"
    try:
        args = msgspec.msgpack.decode(asked.args, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return f"the arguments of read {asked.verb!r} do not decode: {error}"
    return read.fn, args, encoded


def encoded(value: Any) -> Raw | Unanswered:
    """Encode an answer, in the reader thread; refuse one that is too large or no plain data."""
    try:
        body = encoder.encode(value)
    except Exception as error:  # noqa: BLE001 - the answer's types may run code of the user's
        return Unanswered(f"the answer cannot be sent: {capture(error).message}")
    if len(body) > ANSWER_LIMIT:
        return Unanswered(
            f"the answer is {len(body)} bytes; at most {ANSWER_LIMIT} are allowed, ask in pages"
        )
    return Raw(body)


def answer(number: int, reply: Raw | Unanswered) -> ReadReply:
    """Return the message that answers read `number`."""
    return refusal(number, reply.text) if isinstance(reply, Unanswered) else ReadReply(number, reply)


def refusal(number: int, text: str) -> ReadReply:
    """Return the message that refuses read `number`; file names may hold what is no UTF-8."""
    return ReadReply(number, NOTHING, text[:2000].encode("utf-8", "backslashreplace").decode())
