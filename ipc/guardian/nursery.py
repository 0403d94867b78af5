"""How a worker comes to be: started by itself, or as a copy of a template that is started first.

start --> coming --exec--> born                 a child of its own
                 --"pid"--> born                a copy
                 --"alone"--> born              the template itself, which makes no copies
                 --what went wrong, "none"--> failed
                 --"none", but it has made copies--> coming, from a new template
                 --no child of ours, or nothing in time--> coming, by itself, and so from then on
"""

import os
import signal
from _socket import AF_UNIX, SOCK_STREAM, socketpair
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import inf
from time import monotonic

from ipc.guardian import birth, parting, sweep
from ipc.guardian.orders import AT_FAULT, COLD, TEMPLATE, Start
from ipc.guardian.template import Template, places

Born = tuple[int, str]
"""The process id of a worker, and how it came to be."""

Fds = tuple[int, int, int]

COPY_SECONDS = 5.0
"""Seconds in which a template that has imported the application makes a copy, or is of no use."""
LAST_WORDS = 2.0
"""Seconds in which a template that has hung up may end by itself, and write down why."""


class Nursery:
    """Starts workers, one at a time.

    Attributes:
        template: what copies are made of, None for none.
        coming: a worker has been asked for and is not there yet.
    """

    def __init__(self) -> None:
        self.template: Template | None = None
        self.coming = False
        self._birth: birth.Birth | None = None
        self._wanted: tuple[Start, Fds] | None = None
        self._cold: tuple[Start, str] | None = None
        self._kill_at: float | None = None
        self._copy_by = inf

    def start(self, start: Start, fds: Fds) -> None:
        """Have a worker come.

        Raises:
            OSError: it could not be started.
        """
        if self._has_copies(start):
            self._wanted = start, copied(fds)
            try:
                self._start_copy(start, fds)
            except OSError:
                self._settle()
                raise
        else:
            self._birth = birth.bear(start, fds, None)
        self.coming = True

    def _start_copy(self, start: Start, fds: Fds) -> None:
        if self.template is None:
            self.template, self._birth = bear_template(start, fds)
        else:
            signal_child(self.template.pid, signal.SIGCONT)  # a job may have stopped it
            self.template.copy(fds)
            self._expect_copy(self.template)

    def _has_copies(self, start: Start) -> bool:
        return start[-1] and (self._cold is None or self._cold[0] != start)

    def _expect_copy(self, template: Template) -> None:
        if template.up and self._copy_by == inf:
            self._copy_by = monotonic() + COPY_SECONDS

    def outlived(self, start: Start) -> int:
        """Forget a template that is of no use for `start`; return its process id, 0 where there is none."""
        if self.template is None or (self._has_copies(start) and self.template.fits(start)):
            return 0
        return self.give_up()

    def waits_for(self) -> Iterator[int]:
        """Yield the descriptors at which there will be news."""
        if self._birth is not None:
            yield self._birth.fileno()
        if self.template is not None and not self.template.hung_up:
            yield self.template.fileno()

    def hear(self) -> Born | None:
        """Return the worker that has come, None while it has not.

        Raises:
            birth.NotBegun: it could not be started.
        """
        if self._birth is not None and (born := self._hear_birth(self._birth)) is not None:
            return born
        return None if self.template is None else self._hear_template(self.template)

    def _hear_birth(self, coming: birth.Birth) -> Born | None:
        try:
            if not coming.listen():
                return None
        except birth.NotBegun:
            self._birth = None
            self.give_up()
            raise
        self._birth = None
        if self.template is not None:
            return None
        self.coming = False
        return coming.pid, COLD if self._cold is None else f"{COLD} {self._cold[1]}"

    def _hear_template(self, template: Template) -> Born | None:
        pid = template.listen()
        if template.alone is not None and self.coming:
            self.give_up()
            return template.pid, f"{COLD} {template.alone}"
        if template.hung_up:
            self._end_hung_up(template)
        if self.template is None or not self.coming:
            return None
        if template.failed is not None:
            self._part_from_failed(template, template.failed)
        elif pid is not None and pid != template.pid and sweep.is_child(pid):
            self._settle()
            return pid, TEMPLATE
        elif pid is not None:
            self._start_cold(f"{AT_FAULT} makes no children of its guardian")
        elif self._copy_by <= monotonic():
            self._start_cold(f"{AT_FAULT} made no copy within {COPY_SECONDS:g} s")
        else:
            self._expect_copy(template)
        return None

    def _end_hung_up(self, template: Template) -> None:
        """End a template that nobody can ask for anything any more; what that means is told by its end."""
        if self._kill_at is None:
            self._kill_at = monotonic() + LAST_WORDS
        elif self._kill_at <= monotonic() and self.coming:
            self._start_cold(f"{AT_FAULT} closed its line to its guardian")
        elif self._kill_at <= monotonic():
            sweep.kill_group(template.pid)
            self._kill_at = inf

    # --- a template that is of no use

    def _part_from_failed(self, template: Template, why: str) -> None:
        """Try a new template before the application is blamed: a job may have spoilt one that made copies."""
        if template.copies and self._wanted is not None:
            self._start_anew(*self._wanted)
            return
        template.failed = None
        self._settle()
        raise birth.NotBegun(why)

    def _start_cold(self, why: str) -> None:
        """Have the worker come by itself, and those after it: the next template would do no better."""
        if self._wanted is not None:
            start, fds = self._wanted
            self._cold = start, why
            self._start_anew(start, fds)

    def _start_anew(self, start: Start, fds: Fds) -> None:
        self._wanted = None
        try:
            parting.end(self.give_up())
            self.start(start, fds)
        except OSError as error:
            raise birth.not_begun(error) from None
        finally:
            close(fds)

    def next_step(self) -> float | None:
        """Return seconds until `hear` should be called whatever comes, None when that is not needed."""
        due = min(self._copy_by, inf if self._kill_at is None else self._kill_at)
        return None if due == inf else max(0.0, due - monotonic())

    @property
    def template_pid(self) -> int:
        """Return the process id of the template, 0 for none."""
        return 0 if self.template is None else self.template.pid

    @property
    def starting(self) -> int:
        """Return the process that is to become a worker, or the first copy's template; 0 for none."""
        if self._birth is not None:
            return self._birth.pid
        return self.template_pid if self.coming and self.template and not self.template.copies else 0

    def give_up(self) -> int:
        """Forget the template, and the worker that was to come; return its process id, 0 for none."""
        pid = self.template_pid
        if self._birth is not None:
            pid = self._birth.pid
            self._birth.close()
        if self.template is not None:
            self.template.close()
        self.template, self._birth, self._kill_at = None, None, None
        self._settle()
        return pid

    def _settle(self) -> None:
        """Nobody is to come any more."""
        if self._wanted is not None:
            close(self._wanted[1])
        self.coming, self._wanted, self._copy_by = False, None, inf


def bear_template(start: Start, fds: Fds) -> tuple[Template, birth.Birth]:
    """Start a template, whose first copy gets these descriptors.

    Raises:
        OSError: it could not be started.
    """
    seen = places(start)
    ours, theirs = socketpair(AF_UNIX, SOCK_STREAM)
    try:
        coming = birth.bear(start, fds, theirs.fileno())
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return Template(coming.pid, start, seen, ours), coming


def copied(fds: Fds) -> Fds:
    """Return the same open files by numbers of our own."""
    taken: list[int] = []
    try:
        taken.extend(map(os.dup, fds))
    except OSError:
        close(taken)
        raise
    channel, output, stacks = taken
    return channel, output, stacks


def close(fds: Iterable[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)


def signal_child(pid: int, number: int) -> None:
    """Signal a child of ours that is not reaped yet."""
    with suppress(OSError):
        os.kill(pid, number)
