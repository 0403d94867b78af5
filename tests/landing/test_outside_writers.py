"""Other processes and threads write while the lander commits group after group."""

import queue
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from landing.enqueue import Enqueue
from landing.transaction import Transaction
from tests.landing.stand import PATIENCE, Stand, lander_thread

ROOT = Path(__file__).resolve().parent.parent.parent

WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from landing.enqueue import Enqueue
from landing.store import Store
store = Store(Path(sys.argv[2]), lambda: 1)
for _ in range(20):
    store.write(Enqueue(kind="embed", payload="{}"))
"""


class Load:
    """Keeps a lander committing group after group: each answer submits the next."""

    def __init__(self, thread: Any) -> None:
        self.thread, self.on, self.groups = thread, True, 0
        self.ended: queue.SimpleQueue[int] = queue.SimpleQueue()

    def apply(self, tx: Transaction) -> None:
        tx.run("INSERT INTO notes VALUES (0, 0, 'x')")

    def again(self, _: object) -> None:
        self.groups += 1
        if self.on:
            self.thread.lander.submit(self, self.again)
        else:
            self.ended.put(self.groups)


def test_two_other_processes_enqueue_while_the_lander_lands_at_full_rate(stand: Stand) -> None:
    """K7, C70."""
    command = [sys.executable, "-c", WRITER, str(ROOT), str(stand.home)]
    with lander_thread(stand.home) as thread:
        load = Load(thread)
        thread.lander.submit(load, load.again)
        began = time.monotonic()
        writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        try:
            errors = [writer.communicate(timeout=40)[1] for writer in writers]
        finally:
            for writer in writers:
                writer.kill()
        took = time.monotonic() - began
        load.on = False
        groups = load.ended.get(timeout=PATIENCE)
    assert errors == ["", ""]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert stand.query("SELECT COUNT(*) FROM laneway_jobs") == [(40,)]
    assert stand.query("SELECT COUNT(*) FROM notes") == [(groups,)]
    assert took < 30
    assert thread.notices.empty()


def test_the_lander_lets_a_waiting_writer_in(stand: Stand) -> None:
    """K7: between two groups."""
    with lander_thread(stand.home) as thread:
        load = Load(thread)
        thread.lander.submit(load, load.again)
        try:
            for _ in range(20):
                assert stand.write(Enqueue(kind="embed", payload="{}")).outcome == "created"
        finally:
            load.on = False
            load.ended.get(timeout=PATIENCE)
