"""`supervisor top`: the status screen on a terminal, again and again, until somebody has seen enough."""

import os
import pty
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from subprocess import Popen
from typing import Any

import pytest

from supervisor.cli.top import FAR, LEAST, WINDOW, Samples
from tests.cli.shell import Shell
from tests.supervisor.serving import wait_for


class Terminal:
    """A terminal with `top` on it, that keeps what was written."""

    def __init__(self, master: int, process: Popen[bytes]) -> None:
        self.master = master
        self.process = process
        self.text = b""
        os.set_blocking(master, False)

    def shows(self, words: bytes, times: int = 1) -> bool:
        """Take what there is; tell whether the words have been written so often."""
        with suppress(OSError):  # nothing now, or the other side is closed
            self.text += os.read(self.master, 1 << 16)
        return self.text.count(words) >= times

    def ends(self) -> bool:
        """Take what there is, so that the last words find room; tell whether it has ended."""
        self.shows(b"")
        return self.process.poll() is not None


@contextmanager
def on_a_terminal(shell: Shell) -> Iterator[tuple[Terminal, list[Any]]]:
    """Start `top`; give its terminal, and how the terminal was set before."""
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    env = {"TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
    process = shell.start("top", env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    try:
        terminal = Terminal(master, process)
        yield terminal, before
        wait_for(terminal.ends)
        assert termios.tcgetattr(slave) == before, "the terminal is as it was"
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)


@pytest.mark.parametrize("leave", [b"q", b"Q", "SIGINT"])
def test_it_draws_anew_until_q_or_ctrl_c_which_are_no_failure(shell: Shell, leave: bytes | str) -> None:
    """DESIGN section 7; the screen that was there before comes back."""
    shell("enqueue", "vault_sync")
    with on_a_terminal(shell) as (terminal, _):
        wait_for(lambda: terminal.shows(b"WAITING 1", 2))
        shell("enqueue", "vault_sync")
        wait_for(lambda: terminal.shows(b"WAITING 2"))
        if isinstance(leave, bytes):
            os.write(terminal.master, leave)
        else:
            terminal.process.send_signal(signal.SIGINT)
        wait_for(terminal.ends)
    assert terminal.process.returncode == 0
    assert b"\x1b[?1049h" in terminal.text
    assert terminal.text.rstrip().endswith(b"\x1b[?1049l")
    assert b"Traceback" not in terminal.text


def test_other_keys_change_nothing(shell: Shell) -> None:
    shell("enqueue", "vault_sync")
    with on_a_terminal(shell) as (terminal, _):
        wait_for(lambda: terminal.shows(b"WAITING 1"))
        os.write(terminal.master, b"x\x1b[A\n")
        drawn = terminal.text.count(b"WAITING 1")
        wait_for(lambda: terminal.shows(b"WAITING 1", drawn + 2))
        os.write(terminal.master, b"q")
    assert terminal.process.returncode == 0


def test_without_a_terminal_it_prints_the_status_once(shell: Shell) -> None:
    shell("enqueue", "vault_sync")
    top, status = shell("top"), shell("status")
    assert (top.code, top.out.splitlines()[:4]) == (0, status.out.splitlines()[:4])
    assert shell("top", "--json").json["jobs"] == {"queued": 1}


def test_it_never_makes_a_store(shell: Shell) -> None:
    """DESIGN section 4: reading commands never create one."""
    assert "no store in " in shell.refused("top", code=1)
    with on_a_terminal(shell) as (terminal, _):
        wait_for(terminal.ends)
    assert (terminal.process.returncode, b"error: no store in " in terminal.text) == (1, True)
    assert b"\x1b[?1049h" not in terminal.text, "it is said where it can be read"
    assert not shell.home.exists()


def looks(*seen: tuple[float, int], attempt: int = 1) -> dict[str, Any]:
    """Return what is told of a job after looks at (seconds, rows)."""
    samples, job = Samples(), {}
    for at, rows in seen:
        job = {"id": 7, "attempt": attempt, "rows": rows, "rate": 1.0}
        samples.add([job], at)
    return job


def test_the_rate_is_of_the_last_seconds() -> None:
    """LESSONS 31: rates, not levels."""
    job = looks(*((float(second), 100 * second) for second in range(31)))
    assert (job["rate"], job["rate_s"]) == (100.0, WINDOW)
    slow = looks((0, 0), (1, 100), (2, 100), (3, 100), (4, 100))
    assert (slow["rate"], slow["rate_s"]) == (25.0, 4)


def test_a_rate_that_nobody_has_seen_is_not_told() -> None:
    """What status says stands until two looks lie far enough apart, and never too far."""
    assert looks((0, 0), (LEAST - 0.5, 50))["rate"] == 1.0
    assert looks((0, 0), (3, 300), (3 + FAR + 1, 9_000))["rate"] == 1.0, "asleep"
    assert looks((0, 900), (3, 10))["rate"] == 1.0, "discarded"


def test_attempts_are_told_apart_and_forgotten() -> None:
    samples = Samples()
    for at, attempt in ((0.0, 1), (3.0, 2)):
        job = {"id": 7, "attempt": attempt, "rows": 900 * attempt, "rate": None}
        samples.add([job], at)
    assert job["rate"] is None
    samples.add([], 4.0)
    assert samples._seen == {}
