"""Load the applications, or say why that failed; then serve."""

from collections.abc import Sequence
from contextlib import suppress

from ipc.channel import Pipe
from ipc.errors import AppError, ChannelClosed
from ipc.messages import Failed
from worker.registry import load_lanes
from worker.serve import serve


def start(channel: int, apps: Sequence[str]) -> int:
    """Serve the lanes of `apps` over the descriptor `channel`; return the exit code."""
    pipe = Pipe(channel)
    try:
        lanes = load_lanes(apps)
    except AppError as error:
        with suppress(ChannelClosed):
            pipe.send(Failed(0, "unstated", "app_start_failed", "AppError", str(error)[:1000]))
        return 1
    serve(pipe, lanes)
    return 0
