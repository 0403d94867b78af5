"""`supervisor run --reload`: the process starts anew, and waits while the application cannot be run.

run ends as app_changed -> another image of this process -> the application can be run: it is
                                      ^                  -> it cannot: said, wait for a change -.
                                      `---------------------------------------------------------'

Who waits holds the supervisor's lock: whoever asks finds a supervisor that starts, and `down` ends it.
"""

import atexit
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from ipc.errors import AppError
from ipc.sources import Span, folders_of, read, theirs
from landing.errors import NoStore
from landing.migrate import upgrade
from supervisor import sensors
from supervisor.cli.codes import lines_of
from supervisor.cli.output import complain
from supervisor.loop import Loop
from supervisor.run.serve import take_lock
from supervisor.settings.place import environment
from supervisor.settings.values import Settings

if TYPE_CHECKING:
    from supervisor.lock import SupervisorLock

STOPS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Beginning:
    """How this process was started, before an application changed anything about it."""

    words: tuple[str, ...]
    environ: Mapping[str, str]
    folder: Path

    def again(self) -> NoReturn:
        """Put another image, started the same way, in place of this one; the process and its streams stay.

        What the application registered for the end of the process is run. A thread that did not come
        back ends here, and what it holds of the store is closed with it.
        """
        with suppress(BaseException):
            atexit._run_exitfuncs()  # noqa: SLF001 - nobody else runs them here
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it
                stream.flush()
        os.chdir(self.folder)
        os.execve(self.words[0], self.words, self.environ)  # noqa: S606 - the very words that started us


def beginning() -> Beginning:
    """Note how this process was started."""
    return Beginning((sys.executable, *sys.orig_argv[1:]), dict(environment()), Path.cwd())


def wait_for_change(settings: Settings, error: Exception, during: Span) -> int:
    """Say why the application cannot be run, and wait until that may have changed.

    Args:
        settings: what names the application.
        error: why it cannot be run.
        during: when that was tried; a file that was mended meanwhile is not waited for.

    Returns:
        The signal that asked for an end instead, 0 for none.

    Raises:
        LockHeld: another supervisor holds the store.
        StoreError: it can be used by none.
    """
    cause = error.__cause__
    broken = cause.file if isinstance(cause, AppError) else None
    if broken is not None and (found := read(broken, during)) is not None and not found.digest:
        return 0
    folders = folders_of(filter(None, [settings.app]), str(settings.folder))
    loaded = map(Path, filter(None, [broken, *theirs(folders)]))
    places = {*map(Path, folders), *(one.parent for one in loaded)}
    before, stops = look(places, settings.file), list[int]()
    with ExitStack() as stack:
        presence = stack.enter_context(closing(Presence(settings.home)))
        loop = stack.enter_context(closing(Loop(sensors.monotonic)))
        stack.enter_context(loop.signals(STOPS, stops.append))
        presence.show()
        for line in lines_of(error):
            complain(f"{line}; waits for a change")
        while not stops and look(places, settings.file) == before:
            loop.turn(float("inf"))
            presence.show()
    return stops[0] if stops else 0


class Presence:
    """The supervisor's lock of a home, held as soon as the home is there.

    Only who holds it may upgrade an older store, and others are to write to it meanwhile (CONTRACTS K7).
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock: SupervisorLock | None = None

    def show(self) -> None:
        """Show life, once a turn; raises as `wait_for_change` does."""
        if self._lock is not None:
            self._lock.touch()
        elif self._home.is_dir():
            self._lock = take_lock(self._home)
            with suppress(NoStore):
                upgrade(self._home, sensors.now_micros())

    def close(self) -> None:
        """Let go."""
        if self._lock is not None:
            self._lock.release()


def look(places: Iterable[Path], file: Path | None) -> dict[Path, tuple[int, int]]:
    """Return the sources in some folders, and a file, each with its time in ns and its bytes."""
    found: dict[Path, tuple[int, int]] = {}
    for path in (*sources_in(places), *filter(None, [file])):
        with suppress(OSError):  # just removed, or a link that leads nowhere
            seen = path.stat()
            found[path] = seen.st_mtime_ns, seen.st_size
    return found


def sources_in(places: Iterable[Path]) -> Iterator[Path]:
    """Yield the sources that lie in some folders."""
    for place in places:
        with suppress(OSError):
            yield from (path for path in place.iterdir() if path.suffix == ".py")
