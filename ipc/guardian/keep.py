"""The guardian: keeps one worker after another, and whatever they start, from outliving its work.

    idle --start--> coming --born--> kept --exit | kill | end of the lifeline--> sweeping --> over, idle
                      `-- failed ----------------------------------------------------------^

One process, one thread, no user code. Its end of the lifeline reads end-of-file, or a reset, when
the supervisor is gone: whatever happens, the way out leads through the sweep.
"""

import os
import select
import signal
from contextlib import suppress
from errno import EMFILE
from time import monotonic

from ipc.guardian import birth, cgroup, meter, parting, sweep
from ipc.guardian.lifeline import Lifeline
from ipc.guardian.nursery import Nursery, signal_child
from ipc.guardian.orders import (
    ASK,
    BESIDE,
    CGROUP,
    CROSSED,
    DESCRIPTORS,
    FAILED,
    GUARDIAN,
    KILL,
    LEFT,
    LIMIT,
    OVER,
    START,
    STARTED,
    TERM,
    Order,
    Start,
)

METER_PAUSE = 0.1
"""Seconds between two looks at a tree that has a limit."""
THOROUGH = 5
"""One look in so many is at what descriptors hold as well, whatever the rest."""
METER_SHARE = 10
"""A look that takes long, at many processes or much memory, is followed by a pause so many times as long."""
TELL_PAUSE = 0.5
"""Seconds of sweeping in vain after which the supervisor hears who is left; then as often again."""
MOST_TOLD = 100
"""Process ids in one line about who is left."""
FAREWELL = 0.25
"""Seconds in which a template that is let go may remove what it made while importing."""


class Guardian:
    """Serves one lifeline.

    Args:
        lifeline: the way to the supervisor.
        wakes: readable when a child has ended.
        dump_signal: makes a child write down where it is and go on.
        tier: how surely this system lets it end a tree.
    """

    def __init__(self, lifeline: Lifeline, wakes: int, dump_signal: int, tier: str) -> None:
        self._lifeline = lifeline
        self._wakes = wakes
        self._dump_signal = dump_signal
        self._tier = tier
        self._nursery = Nursery()
        self._ward = 0
        self._group = ""
        self._limits = (0, 0)
        self._measure_at = 0.0
        self._looks = 0
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
        self._wait(self._next_step())
        self._look_at_children()
        self._lifeline.flush()
        orders = self._lifeline.hear()
        for order in orders or ():
            self._obey(order)
        return orders is not None

    def _wait(self, seconds: float | None) -> None:
        """Wait until there is something to hear or to reap; None waits for nothing else."""
        poll = select.poll()
        poll.register(self._lifeline, select.POLLIN | (select.POLLOUT if self._lifeline.unsaid else 0))
        poll.register(self._wakes, select.POLLIN)
        for fd in self._nursery.waits_for():
            poll.register(fd, select.POLLIN)
        poll.poll(None if seconds is None else seconds * 1000)
        self._empty_wakes()

    def _empty_wakes(self) -> None:
        """Empty the pipe that an ended child has written to."""
        with suppress(BlockingIOError):
            os.read(self._wakes, 4096)

    def _next_step(self) -> float | None:
        """Sweep, or measure, if it is time; return seconds until it is again, None when nothing is due."""
        pause = self._nursery.next_step()
        if self._sweep is not None:
            own = self._sweep_on(self._sweep)
        else:
            own = self._measure() if self._ward and any(self._limits) else None
        return min((one for one in (pause, own) if one is not None), default=None)

    # --- what the supervisor says

    def _obey(self, order: Order) -> None:
        word, *values = order
        if word == START and isinstance(values[0], tuple):
            self._start(values[0])
        elif word == LIMIT:
            memory, processes = (value for value in values if isinstance(value, int))
            self._limits, self._measure_at = (memory, processes), 0.0
        elif word == KILL:
            self._kill()
        elif word == ASK:
            self._answer()
        elif at_work := self._ward or self._nursery.starting:
            signal_child(at_work, signal.SIGTERM if word == TERM else self._dump_signal)
            signal_child(at_work, signal.SIGCONT)

    # --- a worker comes

    def _start(self, start: Start) -> None:
        fds = self._lifeline.take()
        if self._tier != GUARDIAN:
            start = (*start[:-1], False)  # a copy would not become a child of ours
        self._limits, self._group = (0, 0), self._made(start[6])
        if template := self._nursery.outlived(start):
            self._part_from(template)
        try:
            if len(fds) != DESCRIPTORS:
                raise OSError(EMFILE, "its guardian has no room for descriptors")
            channel, output, stacks = fds
            self._nursery.start(start, (channel, output, stacks))
        except birth.NotBegun as error:
            self._lifeline.tell(FAILED, error)
        except OSError as error:
            self._lifeline.tell(FAILED, birth.not_begun(error))
        finally:
            for fd in fds:
                os.close(fd)

    def _hear_nursery(self) -> None:
        """Watch a child that has been started; it is given work only after this was told."""
        try:
            born = self._nursery.hear()
        except birth.NotBegun as error:
            self._lifeline.tell(FAILED, error)
            return
        if born is not None:
            self._keep(*born)

    def _keep(self, pid: int, how: str) -> None:
        self._ward = pid
        grouped = self._group and cgroup.take_in(self._group, pid)
        self._lifeline.tell(STARTED, pid, self._nursery.template_pid, CGROUP if grouped else self._tier, how)

    def _made(self, group: str) -> str:
        """Make the control group that the children of this guardian live in; "" where there is to be none."""
        if group and group != self._group:
            try:
                cgroup.make(*os.path.split(group))
            except FileExistsError:  # left by a guardian of this run that had our number
                return group
            except OSError:
                return ""
        return group

    # --- while it works

    def _measure(self) -> float | None:
        began = monotonic()
        if began < self._measure_at:
            return self._measure_at - began
        self._looks += 1
        beside, is_thorough = frozenset({self._nursery.template_pid}), self._looks % THOROUGH == 0
        found = meter.measure(os.getpid(), beside, *self._limits, thorough=is_thorough)
        if found is None:
            took = monotonic() - began
            pause = max(METER_PAUSE, METER_SHARE * took)
            self._measure_at = began + took + pause
            return pause
        self._limits = (0, 0)  # once said is enough
        self._lifeline.tell(CROSSED, *found)
        return None

    def _answer(self) -> None:
        """Say how many processes there are beside the worker, and what it holds in memory."""
        if not self._ward:
            return
        try:
            others = meter.descendants(os.getpid(), frozenset({self._nursery.template_pid, self._ward}))
            below = meter.descendants(self._ward)
            self._lifeline.tell(BESIDE, len(others) + len(below), meter.resident([self._ward]))
        except OSError:  # no descriptor or no memory for a look: there may be some
            self._lifeline.tell(BESIDE, meter.MOST, 0)

    def _look_at_children(self) -> None:
        """Hear of births; reap adopted orphans; notice the end of the template and of the worker.

        Orphans wait while a worker is coming: it may be one that died before we heard its number.
        """
        template = self._nursery.template_pid
        is_dead = template and sweep.is_dead(template)
        self._hear_nursery()
        if is_dead and template == self._nursery.template_pid:
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
        was_dead = sweep.is_dead(self._ward)  # since then all that it had started has been ours to see
        pause = sweeping.pass_once()
        ended = sweep.reap(self._ward) if pause is None and was_dead else None
        if ended is not None:
            status, peak, cpu = ended
            self._ward, self._sweep = 0, None
            exits = os.waitstatus_to_exitcode(status)
            self._lifeline.tell(OVER, exits, sweeping.ended + 1, peak, round(cpu * 1000))
            return None
        left = [*([] if was_dead else [self._ward]), *sweeping.left]
        if left and not self._lifeline.unsaid and monotonic() - self._told_at > TELL_PAUSE:
            self._told_at = monotonic()
            self._lifeline.tell(LEFT, *left[:MOST_TOLD])
        return sweep.LONGEST_PAUSE if pause is None else pause

    def _end_all(self) -> None:
        """End every process there is, as far as they can be ended; a template may leave by itself."""
        template = self._nursery.template
        leaves = template.pid if template is not None and not self._nursery.coming else 0
        if self._group:
            cgroup.kill(self._group)
        for pid in (self._ward, self._nursery.starting):
            if pid:
                sweep.kill_group(pid)
        parting.end_all(kept=leaves)
        self._nursery.give_up()
        if leaves:
            self._part_from(leaves)
        if self._group:
            cgroup.remove(self._group)

    def _part_from(self, template: int) -> None:
        """Let a template that was given up leave, then make sure of it and of all that is left."""
        signal_child(template, signal.SIGCONT)  # a job may have stopped it
        ends, until = select.poll(), monotonic() + FAREWELL
        ends.register(self._wakes, select.POLLIN)
        while not sweep.is_dead(template) and (left := until - monotonic()) > 0:
            ends.poll(left * 1000)
            self._empty_wakes()
        parting.end(template)
