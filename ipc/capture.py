"""An exception of any nature becomes bounded text, and none of its own code runs (SPEC B51-B58, U22).

Its class, its arguments and its traceback are read from their slots: `str(error)`,
`error.attribute` and even `type(error).__name__` can be the user's code.
"""

from linecache import getline
from types import FrameType, TracebackType
from typing import Any, Final

from msgspec import Struct

from ipc.description import describe, type_label
from ipc.endings import Ending, Fail, Retry, Skip
from ipc.messages import Said

MESSAGE_LIMIT: Final = 1000
TRACEBACK_LIMIT: Final = 16 << 10
LINE_LIMIT: Final = 300
"""Characters of a source line, or of a name in a frame, that are shown."""
FIRST_FRAMES: Final = 10
LAST_FRAMES: Final = 40
CHAIN_LIMIT: Final = 5
BASES_LIMIT: Final = 64
NAME_LIMIT: Final = 256

ARGS: Final = BaseException.__dict__["args"]
CAUSE: Final = BaseException.__dict__["__cause__"]
CONTEXT: Final = BaseException.__dict__["__context__"]
FIELDS: Final = BaseException.__dict__["__dict__"]
FILENAME: Final = OSError.__dict__["filename"]
SUPPRESS: Final = BaseException.__dict__["__suppress_context__"]
TRACEBACK: Final = BaseException.__dict__["__traceback__"]
CLASS_MODULE: Final = type.__dict__["__module__"]
CLASS_MRO: Final = type.__dict__["__mro__"]
CLASS_QUALNAME: Final = type.__dict__["__qualname__"]


class Captured(Struct, frozen=True):
    """An exception as the wire tells it; the fields are those of `ipc.messages.Failed`."""

    disposition: Said
    type: str
    message: str
    traceback: str
    bases: list[str]
    retry_after: float | None


def capture(error: BaseException) -> Captured:
    """Return what may be known of `error`; never raises, calls nothing of its own."""
    kind = type(error)
    try:
        return Captured(
            disposition=disposition_of(error),
            type=type_label(kind),
            message=message_of(error),
            traceback=traceback_of(error),
            bases=bases_of(kind),
            retry_after=retry_after_of(error),
        )
    except Exception:  # noqa: BLE001 - out of memory, or slots that hold what no slot should
        return Captured("unstated", type_label(kind), f"<{type_label(kind)} raised>", "", [], None)


def disposition_of(error: BaseException) -> Said:
    """Say how the attempt ends: by the class, and by whether a `Fail` is optional."""
    kind = type(error)
    if issubclass(kind, Retry):
        return "retry"
    if issubclass(kind, Skip):
        return "skip"
    if issubclass(kind, Fail) and FIELDS.__get__(error).get("optional") is True:
        return "optional"
    return "fail" if issubclass(kind, Ending) else "unstated"


def retry_after_of(error: BaseException) -> float | None:
    """Return the seconds that a `Retry` asks for, if they are a number that makes sense."""
    after: Any = FIELDS.__get__(error).get("after") if issubclass(type(error), Retry) else None
    is_number = type(after) is int or type(after) is float
    return float(after) if is_number and 0 <= after < 1e9 else None


def message_of(error: BaseException) -> str:
    """Return the only argument if it is text, else a bounded summary of all of them."""
    args = ARGS.__get__(error)
    if not args:
        return f"<{type_label(type(error))} raised>"
    if len(args) == 1 and type(args[0]) is str:
        return encodable(args[0][:MESSAGE_LIMIT])[:MESSAGE_LIMIT]
    if issubclass(type(error), OSError) and type(filename := FILENAME.__get__(error)) is str:
        args = (*args, filename)
    return describe(args)[1:-1][:MESSAGE_LIMIT]


def bases_of(kind: type) -> list[str]:
    """Name the class and its bases, nearest first, as `retry_on` names them."""
    bases = [one for one in CLASS_MRO.__get__(kind) if one is not object]
    return [class_name(one) for one in bases[:BASES_LIMIT]]


def class_name(kind: type) -> str:
    """Name a class module.qualname, builtins bare."""
    module, name = CLASS_MODULE.__get__(kind), CLASS_QUALNAME.__get__(kind)
    full = name if type(module) is not str or module == "builtins" else f"{module}.{name}"
    return encodable(full[:NAME_LIMIT])


def traceback_of(error: BaseException) -> str:
    """Return the traceback as Python prints it, causes first, the end of it if it is long."""
    parts = [f"{frames_of(one)}{type_label(type(one))}: {message_of(one)}\n" for one in chain_of(error)]
    return encodable("\nwhich led to:\n\n".join(reversed(parts)))[-TRACEBACK_LIMIT:]


def chain_of(error: BaseException) -> list[BaseException]:
    """Return the exception, what caused it, what caused that ..., as far as anybody reads."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and len(chain) < CHAIN_LIMIT and all(one is not other for other in chain):
        chain.append(one)
        one = CAUSE.__get__(one) or (None if SUPPRESS.__get__(one) else CONTEXT.__get__(one))
    return chain


def frames_of(error: BaseException) -> str:
    """Return the frames of the user's code and below, the first and the last ones if they are many."""
    trace: TracebackType | None = TRACEBACK.__get__(error)
    while trace is not None and is_ours(trace):
        trace = trace.tb_next
    frames: list[tuple[FrameType, int]] = []
    while trace is not None:
        frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    if not frames:
        return ""
    texts = [frame_text(*one) for one in (*frames[:FIRST_FRAMES], *frames[FIRST_FRAMES:][-LAST_FRAMES:])]
    if (missing := len(frames) - len(texts)) > 0:
        texts.insert(FIRST_FRAMES, f"  ... {missing} frames ...\n")
    return "Traceback (most recent call last):\n" + "".join(texts)


def is_ours(trace: TracebackType) -> bool:
    """Tell whether a frame only led to the user's code."""
    module = trace.tb_frame.f_globals.get("__name__")
    return type(module) is str and module.startswith("worker.")


def frame_text(frame: FrameType, line: int) -> str:
    """Return one frame as Python prints it: file, line, function, source; long names and lines are cut."""
    code = frame.f_code
    file, name = code.co_filename[-LINE_LIMIT:], code.co_qualname[:LINE_LIMIT]
    source = getline(code.co_filename, line).strip()[:LINE_LIMIT]
    text = f'  File "{file}", line {line}, in {name}\n' + (f"    {source}\n" if source else "")
    return encodable(text)


def encodable(text: str) -> str:
    """Return text that UTF-8 can carry: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
