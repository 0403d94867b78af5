"""The guardian: keeps one worker after another, and whatever they start, from outliving its work.

    idle --start--> coming --pid--> kept --exit | kill | end of the lifeline--> sweeping --> over, idle
                      `-- failed ----------------------------------------------------------^

One process, one thread, no user code. Its end of the lifeline reads end-of-file, or a reset, when
the supervisor is gone: whatever happens, the way out leads through the sweep.
"""

import os
import select
import signal
from _socket import CMSG_SPACE, SCM_RIGHTS, SOL_SOCKET, socket
from array import array
from contextlib import suppress
from time import monotonic

from ipc.guardian import birth, cgroup, meter, sweep
from ipc.guardian.nursery import Born, Fds, Nursery, signal_child
from ipc.guardian.orders import (
    ASK,
    BESIDE,
    CGROUP,
    CROSSED,
    DESCRIPTORS,
    FAILED,
    KILL,
    LEFT,
    LIMIT,
    OVER,
    START,
    STARTED,
    TERM,
    Order,
    Start,
    line,
    unpack,
)

METER_PAUSE = 0.1
"""Seconds between two looks at a tree that has a limit."""
METER_SHARE = 10
"""A look that takes long, at many processes or much memory, is followed by a pause so many times as long."""
TELL_PAUSE = 0.5
"""Seconds of sweeping in vain after which the supervisor hears who is left; then as often again."""
GIVE_UP = 5.0
"""Seconds after which a sweep that nobody waits for any more is given up."""
SPACE = CMSG_SPACE(DESCRIPTORS * array("i").itemsize)


class Guardian:
    """Serves one lifeline.

    Args:
        lifeline: the socket to the supervisor.
        wakes: readable when a child has ended.
        dump_signal: makes a child write down where it is and go on.
        tier: how surely this system lets it end a tree.
    """

    def __init__(self, lifeline: socket, wakes: int, dump_signal: int, tier: str) -> None:
        self._lifeline = lifeline
        self._wakes = wakes
        self._dump_signal = dump_signal
        self._tier = tier
        self._heard = bytearray()
        self._fds: list[int] = []
        self._nursery = Nursery()
        self._ward = 0
        self._group = ""
        self._limits = (0, 0)
        self._sweep: sweep.Sweep | None = None
        self._told_at = 0.0

    # --- the one wait

    def serve(self) -> None:
        """Keep workers until the lifeline ends; then end everything."""
        try:
            while self._turn():
                pass
        finally:
            self._end_all()

    def _turn(self) -> bool:
        """Wait, then do what came up; tell whether the lifeline holds."""
        pause = self._next_step()
        poll = select.poll()
        poll.register(self._lifeline, select.POLLIN)
        poll.register(self._wakes, select.POLLIN)
        template = self._nursery.template
        if template is not None:
            poll.register(template.fileno(), select.POLLIN)
        ready = {fd for fd, _ in poll.poll(None if pause is None else pause * 1000)}
        if self._wakes in ready:
            os.read(self._wakes, 4096)
        if template is not None and template.fileno() in ready:
            self._hear_template()
        self._look_at_children()
        return self._lifeline.fileno() not in ready or self._hear()

    def _next_step(self) -> float | None:
        """Sweep, or measure, if it is time; return seconds until it is again, None when nothing is due."""
        if self._sweep is not None:
            return self._sweep_on(self._sweep)
        if self._ward and any(self._limits):
            return self._measure()
        return None

    # --- what the supervisor says

    def _hear(self) -> bool:
        try:
            data, ancillary, _, _ = self._lifeline.recvmsg(1 << 16, SPACE)
        except BlockingIOError:
            return True
        except OSError:  # a peer that died with bytes unread makes a reset of the end
            return False
        for level, kind, value in ancillary:
            if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
                numbers = array("i")
                numbers.frombytes(value[: len(value) - len(value) % numbers.itemsize])
                self._fds += numbers
        self._heard += data
        for order in unpack(self._heard):
            self._obey(order)
        return bool(data)

    def _obey(self, order: Order) -> None:
        word, *values = order
        if word == START and isinstance(values[0], tuple):
            channel, output, stacks = self._fds[:DESCRIPTORS]
            del self._fds[:DESCRIPTORS]
            self._start(values[0], (channel, output, stacks))
        elif word == LIMIT:
            memory, processes = (value for value in values if isinstance(value, int))
            self._limits = (memory, processes)
        elif word == KILL:
            self._kill()
        elif word == ASK:
            self._answer()
        elif at_work := self._ward or self._nursery.importing:
            signal_child(at_work, signal.SIGTERM if word == TERM else self._dump_signal)
            signal_child(at_work, signal.SIGCONT)

    def _tell(self, word: str, *values: object) -> None:
        with suppress(OSError):  # the supervisor is gone: the next look at the lifeline says so, too
            self._lifeline.sendall(line(word, *values))

    # --- a worker comes

    def _start(self, start: Start, fds: Fds) -> None:
        self._limits, self._group = (0, 0), self._made(start[6])
        if (template := self._nursery.outlived(start)) is not None:
            sweep.kill_group(template.pid)
            self._sweep_all()
        try:
            self._keep(self._nursery.start(start, fds))
        except birth.NotBegun as error:
            self._tell(FAILED, error)
        finally:
            for fd in fds:
                os.close(fd)

    def _hear_template(self) -> None:
        try:
            self._keep(self._nursery.hear())
        except birth.NotBegun as error:
            self._tell(FAILED, error)

    def _keep(self, born: Born | None) -> None:
        """Watch a child that has been started; it is given work only after this was told."""
        if born is None:
            return
        self._ward, how = born
        grouped = self._group and cgroup.take_in(self._group, self._ward)
        tier = CGROUP if grouped else self._tier
        self._tell(STARTED, self._ward, self._nursery.template_pid, tier, how)

    def _made(self, group: str) -> str:
        """Make the control group that the children of this guardian live in; "" where there is to be none."""
        if group and group != self._group:
            try:
                cgroup.make(*os.path.split(group))
            except OSError:
                return ""
        return group

    # --- while it works

    def _measure(self) -> float | None:
        template = frozenset({self._nursery.template_pid})
        began = monotonic()
        found = meter.measure(os.getpid(), template, *self._limits)
        if found is None:
            return max(METER_PAUSE, METER_SHARE * (monotonic() - began))
        self._limits = (0, 0)  # once said is enough
        self._tell(CROSSED, *found)
        return None

    def _answer(self) -> None:
        """Say how many processes there are beside the worker, and what it holds in memory."""
        others = meter.descendants(os.getpid(), frozenset({self._nursery.template_pid, self._ward}))
        below = meter.descendants(self._ward)
        self._tell(BESIDE, len(others) + len(below), meter.resident([self._ward]))

    def _look_at_children(self) -> None:
        """Reap adopted orphans; notice the end of the template and of the worker."""
        template = self._nursery.template_pid
        if template and sweep.is_dead(template):
            was_coming = self._nursery.coming
            self._nursery.give_up()
            if was_coming:
                self._ward = template
            else:
                sweep.reap(template)
        if self._ward and self._sweep is None:
            sweep.reap_orphans((self._ward, self._nursery.template_pid))
            if sweep.is_dead(self._ward):
                self._begin_sweep()

    # --- and ends

    def _kill(self) -> None:
        """End the worker and its tree; a start that has not led to one yet ends with its template."""
        if self._nursery.coming:
            self._ward = self._nursery.give_up()
        if self._ward and self._sweep is None:
            self._begin_sweep()

    def _begin_sweep(self) -> None:
        if self._group:
            cgroup.kill(self._group)
        sweep.kill_group(self._ward)
        self._sweep = sweep.Sweep(self._nursery.template_pid, self._ward)
        self._told_at = monotonic()

    def _sweep_on(self, sweeping: sweep.Sweep) -> float | None:
        """Make a pass; return seconds until the next, or None when it is over and said so."""
        pause = sweeping.pass_once()
        ended = sweep.reap(self._ward) if pause is None else None
        if ended is not None:
            status, peak = ended
            exits = os.waitstatus_to_exitcode(status)
            self._ward, self._sweep = 0, None
            self._tell(OVER, exits, sweeping.ended + 1, peak)
            return None
        if monotonic() - self._told_at > TELL_PAUSE:
            self._told_at = monotonic()
            waits_for_ward = not sweep.is_dead(self._ward)
            self._tell(LEFT, *([self._ward] if waits_for_ward else []), *sweeping.left)
        return sweep.LONGEST_PAUSE if pause is None else pause

    def _end_all(self) -> None:
        """End every process there is, as far as they can be ended."""
        if self._group:
            cgroup.kill(self._group)
        for pid in (self._ward, self._nursery.template_pid):
            if pid:
                sweep.kill_group(pid)
        self._sweep_all()
        if self._group:
            cgroup.remove(self._group)

    def _sweep_all(self) -> None:
        sweeping, until = sweep.Sweep(kept=0, ward=0), monotonic() + GIVE_UP
        while (pause := sweeping.pass_once()) is not None and monotonic() < until:
            select.poll().poll(pause * 1000)
