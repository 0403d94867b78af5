"""The kernel lock is the right to claim (SPEC C190, U13; CONTRACTS K6, K10)."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from supervisor import sensors
from supervisor.lock import LOCK, LockHeld, SupervisorLock, is_live, last_sign_of_life


def take(home: Path) -> SupervisorLock:
    return SupervisorLock(home, sensors.monotonic, threading.Event().wait)


def test_a_second_holder_is_refused_also_in_the_same_process(tmp_path: Path) -> None:
    """C190."""
    lock = take(tmp_path)
    with pytest.raises(LockHeld, match=str(tmp_path)):
        take(tmp_path)
    lock.release()
    take(tmp_path).release()


def test_the_lock_dies_with_its_holder_and_the_file_stays(tmp_path: Path) -> None:
    """C190, FIELD B7."""
    code = (
        "import os, sys, threading; from pathlib import Path; from supervisor import sensors\n"
        "from supervisor.lock import SupervisorLock\n"
        "SupervisorLock(Path(sys.argv[1]), sensors.monotonic, threading.Event().wait)\n"
        "print('held', flush=True); os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, stdout=subprocess.DEVNULL)
    assert (tmp_path / LOCK).exists()
    take(tmp_path).release()


def test_whether_a_supervisor_lives_is_asked_of_the_kernel_and_harms_nobody(tmp_path: Path) -> None:
    """K6."""
    assert not is_live(tmp_path)
    lock = take(tmp_path)
    assert is_live(tmp_path)
    lock.release()
    assert not is_live(tmp_path)


def test_a_start_waits_out_somebody_who_only_asks(tmp_path: Path) -> None:
    """K6: the asker holds the lock shared for an instant; a start retries for 200 ms."""
    import fcntl

    (tmp_path / LOCK).touch()
    fd = os.open(tmp_path / LOCK, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        fcntl.flock(fd, fcntl.LOCK_UN)

    SupervisorLock(tmp_path, lambda: 0.0, wait).release()
    assert len(waits) == 1
    os.close(fd)


def test_the_sign_of_life_is_the_time_of_the_last_touch(tmp_path: Path) -> None:
    """K10, C193."""
    assert last_sign_of_life(tmp_path) is None
    lock = take(tmp_path)
    os.utime(tmp_path / LOCK, (1.0, 1.0))
    assert last_sign_of_life(tmp_path) == 1.0
    lock.touch()
    seen = last_sign_of_life(tmp_path)
    assert seen is not None
    assert seen > 1e9
    lock.release()


def test_the_lock_is_not_inherited(tmp_path: Path) -> None:
    """C190: a child that outlives its supervisor does not hold it."""
    lock = take(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    lock.release()
    take(tmp_path).release()
    child.communicate(b"\n")


FORKS = """
import os, sys, threading; from pathlib import Path; from supervisor import sensors
from supervisor.lock import SupervisorLock
lock = SupervisorLock(Path(sys.argv[1]), sensors.monotonic, threading.Event().wait)
if os.fork() == 0:
    print(os.getpid(), flush=True)
    threading.Event().wait()
os.kill(os.getpid(), 19)
"""


def test_a_copy_that_application_code_forked_does_not_keep_the_lock_of_a_dead_supervisor(
    tmp_path: Path,
) -> None:
    """C190, K9: os.fork in a lander, or multiprocessing's fork; O_CLOEXEC closes nothing there."""
    command = [sys.executable, "-c", FORKS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as dead:
        assert dead.stdout is not None
        copy = int(dead.stdout.readline())
        try:
            assert is_live(tmp_path), "it is the process that holds it"
            dead.kill()
            dead.wait()
            os.kill(copy, 0)
            assert not is_live(tmp_path)
            take(tmp_path).release()
        finally:
            os.kill(copy, signal.SIGKILL)


def test_a_released_lock_is_free_also_while_somebody_has_its_open_file(tmp_path: Path) -> None:
    """C190: a library that forks below Python tells nobody."""
    lock = take(tmp_path)
    copies = [
        os.dup(int(fd)) for fd in os.listdir("/proc/self/fd") if is_lock(f"/proc/self/fd/{fd}", tmp_path)
    ]
    assert copies
    lock.release()
    assert not is_live(tmp_path)
    for copy in copies:
        os.close(copy)


def is_lock(path: str, home: Path) -> bool:
    try:
        return os.path.samefile(path, home / LOCK)
    except OSError:
        return False
