"""What a supervisor and a guardian say to each other.

    supervisor  --- start (with 3 descriptors), term, dump, kill, limit, ask ------>  guardian
    supervisor  <-- started, failed, crossed, beside, left, over -------------------  guardian

Down goes a 4-byte length and a marshalled tuple, which only the parent may send. Up go lines of
words and numbers: a job has the rights of its user, and could get hold of the guardian's end of the
socket, so what comes up is read as text and never becomes objects.
"""

import marshal
from collections.abc import Iterator

START, TERM, DUMP, KILL, LIMIT, ASK = "start", "term", "dump", "kill", "limit", "ask"
STARTED, FAILED, CROSSED, BESIDE, LEFT, OVER = "started", "failed", "crossed", "beside", "left", "over"

DESCRIPTORS = 3
"""They come with a start: the child's channel, where its output goes, where its stacks go."""

LONGEST = 1 << 17
"""Bytes in the longest order."""

LINE = 8192
"""Characters in the longest line that is read."""

COLD, TEMPLATE = "cold", "template"
"""How a child was started: its own interpreter, or a copy of one that has imported the application."""

AT_FAULT = "its template"
"""What the reason begins with why a child is cold whose template did not do what one has to."""

CGROUP, GUARDIAN, GROUP = "cgroup", "guardian", "group"
"""How sure a kill is: the kernel ends the group, a guardian gets every orphan, or the process group dies."""

Start = tuple[list[str], list[str], dict[str, str], str, int, str, str, bool]
"""argv, tail, environment, folder, nice, folder closed to it or "", control group or "", template allowed."""

Order = tuple[str, *tuple[int | Start, ...]]


def pack(word: str, *values: int | Start) -> bytes:
    """Return an order as bytes."""
    body = marshal.dumps((word, *values))
    return len(body).to_bytes(4, "big") + body


def unpack(buffer: bytearray) -> Iterator[Order]:
    """Take every whole order off the front of `buffer` and yield it."""
    while len(buffer) >= 4 and len(buffer) >= (end := 4 + int.from_bytes(buffer[:4], "big")):
        order: Order = marshal.loads(bytes(buffer[4:end]))  # noqa: S302 - its parent's words
        del buffer[:end]
        yield order


def line(word: str, *values: object) -> bytes:
    """Return a line as bytes; its values hold no newline."""
    text = " ".join(str(value).replace("\n", " ") for value in (word, *values))
    return text[: LINE - 1].encode("utf-8", "backslashreplace") + b"\n"
