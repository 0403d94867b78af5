"""Where a killed child was: the frames of the dump that SIGTERM made it write (faulthandler's text).

Current thread 0x00007f1c (most recent call first):
  File "notes/app.py", line 41 in transcribe
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FRAME: Final = re.compile(r'  File "(.*)", line (\d+),? in (.*)')
HEAD: Final = re.compile(r"^(Current thread|Thread) 0x", re.MULTILINE)
OURS: Final = Path(__file__).resolve().parents[2] / "worker"


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


def stuck_at(dump: str, most: int = 4) -> list[Frame]:
    """Return where the compute half was, innermost call first, at most `most` frames of the user's side.

    The compute half runs in the main thread, which takes the signal and is dumped as
    the current one; a dump that names none is read as one thread.
    """
    threads: list[tuple[bool, list[Frame]]] = [(False, [])]
    for line in dump.splitlines():
        if head := HEAD.match(line):
            threads.append((head[1] == "Current thread", []))
        elif found := FRAME.fullmatch(line):
            threads[-1][1].append(Frame(found[1], int(found[2]), found[3]))
    frames = next((frames for current, frames in threads if current), threads[-1][1])
    return users_side(frames)[:most]


def call_path(frames: list[Frame]) -> str:
    """Say where something was, innermost call first: "decode.py:88 decode < app.py:41 transcribe"."""
    return " < ".join(str(frame) for frame in frames)


def users_side(frames: list[Frame]) -> list[Frame]:
    """Drop our own frames at the outer end; a child stuck in our code alone keeps them all."""
    outer = next((n for n, frame in enumerate(frames) if is_ours(frame)), len(frames))
    return frames[:outer] or frames


def is_ours(frame: Frame) -> bool:
    """Tell a frame of the worker from one of the user's or of a library's."""
    return Path(frame.file).is_relative_to(OURS)


def raised_at(trace: str, most: int = 4) -> list[Frame]:
    """Return where an exception was raised, innermost call first; a crash leaves a dump instead."""
    if HEAD.search(trace):
        return stuck_at(trace, most)
    frames = [Frame(file, int(line), name) for file, line, name in FRAME.findall(trace)]
    return [frame for frame in reversed(frames) if not is_ours(frame)][:most]
