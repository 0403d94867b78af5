"""How a worker comes to be: started by itself, or as a copy of a template that is started first.

start --> born                                  a child of its own
start --> coming --"pid"--> born                a copy
                 --"alone"--> born              the template itself, which makes no copies
                 --"none", NotBegun--> failed
"""

import os
import signal
from _socket import AF_UNIX, SOCK_STREAM, socketpair
from contextlib import suppress

from ipc.guardian import birth, meter
from ipc.guardian.orders import COLD, TEMPLATE, Start
from ipc.guardian.template import Template, places

Born = tuple[int, str]
"""The process id of a worker, and how it came to be."""

Fds = tuple[int, int, int]


class Nursery:
    """Starts workers, one at a time.

    Attributes:
        template: what copies are made of, None for none.
        coming: a copy has been asked for and is not there yet.
    """

    def __init__(self) -> None:
        self.template: Template | None = None
        self.coming = False

    def start(self, start: Start, fds: Fds) -> Born | None:
        """Start a worker; None when it is coming.

        Raises:
            birth.NotBegun: it could not be started.
        """
        template = self.template
        if not start[-1]:
            return birth.bear(start, fds, None), COLD
        if template is None:
            self.template = bear_template(start, fds)
        else:
            signal_child(template.pid, signal.SIGCONT)  # a job may have stopped it
            template.copy(fds)
        self.coming = True
        return None

    def outlived(self, start: Start) -> Template | None:
        """Return the template if it is of no use for `start`, and forget it."""
        template = self.template
        if template is None or (start[-1] and template.fits(start)):
            return None
        template.close()
        self.template = None
        return template

    def hear(self) -> Born | None:
        """Return the worker that has come, None while it has not.

        Raises:
            birth.NotBegun: it could not be started.
        """
        template = self.template
        if template is None:
            return None
        pid = template.listen()
        if not self.coming:
            return None
        if template.alone is not None:
            self.template, self.coming = None, False
            template.close()
            return template.pid, f"{COLD} {template.alone}"
        if template.failed is not None:
            why, template.failed, self.coming = template.failed, None, False
            raise birth.NotBegun(why)
        if pid is None or pid == template.pid or pid not in meter.children(os.getpid()):
            return None
        self.coming = False
        return pid, TEMPLATE

    @property
    def template_pid(self) -> int:
        """Return the process id of the template, 0 for none."""
        return 0 if self.template is None else self.template.pid

    @property
    def importing(self) -> int:
        """Return the process id of a template that is still to make its first copy, 0 for none."""
        return self.template_pid if self.coming and self.template and not self.template.copies else 0

    def give_up(self) -> int:
        """Take the template for the worker that was to come; return its process id, 0 for none."""
        pid, self.coming = self.template_pid, False
        if self.template is not None:
            self.template.close()
        self.template = None
        return pid


def bear_template(start: Start, fds: Fds) -> Template:
    """Start a template, whose first copy gets these descriptors.

    Raises:
        birth.NotBegun: it could not be started.
    """
    seen = places(start)
    ours, theirs = socketpair(AF_UNIX, SOCK_STREAM)
    try:
        pid = birth.bear(start, fds, theirs.fileno())
    except birth.NotBegun:
        ours.close()
        raise
    finally:
        theirs.close()
    return Template(pid, start, seen, ours)


def signal_child(pid: int, number: int) -> None:
    """Signal a child of ours that is not reaped yet."""
    with suppress(OSError):
        os.kill(pid, number)
