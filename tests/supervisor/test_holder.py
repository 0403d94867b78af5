"""Who holds the lock is the kernel's word, and a handle on a process means no other (C194, FIELD B5)."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor import holder, sensors
from supervisor.holder import HolderUnreachable, Number, Process, exists, find_holder, holds, is_stopped
from supervisor.lock import LOCK, SupervisorLock
from tests.supervisor.serving import wait_for

TAKES = """
import sys, threading
from pathlib import Path
from supervisor import sensors
from supervisor.lock import SupervisorLock
lock = SupervisorLock(Path(sys.argv[1]), sensors.monotonic, threading.Event().wait)
print("held", flush=True)
sys.stdin.read()
"""
pause = threading.Event().wait


@contextmanager
def held(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Have another process hold the lock."""
    command = [sys.executable, "-c", TAKES, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


def test_the_holder_is_found_whatever_the_row_says_and_ended_through_its_handle(tmp_path: Path) -> None:
    """C194: also when the row names nobody, or somebody else."""
    with held(tmp_path) as process:
        for said in (None, os.getpid(), process.pid, 2**22 - 1, 0, -1, 2**70):
            found = find_holder(tmp_path, said, pause)
            assert (found.pid, found.verified) == (process.pid, True)
            assert not found.wait_gone(0)
            found.close()
        found = find_holder(tmp_path, None, pause)
        found.ask()
        assert found.wait_gone(20)
        found.ask()
        found.close()
        assert process.wait(10) == -signal.SIGTERM


def test_a_process_that_only_has_the_file_open_holds_nothing(tmp_path: Path) -> None:
    """C194: neither whoever asks, nor whoever waits, nor a lock on another file."""
    with held(tmp_path) as process:
        lock = (tmp_path / LOCK).stat()
        with (tmp_path / LOCK).open():
            assert not holds(os.getpid(), lock)
        assert holds(process.pid, lock)
        other = tmp_path / "other"
        other.mkdir()
        mine = SupervisorLock(other, sensors.monotonic, pause)
        assert not holds(os.getpid(), lock)
        assert holds(os.getpid(), (other / LOCK).stat())
        mine.release()
        assert not holds(os.getpid(), (other / LOCK).stat())


def test_a_file_with_the_same_inode_on_another_device_is_told_apart(tmp_path: Path) -> None:
    """C194: /proc/locks names devices that stat does not know; the descriptor itself is compared."""
    with held(tmp_path) as process:
        found = os.stat(tmp_path / LOCK)
        elsewhere = os.stat_result((found.st_mode, found.st_ino, found.st_dev + 1, *found[3:]))
        assert process.pid in holder.pids_at(elsewhere)
        assert holder.verified(process.pid, elsewhere) is None


def test_where_no_process_can_be_seen_nobody_is_signalled(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    with pytest.raises(HolderUnreachable, match="another container or pid namespace"):
        find_holder(tmp_path, os.getpid(), pause)


def test_a_process_of_another_user_is_said_to_be_theirs(tmp_path: Path) -> None:
    """LESSONS 29: no permission means alive."""
    if os.getuid() == 0:
        pytest.skip("root may signal everybody")
    assert exists(1)
    with pytest.raises(HolderUnreachable, match="belongs to another user"):
        Number(1, pause).ask()


def test_a_handle_outlives_its_number(tmp_path: Path) -> None:
    """FIELD B5: after its end nothing that is sent reaches whoever has the number now."""
    with held(tmp_path) as process:
        found = Process(process.pid)
        process.kill()
        process.wait()
        assert found.wait_gone(0)
        found.ask()
        found.close()
        assert not exists(process.pid)


def test_without_the_kernels_list_the_open_runs_row_is_all_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C194: elsewhere than on Linux; the answer says that it was not verified."""
    monkeypatch.setattr(holder, "PROC", tmp_path / "none")
    with held(tmp_path) as process:
        found = find_holder(tmp_path, process.pid, pause)
        assert (found.pid, found.verified) == (process.pid, False)
        assert not found.wait_gone(0.01)
        found.ask()
        threading.Thread(target=process.wait).start()
        assert found.wait_gone(20)
        found.ask()
        found.close()
        for said in (None, process.pid):
            with pytest.raises(HolderUnreachable, match="its run names no process that is there"):
                find_holder(tmp_path, said, pause)


def test_a_stopped_process_is_seen_to_be_that(tmp_path: Path) -> None:
    with held(tmp_path) as process:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: is_stopped(process.pid))
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: not is_stopped(process.pid))
    assert not is_stopped(process.pid)
