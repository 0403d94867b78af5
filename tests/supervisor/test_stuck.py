"""Where a killed child was, read from real dumps of real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from supervisor.told.stuck import Frame, call_path, excerpt, is_users, near, raised_at, stuck_at

PROJECT = Path(__file__).resolve().parents[2]

SPIN = """
import faulthandler, signal, sys, threading
faulthandler.register(signal.SIGTERM, file=sys.stderr, all_threads=True, chain=True)
other = threading.Thread(target=threading.Event().wait, daemon=True)
other.start()

def outer():
    inner()

def inner():
    print("spinning", flush=True)
    while True: pass

outer()
"""


def dump_of(script: Path) -> str:
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "spinning\n"
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=20)[1]


def test_a_dump_names_the_line_where_the_main_thread_was(tmp_path: Path) -> None:
    script = tmp_path / "spin.py"
    script.write_text(SPIN)
    frames = stuck_at(dump_of(script))
    assert frames[0].line in {11, 12}, "the signal may come before print has returned"
    assert [frame.function for frame in frames] == ["inner", "outer", "<module>"]
    assert frames[1:] == [Frame(str(script), 8, "outer"), Frame(str(script), 14, "<module>")]


def test_the_workers_own_frames_are_left_out_unless_there_are_no_others() -> None:
    ours = Path(__file__).resolve().parents[2] / "worker" / "serve.py"
    head = "Current thread 0x01 (most recent call first):\n"
    user = '  File "/srv/app.py", line 41 in transcribe\n'
    inside = f'  File "{ours}", line 7 in send\n'
    assert stuck_at(f"{head}{user}{inside}") == [Frame("/srv/app.py", 41, "transcribe")]
    assert stuck_at(f"{head}{inside}{user}") == [
        Frame(str(ours), 7, "send"),
        Frame("/srv/app.py", 41, "transcribe"),
    ]


def test_what_is_no_dump_names_no_line() -> None:
    assert stuck_at("") == []
    assert stuck_at('  File "torn, line') == []
    assert stuck_at("Current thread 0x01 (most recent call first):\n  <no Python frame>\n") == []
    assert raised_at("") == []


def test_a_traceback_names_where_it_was_raised(tmp_path: Path) -> None:
    script = tmp_path / "fail.py"
    script.write_text("def f():\n    raise ValueError('x')\n\nf()\n")
    trace = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False).stderr
    assert raised_at(trace) == [Frame(str(script), 2, "f"), Frame(str(script), 4, "<module>")]


def test_a_crash_leaves_a_dump_where_a_traceback_would_be() -> None:
    thread = 'Current thread 0x01 (most recent call first):\n  File "/a.py", line 3 in f\n'
    dump = f"Fatal Python error: Segmentation fault\n\n{thread}"
    assert raised_at(dump) == [Frame("/a.py", 3, "f")]


def test_paths_are_short_where_they_are_known() -> None:
    import re

    assert near(re.__file__) == "re/__init__.py"
    assert near("/srv/app.py") == "/srv/app.py"
    assert call_path([Frame("/a.py", 1, "f"), Frame("/b.py", 2, "g")]) == "/a.py:1 f < /b.py:2 g"


def test_the_users_own_innermost_call_is_always_named() -> None:
    library = [Frame(f"{os.path.dirname(os.__file__)}/subprocess.py", n, f"f{n}") for n in range(1, 7)]
    installed = Frame("/v/lib/python3.12/site-packages/lib/x.py", 1, "g")
    own = Frame("/srv/app.py", 12, "compute")
    path = call_path([*library, installed, own, Frame("/srv/app.py", 3, "outer")], 2)
    assert path == "subprocess.py:1 f1 < ... < /srv/app.py:12 compute"
    assert call_path(library, 2) == "subprocess.py:1 f1 < subprocess.py:2 f2"
    assert [is_users(frame) for frame in (library[0], installed, own, Frame("<frozen runpy>", 1, "x"))] == [
        False, False, True, False,
    ]  # fmt: skip


def test_a_recursion_is_told_once() -> None:
    even, odd, start = (Frame("/srv/app.py", n, name) for n, name in ((3, "even"), (6, "odd"), (9, "start")))
    assert call_path([even, odd] * 40 + [start]) == (
        "/srv/app.py:3 even (40 times) < /srv/app.py:6 odd (40 times) < /srv/app.py:9 start"
    )


def test_a_traceback_is_quoted_in_the_users_own_lines_of_its_last_exception() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "/srv/first.py", line 1, in f\n    first()\n'
        "OSError: no\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        f'Traceback (most recent call last):\n  File "{PROJECT}/landing/batches.py", line 8, in run_lander\n'
        '    self.land()\n  File "/srv/app.py", line 7, in land\n    db.execute(SQL)\n    ^^^^^^\n'
        f'  File "{PROJECT}/landing/transaction.py", line 9, in execute\n    run()\nsqlite3.Error: no\n'
    )
    assert raised_at(trace) == [Frame("/srv/app.py", 7, "land")]
    assert excerpt(trace) == ["/srv/app.py:7 land   db.execute(SQL)"]
