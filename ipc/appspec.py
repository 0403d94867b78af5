"""Which application: MODULE[:ATTR] or FILE.py[:ATTR], loaded the same way on both sides.

The folder of a FILE and then the current folder are searched last, so that they shadow
nothing. A FILE is loaded under its stem as the module's name, whatever else is on the path.
"""
# Importing pathlib would cost every child 3 ms.

import os
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import FrameType, ModuleType
from typing import Any, Final

from ipc.errors import AppError

DEFAULT_ATTR: Final = "app"
TEXT_LIMIT: Final = 500
"""Characters of an exception's text that are shown."""

OURS: Final = frozenset({"supervisor", "worker", "landing", "ipc", "policies"})


def load_app(spec: str) -> Any:
    """Import the application that `spec` names and return the object.

    Raises:
        AppError: there is none, or importing it failed; file and line say where.
    """
    source, attr = split_spec(spec)
    if (complaint := malformed(source)) is not None:
        raise AppError(repr(spec), complaint)
    try:
        module = load_file(spec, source) if source.endswith(".py") else load_module(spec, source)
    except (Exception, SystemExit) as error:
        if isinstance(error, AppError):
            raise
        raise AppError(spec, describe(error), *find_place(error)) from error
    if (found := getattr(module, attr, None)) is None:
        raise AppError(spec, f"it has no {attr!r}; another name is given as {source}:NAME", module.__file__)
    return found


def split_spec(spec: str) -> tuple[str, str]:
    """Split SOURCE[:ATTR]; what follows the last colon is an attribute only if it is a name."""
    source, colon, attr = spec.rpartition(":")
    return (source, attr) if colon and attr.isidentifier() else (spec, DEFAULT_ATTR)


def malformed(source: str) -> str | None:
    """Say what keeps `source` from being a file or a module at all, or None."""
    if source.endswith(".py"):
        return None
    if ":" in source:
        return "what follows the colon must be one name; write FILE.py:NAME or MODULE:NAME"
    if "/" in source:
        return "a path must end in .py; write FILE.py[:NAME] or MODULE[:NAME]"
    if not all(source.split(".")):
        return "that names no module and no file; write FILE.py[:NAME] or MODULE[:NAME]"
    return None


def load_module(spec: str, name: str) -> ModuleType:
    """Import a module by its dotted name, the current folder searched last."""
    search_last(os.getcwd())
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise AppError(spec, f"there is no module {name!r}; a file is given as PATH.py") from None


def load_file(spec: str, path: str) -> ModuleType:
    """Import the module in one file, its folder and then the current folder searched last."""
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise AppError(spec, f"there is no file {path}")
    search_last(os.path.dirname(path))
    search_last(os.getcwd())
    name = os.path.basename(path).removesuffix(".py")
    if (known := sys.modules.get(name)) is not None and getattr(known, "__file__", None) == path:
        return known
    if known is not None or name in OURS or name in sys.stdlib_module_names:
        raise AppError(spec, f"{name!r} is the name of another module, rename the file")
    return run_file(name, path)


def run_file(name: str, path: str) -> ModuleType:
    """Make the module `name` from the file at `path`; a module whose body raises is not kept."""
    file_spec = spec_from_file_location(name, path)
    assert file_spec is not None, "a name that ends in .py has a loader"
    assert file_spec.loader is not None, "a file has a loader"
    sys.modules[name] = module = module_from_spec(file_spec)
    try:
        file_spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def search_last(folder: str) -> None:
    """Let imports look into `folder` after everywhere else."""
    if folder not in sys.path:
        sys.path.append(folder)


def describe(error: BaseException) -> str:
    """Return an exception as one line of bounded text."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    try:
        text = " ".join(str(error).split())[:TEXT_LIMIT]
    except Exception:  # noqa: BLE001 - the text of an exception is user code, too
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def find_place(error: BaseException) -> tuple[str | None, int | None]:
    """Say where an import broke: the last line of the user's own code, else the last line of all."""
    if isinstance(error, SyntaxError):
        return error.filename, error.lineno
    places = []
    trace = error.__traceback__
    while trace is not None:
        places.append((not is_foreign(trace.tb_frame), trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    own = [place for place in places if place[0]]
    _, file, line = (own or places)[-1]
    return file, line


def is_foreign(frame: FrameType) -> bool:
    """Tell whether a frame belongs to us, to the standard library or to an installed package."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if package in OURS or package in sys.stdlib_module_names:
        return True
    return "site-packages" in frame.f_code.co_filename
