"""Starting, signalling and reaping one real child (SPEC C126, C156; LESSONS 12, 13)."""

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ipc.child import ALWAYS_PASSED, Child, Command, Exit, pruned

SLEEP = "import time; print('up', flush=True); time.sleep(3600)"


@contextmanager
def child_running(code: str, folder: Path, nice: int = 0) -> Iterator[Child]:
    command = Command(
        argv=(sys.executable, "-c", code), tail=(), env={"PATH": os.environ["PATH"]}, folder=folder, nice=nice
    )
    child = Child(command)
    try:
        yield child
    finally:
        child.kill_group()
        wait_exit(child)
        child.close()


def wait_exit(child: Child) -> Exit:
    assert child.pidfd is not None
    select.select([child.pidfd], [], [], 20)
    ended = child.reap()
    assert ended is not None
    return ended


def wait_output(child: Child, text: str) -> None:
    while text not in child.log.text():
        assert select.select([child.log.fileno()], [], [], 20)[0]
        child.log.drain(1 << 16)


def test_a_child_gets_the_few_variables_that_all_get_and_those_its_kind_names() -> None:
    """C156."""
    environ = {name: name.lower() for name in (*ALWAYS_PASSED, "SECRET", "LANEWAY_HOME", "HF_HOME")}
    passed = pruned(environ, ("HF_HOME", "NOT_SET"))
    assert passed.keys() == {*ALWAYS_PASSED, "HF_HOME", "PYTHONHASHSEED"}
    assert passed["PYTHONHASHSEED"] == "0"
    assert passed["PATH"] == "path"


def test_an_exit_names_its_code_or_its_signal() -> None:
    """FIELD H9."""
    assert str(Exit(3, None)) == "exit code 3"
    assert str(Exit(None, 9)) == "killed by signal 9 (SIGKILL)"
    assert str(Exit(None, 200)) == "killed by signal 200 (signal)"


def test_a_killed_child_is_reaped_with_its_signal_and_its_output_kept(tmp_path: Path) -> None:
    """C126."""
    with child_running(SLEEP, tmp_path) as child:
        wait_output(child, "up")
        assert child.reap() is None
        child.kill_group()
        assert wait_exit(child) == Exit(None, signal.SIGKILL)
        assert child.reap() == Exit(None, signal.SIGKILL)
    assert child.log.text() == "up\n"


def test_what_stayed_in_its_group_dies_with_it(tmp_path: Path) -> None:
    """FIELD A5, as far as this version goes."""
    code = (
        "import subprocess, sys, time\n"
        "one = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])\n"
        "print(one.pid, flush=True)\n"
    )
    with child_running(code, tmp_path) as child:
        wait_output(child, "\n")
        grandchild = int(child.log.text())
        wait_exit(child)
        until_gone(grandchild)


def until_gone(pid: int) -> None:
    for _ in range(2000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
        except OSError:
            return
        select.select([], [], [], 0.005)
    raise AssertionError(f"{pid} lives")


def test_a_stopped_child_can_be_terminated(tmp_path: Path) -> None:
    """OS.md 3: TERM waits for CONT, so CONT is sent too."""
    with child_running(SLEEP, tmp_path) as child:
        wait_output(child, "up")
        os.kill(child.pid, signal.SIGSTOP)
        child.terminate()
        assert wait_exit(child) == Exit(None, signal.SIGTERM)


def test_a_child_inherits_three_streams_its_channel_its_stack_file_and_nothing_else(tmp_path: Path) -> None:
    """FIELD B9, OS.md 4."""
    extra = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        code = "import os; print(len(os.listdir('/proc/self/fd')), flush=True)"
        with child_running(code, tmp_path) as child:
            wait_output(child, "\n")
            assert int(child.log.text()) == 5 + 1  # and the one that lists
    finally:
        os.close(extra)


def test_a_child_runs_at_its_niceness(tmp_path: Path) -> None:
    with child_running(SLEEP, tmp_path, nice=7) as child:
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 7 or (
            os.getpriority(os.PRIO_PROCESS, child.pid) == 7
        )


def test_memory_is_told_in_gib(tmp_path: Path) -> None:
    with child_running(SLEEP, tmp_path) as child:
        wait_output(child, "up")
        assert 0.0 < child.rss_gib() < 1.0
    assert child.rss_gib() == 0.0


def test_a_command_that_cannot_start_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    command = Command(argv=(str(tmp_path / "missing"),), tail=(), env={}, folder=tmp_path)
    try:
        Child(command)
    except FileNotFoundError:
        pass
    else:
        raise AssertionError("it started")
    assert len(os.listdir("/proc/self/fd")) == before
