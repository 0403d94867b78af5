"""Limits that the kernel holds, passed by real processes."""

import os
import signal
import subprocess
import sys
from math import inf, nan
from textwrap import dedent

import pytest

from worker.limits import limit_cpu, set_limits

HEAD = """
import errno, os, resource, signal, subprocess, sys, threading, time
import worker.limits
from worker.limits import limit_cpu, set_limits
signal.alarm(50)  # ends the test where no limit does

def burn(seconds):
    "Work until this process has used so many CPU seconds in all."
    while time.process_time() < seconds:
        pass

def say(*words):
    print(*words, flush=True)
"""


def python(code, *arguments, measured=True):
    """Run a Python to its end; return its exit code, what it said, and the CPU seconds it used.

    One that can open or write little is not measured: the measuring tool would not get its file written.
    """
    argv = [sys.executable, "-c", HEAD + dedent(code), *map(str, arguments)]
    env = {name: value for name, value in os.environ.items() if measured or not name.startswith("COVERAGE_")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(argv, env=env, **pipes) as process:
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert "Traceback" not in said, said
    return process.returncode, said.split(), used.ru_utime + used.ru_stime


def test_a_job_that_spins_dies_of_sigxcpu():
    """The signal tells the reason; the kernel takes whole seconds."""
    code, _, used = python("limit_cpu(0.5, last=False)\nburn(40)")
    assert code == -signal.SIGXCPU
    assert 0.5 <= used < 1.5


def test_all_threads_of_a_job_use_the_same_allowance():
    code, _, used = python("""
        threads = [threading.Thread(target=burn, args=(40,), daemon=True) for _ in range(3)]
        limit_cpu(0.5, last=True)
        for one in threads:
            one.start()
        threads[0].join()
    """)
    assert code == -signal.SIGXCPU
    assert 0.5 <= used < 1.5


@pytest.mark.parametrize(
    "deaf",
    [
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGXCPU])",
        "signal.signal(signal.SIGXCPU, lambda *_: None)",
    ],
    ids=["blocks", "handles"],
)
def test_a_last_job_that_does_not_die_of_sigxcpu_is_killed_by_the_kernel(deaf):
    """5 CPU seconds later; 1 in this test."""
    code, _, used = python(f"""
        worker.limits.LAST_SECONDS = 1
        limit_cpu(0.5, last=True)
        {deaf}
        burn(40)
    """)
    assert code == -signal.SIGKILL
    assert 1.5 <= used < 2.5


def test_a_last_job_gets_a_hard_limit_5_seconds_above_its_own_and_another_gets_none():
    code, said, _ = python("""
        limit_cpu(100, last=False)
        say(*resource.getrlimit(resource.RLIMIT_CPU), resource.RLIM_INFINITY)
        limit_cpu(99.5, last=True)
        say(*resource.getrlimit(resource.RLIMIT_CPU))
    """)
    assert code == 0
    first, first_hard, endless, last, last_hard = map(int, said)
    assert first == 101
    assert first_hard == endless
    assert last == 100
    assert last_hard == 105


def test_the_second_job_of_a_process_has_an_allowance_of_its_own():
    """The limit of the first one is 1 second, and both together take more."""
    code, said, used = python("""
        for job, until in (("first", 0.8), ("second", 1.2)):
            limit_cpu(0.5, last=False)
            burn(until)
            say(job)
    """)
    assert (code, said) == (0, ["first", "second"])
    assert used > 1


def test_what_a_job_did_to_sigxcpu_does_not_hit_the_next():
    """A signal that came while it was blocked is dropped, not delivered late; the next one kills again."""
    code, said, _ = python("""
        limit_cpu(0.5, last=False)
        signal.signal(signal.SIGXCPU, lambda *_: say("handled"))
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGXCPU])
        while not signal.sigpending():
            pass
        limit_cpu(5, last=False)
        say(len(signal.sigpending()), "pending")
        signal.raise_signal(signal.SIGXCPU)
        say("lives on")
    """)
    assert (code, said) == (-signal.SIGXCPU, ["0", "pending"])


def test_no_allowance_takes_the_limit_of_the_job_before_away():
    code, said, _ = python("""
        before = resource.getrlimit(resource.RLIMIT_CPU)
        limit_cpu(5, last=False)
        say(resource.getrlimit(resource.RLIMIT_CPU) == before)
        limit_cpu(0, last=False)
        say(resource.getrlimit(resource.RLIMIT_CPU) == before)
    """)
    assert (code, said) == (0, ["False", "True"])


def test_a_program_that_a_job_starts_has_the_same_limits():
    code, said, _ = python(
        """
            set_limits(70, 70000)
            limit_cpu(70, last=True)
            kinds = "resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU"
            look = f"import resource; print([resource.getrlimit(kind) for kind in ({kinds})])"
            say(subprocess.check_output([sys.executable, "-c", look], text=True))
        """,
        measured=False,
    )
    assert code == 0
    assert " ".join(said) == "[(70, 70), (70000, 70000), (71, 76)]"


def test_past_its_open_files_a_job_sees_emfile():
    code, said, _ = python(
        """
            set_limits(64, 0)
            opened = []
            try:
                while True:
                    opened.append(os.open(os.devnull, os.O_RDONLY))
            except OSError as error:
                say(errno.errorcode[error.errno], opened[-1], *resource.getrlimit(resource.RLIMIT_NOFILE))
        """,
        measured=False,
    )
    assert code == 0
    assert said == ["EMFILE", "63", "64", "64"]


def test_past_its_file_size_a_job_sees_efbig_and_a_program_of_its_dies(tmp_path):
    code, said, _ = python(
        """
        set_limits(0, 65536)
        with open(sys.argv[1], "wb", buffering=0) as file:
            say(file.write(bytes(65000)), file.write(bytes(65000)))
            try:
                file.write(b"x")
            except OSError as error:
                say(errno.errorcode[error.errno], file.tell())
        with open(sys.argv[1], "wb") as file:
            say(subprocess.run(["head", "-c", "70000", "/dev/zero"], stdout=file).returncode)
        """,
        tmp_path / "file",
        measured=False,
    )
    assert code == 0
    assert said == ["65000", "536", "EFBIG", "65536", str(-signal.SIGXFSZ)]
    assert (tmp_path / "file").stat().st_size == 65536


def test_no_limit_is_raised_above_the_hard_one_also_for_root():
    code, said, _ = python(
        """
            for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
                resource.setrlimit(kind, (100, 200))
            set_limits(10**6, 10**6)
            limit_cpu(10**6, last=True)
            for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
                say(*resource.getrlimit(kind))
        """,
        measured=False,
    )
    assert code == 0
    assert said == ["200", "200"] * 3


def test_0_leaves_a_limit_as_it_is():
    code, said, _ = python("""
        kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)
        before = [resource.getrlimit(kind) for kind in kinds]
        set_limits(0, 0)
        say([resource.getrlimit(kind) for kind in kinds] == before)
    """)
    assert (code, said) == (0, ["True"])


def test_what_the_system_refuses_is_told_with_the_name_of_the_option():
    code, said, _ = python("""
        try:
            set_limits(0, 2**70)
        except OSError as error:
            say(error)
    """)
    assert code == 0
    assert said[:3] == ["file_size_limit", "=", str(2**70)]


@pytest.mark.parametrize("value", [-1, True, 1.0, "5", None])
def test_no_whole_number_is_refused_and_named(value):
    with pytest.raises(ValueError, match=r"open_files_limit is .*; it must be a whole number"):
        set_limits(value, 0)
    with pytest.raises(ValueError, match=r"file_size_limit is .*; it must be a whole number"):
        set_limits(0, value)


@pytest.mark.parametrize("seconds", [-1, nan, inf])
def test_no_number_of_seconds_is_refused_and_named(seconds):
    with pytest.raises(ValueError, match=r"cpu_limit is .*; it must be a number of seconds"):
        limit_cpu(seconds, last=False)
