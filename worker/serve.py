"""One job after another, until the supervisor says otherwise.

Ready -> wait -> Run -> Started -> rows ... -> Done | Failed | Yielded -> wait -> ...
                   `-> Failed (unknown kind, payload)
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Final, NamedTuple

import msgspec

from ipc.capture import message_of
from ipc.channel import Pipe
from ipc.errors import ChannelClosed
from ipc.messages import Done, Failed, Ready, Run, Started, Stop, Up
from worker.attempt import Attempt
from worker.context import Job
from worker.host import PROCESS, Host
from worker.limits import limit_cpu
from worker.registry import Lane, Loaded

BETWEEN_MARKS: Final = (
    "rows have landed since the last mark ({}), when this was a replay lane, and a checkpoint lane"
    " cannot drop them; start the job over: laneway retry {} --from-start"
)


class Allowance(NamedTuple):
    """CPU seconds that each job may take, 0 for any; `last` says that this child gets only one."""

    cpu: float = 0.0
    last: bool = True


ANY: Final = Allowance()


def serve(pipe: Pipe, loaded: Loaded, allowance: Allowance = ANY, host: Host = PROCESS) -> None:
    """Run the jobs that come until the supervisor is gone or says Stop; `host` is whose guests they are."""
    with suppress(ChannelClosed):
        pipe.send(Ready(os.getpid(), sorted(loaded.lanes), loaded.sources))
        while (message := pipe.recv()) is not None and not isinstance(message, Stop):
            if isinstance(message, Run):  # an Ack that comes after its job's end is no news
                if allowance.cpu:  # else whatever limit the user has set for all processes stays
                    limit_cpu(allowance.cpu, last=allowance.last)
                pipe.send(work(pipe, message, loaded.lanes, host))


def work(pipe: Pipe, run: Run, lanes: Mapping[str, Lane], host: Host = PROCESS) -> Up:
    """Do one job; return the last word on it."""
    if (lane := lanes.get(run.kind)) is None:
        known = ", ".join(sorted(lanes))
        return refused(run, "unknown_kind", f"this child has no kind {run.kind!r}; it has {known}")
    try:
        payload = msgspec.json.decode(run.payload, type=lane.payload or Any)
    except Exception as error:  # noqa: BLE001 - the lane's type may run code of the user's
        return refused(run, "payload", f"the payload is not what the lane takes: {message_of(error)}")
    pipe.send(Started())
    if run.point.skip and not run.point.digest:
        # In a checkpoint lane batches end at checkpoints or at the end, and the last one that landed
        # did not end at a checkpoint: all rows have landed, only the word Done was lost.
        return Done(run.landed_seq)
    if run.resume == "checkpoint" and run.point.skip:
        return refused(run, "resume_mismatch", BETWEEN_MARKS.format(run.point.skip, run.job))
    try:
        job = Job(run.job, run.kind, payload, run.key, run.number)
        return Attempt(pipe, run, lane, monotonic, host).make(job)
    finally:
        host.flush()


def refused(run: Run, code: str, message: str) -> Failed:
    """Say that the job cannot be begun."""
    return Failed(run.landed_seq, "unstated", code, code, message[:1000])
