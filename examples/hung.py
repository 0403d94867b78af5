"""Three jobs that hang on purpose, each after one good row.

supervisor enqueue wedged --app examples/hung.py
supervisor run --until-idle --app examples/hung.py
supervisor show 1                # killed on time, the row landed, and the line below where it hung
"""

import ctypes
import re
import signal
import time

from supervisor import App

app = App("hung")
app.migration(1, "CREATE TABLE hung_rows (job INTEGER, text TEXT)")

LIMITS = {"batch_deadline": 1.0, "grace": 0.5, "max_attempts": 1}


@app.lane("wedged", **LIMITS)
def wedged(_job, _ctx):
    """Hang in C while holding the GIL: no Python code of this process runs ever again."""
    yield ("before the wedge",)
    ctypes.PyDLL(None).pause()  # hangs here


@app.lane("runaway", **LIMITS)
def runaway(_job, _ctx):
    """Hang in a regular expression that tries 2 to the power of 60 ways before it gives up."""
    yield ("before the regex",)
    re.match(r"(a+)+$", "a" * 60 + "b")  # hangs here


@app.lane("deaf", **LIMITS)
def deaf(_job, _ctx):
    """Hang and ignore SIGTERM, so that only SIGKILL ends it; whoever ignores it shows no stack either."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield ("before the silence",)
    while True:
        time.sleep(3600)


def land(db, job, rows):
    """Write what came before the hang, for all three."""
    db.executemany("INSERT INTO hung_rows VALUES (?, ?)", [(job.id, text) for (text,) in rows])


for lane in (wedged, runaway, deaf):
    lane.lander(land)
