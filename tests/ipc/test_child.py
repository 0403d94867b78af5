"""One child: what it is given, what is told of it, and what is kept of it (SPEC C126, C156, C161)."""

import os
import resource
import select
import signal
import sys
from pathlib import Path

import pytest

from ipc import child as module
from ipc.child import ALWAYS_PASSED, Child, Command, Exit, open_stack, pruned
from ipc.keeper import Crossed
from tests.ipc.kept import SLEEP, Kept


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


def test_a_command_is_an_order_in_the_words_of_the_guardian(tmp_path: Path) -> None:
    command = Command(("python", "-x"), ("app",), {"A": "b"}, tmp_path)
    assert command.start(7) == (["python", "-x"], ["app"], {"A": "b"}, str(tmp_path), 0, "", "", False)
    command = Command((), (), {}, tmp_path, 5, closed=tmp_path / "store", group="/groups/one", template=True)
    assert command.start(7)[4:] == (5, f"{tmp_path}/store", "/groups/one-7", True)


def test_what_is_told_of_a_child_is_kept_with_it(kept: Kept) -> None:
    """C155."""
    child = kept.up()
    assert (child.tier, child.spawn, child.template) == ("guardian", "cold", 0)
    assert child.sessions == {child.pid}
    assert 0.0 < child.rss_gib() < 1.0
    assert not child.over
    child.take(crossed := Crossed(10, 2))
    assert child.crossed is crossed
    kept.keeper.kill()
    kept.over(child)
    assert (child.exit, child.ended, child.left) == (Exit(None, signal.SIGKILL), 1, ())
    assert child.peak > 1 << 20
    assert child.rss_gib() == 0.0


def test_what_a_child_dumped_and_printed_stays_readable_after_it_is_gone(kept: Kept) -> None:
    """C161."""
    child = kept.over(
        kept.start(
            "import os, sys\nprint('printed')\nos.write(int(sys.argv[4]), b'stack \\xff' + b'.' * 100_000)"
        )
    )
    child.close()
    kept.children.clear()
    assert child.stack().startswith("stack \\xff....")
    assert len(child.stack()) == module.STACK_BYTES + 3, "one byte is escaped with four letters"
    assert child.log.text() == "printed\n"


def test_for_another_job_what_the_last_one_printed_and_dumped_is_forgotten(kept: Kept) -> None:
    """It goes on at the beginning of the file, which it has open as we have."""
    child = kept.up(
        "import os, sys\n"
        "for text in ('first and long', 'second'):\n"
        "    os.write(int(sys.argv[4]), text.encode())\n"
        "    print(text, 'up', flush=True)\n"
        "    os.read(int(sys.argv[2]), 1)\n"
    )
    assert child.stack() == "first and long"
    child.begin_anew()
    assert (child.stack(), child.log.text()) == ("", "")
    os.write(child.channel.fileno(), b"x")
    kept.said("second")
    assert child.stack() == "second"
    os.write(child.channel.fileno(), b"x")
    kept.over(child)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("room", range(1, 6))
def test_a_child_for_which_there_is_no_descriptor_leaves_none(kept: Kept, room: int) -> None:
    """At each of the descriptors that it needs: two of its channel, two of its log, one for its stacks."""
    before = open_fds()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[-1] + room, limits[1]))
    try:
        gaps = [os.open(os.devnull, os.O_RDONLY) for _ in range(before[-1] + 1 - len(before))]
        with pytest.raises(OSError, match="Too many open files"):
            Child(Command((sys.executable,), (), {}, kept.folder), kept.keeper)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in gaps:
            os.close(fd)
    assert open_fds() == before
    assert kept.keeper.free


def open_fds() -> list[int]:
    """Return the descriptors of this process, lowest first, without the one that looks."""
    return sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}"))


def test_the_channel_of_a_child_is_closed_when_it_is(kept: Kept) -> None:
    """C155: its end of the channel is nobody else's."""
    child = kept.up(SLEEP)
    kept.keeper.kill()
    assert select.select([child.channel], [], [], 20)[0]
    assert child.channel.receive(100).closed
    kept.over(child)


def test_a_system_without_nameless_memory_files_gives_a_nameless_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A regular file, which never blocks who dumps into it (OS.md 3)."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    fd = open_stack()
    try:
        os.write(fd, b"dumped")
        assert os.pread(fd, 100, 0) == b"dumped"
        assert os.fstat(fd).st_nlink == 0
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)
