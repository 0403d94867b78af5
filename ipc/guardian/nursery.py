"""How a worker comes to be: started by itself, or as a copy of a template that is started first.

start --> coming --exec--> born                 a child of its own
                 --"pid"--> born                a copy
                 --"alone"--> born              the template itself, which makes no copies
                 --what went wrong, "none"--> failed
"""

import os
import signal
from _socket import AF_UNIX, SOCK_STREAM, socketpair
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from time import monotonic

from ipc.guardian import birth, sweep
from ipc.guardian.orders import COLD, TEMPLATE, Start
from ipc.guardian.template import Template, places

Born = tuple[int, str]
"""The process id of a worker, and how it came to be."""

Fds = tuple[int, int, int]

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
        self._kill_at: float | None = None

    def start(self, start: Start, fds: Fds) -> None:
        """Have a worker come.

        Raises:
            OSError: it could not be started.
        """
        if not start[-1]:
            self._birth = birth.bear(start, fds, None)
        elif self.template is None:
            self.template, self._birth = bear_template(start, fds)
        else:
            signal_child(self.template.pid, signal.SIGCONT)  # a job may have stopped it
            self.template.copy(fds)
        self.coming = True

    def outlived(self, start: Start) -> int:
        """Forget a template that is of no use for `start`; return its process id, 0 where there is none."""
        if self.template is None or (start[-1] and self.template.fits(start)):
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
        return coming.pid, COLD

    def _hear_template(self, template: Template) -> Born | None:
        pid = template.listen()
        if template.alone is not None and self.coming:
            self.give_up()
            return template.pid, f"{COLD} {template.alone}"
        if template.hung_up:
            self._end_hung_up(template)
        if not self.coming:
            return None
        if template.failed is not None:
            why, template.failed, self.coming = template.failed, None, False
            raise birth.NotBegun(why)
        if pid is None or pid == template.pid or not sweep.is_child(pid):
            return None
        self.coming = False
        return pid, TEMPLATE

    def _end_hung_up(self, template: Template) -> None:
        """End a template that nobody can ask for anything any more; what that means is told by its end."""
        if self._kill_at is None:
            self._kill_at = monotonic() + LAST_WORDS
        elif self._kill_at <= monotonic():
            sweep.kill_group(template.pid)
            self._kill_at = inf

    def next_step(self) -> float | None:
        """Return seconds until `hear` should be called whatever comes, None when that is not needed."""
        return None if self._kill_at in {None, inf} else max(0.0, self._kill_at - monotonic())

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
        self.template, self._birth, self._kill_at, self.coming = None, None, None, False
        return pid


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


def signal_child(pid: int, number: int) -> None:
    """Signal a child of ours that is not reaped yet."""
    with suppress(OSError):
        os.kill(pid, number)
