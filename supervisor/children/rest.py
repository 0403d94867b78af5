"""A child between two jobs: whether it is given another (policies.recycle)."""

from ipc.keeper import Beside
from policies.options import Options
from policies.recycle import Recycle, recycle
from supervisor.children.worker import Worker


def after_word(worker: Worker, options: Options) -> Recycle | None:
    """Count a job that ended by the child's own word; say why there is no other, None if there may be."""
    worker.jobs += 1
    worker.options = options
    return recycle(worker.jobs, options, overran=False, leftovers=0, rss_first=0.0, rss_now=0.0)


def after_look(worker: Worker, beside: Beside) -> Recycle | None:
    """Say why a child is not given another job now that it is known what it holds, None if it is."""
    rss = beside.memory / (1 << 30)
    worker.rss_first = worker.rss_first or rss
    return recycle(
        worker.jobs,
        worker.options,
        overran=worker.climb is not None,
        leftovers=beside.processes,
        rss_first=worker.rss_first,
        rss_now=rss,
    )
