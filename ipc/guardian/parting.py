"""The end of what a guardian keeps beside a worker, or when it leaves: bounded, whatever cannot be ended."""

import select
from time import monotonic

from ipc.guardian import sweep

GIVE_UP = 5.0
"""Seconds in which nothing has ended, after which a sweep that nobody waits for any more is given up."""


def end(pid: int) -> None:
    """Kill a child, and then all there is."""
    sweep.kill_group(pid)
    end_all(kept=0)


def end_all(kept: int) -> None:
    """Kill and reap every child but `kept`, until there are none or none of them ends."""
    sweeping, reaped, until = sweep.Sweep(kept, ward=0), 0, monotonic() + GIVE_UP
    while (pause := sweeping.pass_once()) is not None and monotonic() < until:
        if sweeping.reaped > reaped:
            reaped, until = sweeping.reaped, monotonic() + GIVE_UP
        select.poll().poll(pause * 1000)
