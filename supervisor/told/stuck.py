"""Where a killed child was: the frames of the dump that SIGTERM made it write (faulthandler's text).

Current thread 0x00007f1c (most recent call first):
  File "notes/app.py", line 41 in transcribe
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FRAME: Final = re.compile(r'  File "(.*)", line (\d+),? in (.*)')
RAISED: Final = re.compile(FRAME.pattern + r"(?:\n    (\S.*))?")
TRACEBACK: Final = "Traceback (most recent call last):"
HEAD: Final = re.compile(r"^(Current thread|Thread) 0x", re.MULTILINE)
ROOT: Final = Path(__file__).resolve().parents[2]
LANES: Final = ROOT / "supervisor" / "lanes"
MACHINERY: Final = tuple(ROOT / room for room in ("worker", "landing", "ipc", "policies", "supervisor"))
STANDARD: Final = Path(os.__file__).parent
INSTALLED: Final = re.compile(r"/(site-packages|dist-packages|lib(64)?/python3\.\d+)/")


@dataclass(frozen=True, slots=True)
class Frame:
    """One call: a file, a line number from 1, the function's name."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{near(self.file)}:{self.line} {self.function}"


def near(file: str) -> str:
    """Shorten the path of a file below the current folder or on the module path."""
    path = Path(file)
    roots = [Path.cwd(), *(Path(entry) for entry in sys.path if entry)]
    short = [str(path.relative_to(root)) for root in roots if path.is_relative_to(root)]
    return min(short, key=len, default=file)


def stuck_at(dump: str) -> list[Frame]:
    """Return where the compute half was, innermost call first, without our own frames at the outer end.

    The compute half runs in the main thread, which takes the signal and is dumped as
    the current one; a dump that names none is read as one thread.
    """
    threads: list[tuple[bool, list[Frame]]] = [(False, [])]
    for line in dump.splitlines():
        if head := HEAD.match(line):
            threads.append((head[1] == "Current thread", []))
        elif found := FRAME.fullmatch(line):
            threads[-1][1].append(Frame(found[1], int(found[2]), found[3]))
    return users_side(next((frames for current, frames in threads if current), threads[-1][1]))


def raised_at(trace: str) -> list[Frame]:
    """Return where an exception was raised, innermost call first; a crash leaves a dump instead."""
    if HEAD.search(trace):
        return stuck_at(trace)
    frames = [frame for frame, _ in raised(trace)][::-1]
    return [frame for frame in frames if not is_machinery(frame)] or frames


def excerpt(trace: str, most: int = 3) -> list[str]:
    """Return the user's last calls in a traceback with their lines of source, innermost last."""
    return [f"{frame}   {source}" for frame, source in raised(trace) if source and is_users(frame)][-most:]


def raised(trace: str) -> Iterator[tuple[Frame, str]]:
    """Yield the calls of the last traceback in a chain and their source lines, outermost first."""
    for file, line, name, source in RAISED.findall(trace.rpartition(TRACEBACK)[2]):
        yield Frame(file, int(line), name), source


def call_path(frames: list[Frame], most: int = 4) -> str:
    """Say where something was, innermost call first: "decode.py:88 decode < app.py:41 transcribe".

    The user's own innermost call is always among the `most` that are shown, and a
    recursion is told once, with how often.
    """
    times = Counter(frames)
    calls = list(times)
    own = next((n for n, frame in enumerate(calls) if is_users(frame)), 0)
    shown = [said(frame, times[frame]) for frame in calls[:most]]
    if own >= most:
        shown[most - 1 :] = ["...", said(calls[own], times[calls[own]])]
    return " < ".join(shown)


def said(frame: Frame, times: int) -> str:
    """Say one call, and how often it is on the stack."""
    return f"{frame}" if times == 1 else f"{frame} ({times} times)"


def users_side(frames: list[Frame]) -> list[Frame]:
    """Drop our own frames at the outer end; a child stuck in our code alone keeps them all."""
    outer = max((n for n, frame in enumerate(frames) if not is_beneath(frame)), default=len(frames))
    return frames[: outer + 1]


def is_beneath(frame: Frame) -> bool:
    """Tell a frame that every child has below the user's code: ours, and `python -m`'s."""
    return is_machinery(frame) or "runpy" in Path(frame.file).name


def is_machinery(frame: Frame) -> bool:
    """Tell a frame of laneway's own rooms from one of the user's or of a library's."""
    path = Path(frame.file)
    return not path.is_relative_to(LANES) and any(path.is_relative_to(room) for room in MACHINERY)


def is_users(frame: Frame) -> bool:
    """Tell a frame of the user's own code: no library's, not the interpreter's, not ours."""
    foreign = frame.file.startswith("<") or INSTALLED.search(frame.file) is not None
    return not (foreign or Path(frame.file).is_relative_to(STANDARD) or is_machinery(frame))
