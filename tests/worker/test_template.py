"""Workers that are copies of a template: as good as new, and none where that cannot be (DESIGN 5, K13)."""

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ipc import keeper
from ipc.child import Child, Exit, pruned
from ipc.guardian import meter
from ipc.leftovers import MARKER
from ipc.messages import Batch, Done, Failed, Ready, Run
from tests.ipc.kept import PROGRAM, Kept, alive, keeping, state_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no templates")

HEAD = "import os, sys\nfrom supervisor import App\napp = App('tests')\n"
PID = """
@app.lane("pid")
def pid(job, ctx):
    return os.getpid()
"""


class Nest:
    """Workers of one application, one after another, under one guardian."""

    def __init__(self, kept: Kept, run: Callable[..., Run]) -> None:
        self.kept = kept
        self._run = run
        self.app = kept.folder / "app.py"
        self.template = True

    def write(self, text: str) -> None:
        self.app.write_text(HEAD + dedent(text))

    def start(self, **how: Any) -> Child:
        """Have a worker come; whether it does is another question."""
        env = pruned(os.environ, ("COVERAGE_PROCESS_CONFIG",)) | {MARKER: self.kept.marker}
        argv = [sys.executable, "-P", "-m", "worker"]
        how = {"tail": ("--jobs", "1", "app.py"), "template": self.template, **how}
        return self.kept.run(argv, env=env, **how)

    def up(self, **how: Any) -> Child:
        """Have a worker come, and wait until it is ready and its guardian has told of it."""
        child = self.start(**how)
        ready = self.next(child)
        assert isinstance(ready, Ready), (ready, child.log.text())
        self.kept.wait_for(lambda: child.pid)
        assert ready.pid == child.pid
        return child

    def next(self, child: Child) -> Any:
        """Return the next message of a worker; one more may come with it."""
        inbox = child.__dict__.setdefault("inbox", [])

        def come() -> bool:
            inbox.extend(child.channel.receive(1 << 20).messages)
            assert inbox or not child.over, (child.failed, child.exit, child.log.text())
            return bool(inbox)

        self.kept.wait_for(come)
        return inbox.pop(0)

    def ask(self, child: Child, kind: str = "pid", payload: str = "null") -> Any:
        """Run a job that returns something, and return that."""
        child.channel.send(self._run(kind, payload))
        while not isinstance(word := self.next(child), Done | Failed):
            assert not isinstance(word, Batch)
        assert isinstance(word, Done), word
        return json.loads(word.result)

    def leave(self, child: Child) -> Child:
        """Have a worker leave by itself."""
        child.channel.hang_up()
        return self.kept.over(child)

    def answer(self, kind: str = "pid") -> Any:
        """Return what a job in a worker of its own returns."""
        child = self.up()
        answer = self.ask(child, kind)
        assert self.leave(child).exit == Exit(0, None), child.log.text()
        return answer


@pytest.fixture
def nest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Run]) -> Iterator[Nest]:
    with keeping(tmp_path, PROGRAM, monkeypatch) as kept:
        nest = Nest(kept, run)
        nest.write(PID)
        yield nest


# --- what a copy is

LOOK = """
    import gc, random, resource, signal, subprocess, threading
    print("imported")
    state = [0]

    @app.lane("look")
    def look(job, ctx):
        state[0] += 1
        def table(name):
            line = next(one for one in open("/proc/self/status") if one.startswith(name))
            return int(line.split()[1], 16)
        fds = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
               if os.path.exists(f"/proc/self/fd/{fd}")}
        ls = subprocess.run(["ls", "/proc/self/fd"], close_fds=False, capture_output=True)
        return {
            "pid": os.getpid(), "parent": os.getppid(), "state": state[0],
            "session": os.getsid(0), "group": os.getpgid(0),
            "kinds": sorted(path.partition(":")[0] for fd, path in fds.items() if int(fd) > 2),
            "numbers": sorted(map(int, fds)), "stdin": fds["0"], "output": fds["1"] == fds["2"],
            "theirs": ls.stdout.decode().split(),
            "nice": os.getpriority(os.PRIO_PROCESS, 0), "oom": open("/proc/self/oom_score_adj").read(),
            "blocked": table("SigBlk"), "ignored": table("SigIgn"), "folder": os.getcwd(),
            "core": resource.getrlimit(resource.RLIMIT_CORE),
            "files": resource.getrlimit(resource.RLIMIT_NOFILE),
            "threads": len(os.listdir("/proc/self/task")), "main": threading.current_thread().name,
            "frozen": gc.get_freeze_count() > 0, "random": random.random(), "urandom": os.urandom(4).hex(),
        }
"""


def test_each_copy_is_like_a_process_of_its_own(nest: Nest) -> None:
    """K13, C156, FIELD B9: three copies and a cold worker differ in nothing but what they must."""
    nest.write(LOOK)
    seen, spawned, templates = [], [], []
    for _ in range(3):
        child = nest.up(nice=3, tail=("--jobs", "1", "--open-files", "200", "app.py"))
        seen.append(nest.ask(child, "look"))
        spawned.append(child.spawn)
        templates.append(child.template)
        assert child.sessions == {child.pid, child.template}
        nest.leave(child)
    assert spawned == ["template"] * 3
    assert len(set(templates)) == 1
    nest.template = False
    child = nest.up(nice=3, tail=("--jobs", "1", "--open-files", "200", "app.py"))
    seen.append(nest.ask(child, "look"))
    assert (child.spawn, child.template) == ("cold", 0)
    nest.leave(child)
    for one in seen:
        assert one["session"] == one["group"] == one["pid"]
        assert one["parent"] == nest.kept.keeper.pid
        assert one["kinds"] == ["/memfd", "socket"]
        assert one["theirs"] == ["0", "1", "2", "3"], "3 is what ls itself opened"
        assert one["stdin"] == "/dev/null"
        assert one["blocked"] == 0
        assert one["state"] == 1
    for name in ("pid", "random", "urandom"):
        assert len({one[name] for one in seen}) == 4
    alike = {"kinds", "output", "nice", "oom", "ignored", "folder", "core", "files", "threads", "main"}
    assert [{name: one[name] for name in alike} for one in seen[:3]] == [
        {name: seen[3][name] for name in alike}
    ] * 3
    assert [one["numbers"] for one in seen[1:3]] == [seen[0]["numbers"]] * 2
    assert [one["frozen"] for one in seen] == [True, True, True, False]


def test_the_application_is_imported_once_and_what_that_printed_is_told_once(nest: Nest) -> None:
    nest.write("""
        open("imports", "a").write("x")
        print("half a line", end="")
        @app.lane("pid")
        def pid(job, ctx):
            print("job")
            return 1
    """)
    logs = []
    for _ in range(3):
        child = nest.up()
        nest.ask(child)
        nest.leave(child)
        logs.append(child.log.text())
    assert logs == ["half a linejob\n", "job\n", "job\n"]
    assert (nest.kept.folder / "imports").read_text() == "x"


def test_each_copy_of_a_sealed_template_is_sealed(nest: Nest) -> None:
    """C157: asserted in each, and what it refuses names the option."""
    nest.write("""
        import socket
        @app.lane("pid")
        def pid(job, ctx):
            with socket.socket() as near, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
                near.bind(("127.0.0.1", 0))
                try:
                    far.connect(("192.0.2.1", 9))
                except PermissionError as refusal:
                    return str(refusal)
    """)
    for _ in range(2):
        child = nest.up(tail=("--sealed", "app.py"))
        assert "network" in nest.ask(child)
        assert child.spawn == "template"
        nest.leave(child)


def test_where_a_copy_hangs_is_written_to_its_own_file(nest: Nest) -> None:
    """C126."""
    nest.write("""
        import time
        @app.lane("hang")
        def hang(job, ctx):
            print("up", flush=True)
            time.sleep(1000)
    """)
    stacks = []
    for _ in range(2):
        child = nest.up()
        child.channel.send(nest._run("hang"))
        nest.kept.said("up")
        nest.kept.keeper.dump()
        nest.kept.wait_for(child.stack)
        nest.kept.keeper.term()
        assert nest.kept.over(child).exit == Exit(None, signal.SIGTERM)
        stacks.append(child.stack())
    assert [stack.count("in hang") for stack in stacks] == [2, 2]


def test_copies_get_random_numbers_of_their_own_from_the_libraries_that_keep_some(nest: Nest) -> None:
    """A stand-in: numpy is not among what the tests need. Python's own random is in the test above."""
    (nest.kept.folder / "numpy").mkdir()
    (nest.kept.folder / "numpy" / "__init__.py").touch()
    (nest.kept.folder / "numpy" / "random.py").write_text(
        "import os\ndef seed():\n    global state\n    state = os.urandom(8).hex()\nseed()\n"
    )
    nest.write("""
        sys.path.append(".")
        import numpy.random
        @app.lane("pid")
        def pid(job, ctx):
            return numpy.random.state
    """)
    assert len({nest.answer() for _ in range(3)}) == 3


def test_a_copy_runs_at_its_exit_what_was_registered_in_it_and_the_template_its_own(nest: Nest) -> None:
    """A folder made while importing is the template's, however it was registered and whoever refers to it."""
    nest.write("""
        import atexit, logging, logging.handlers, multiprocessing.util, shutil, tempfile, threading, time
        held = tempfile.TemporaryDirectory(dir=".", prefix="held")
        atexit.register(tempfile.TemporaryDirectory(dir=".", prefix="bound").cleanup)
        atexit.register(shutil.rmtree, tempfile.mkdtemp(dir=".", prefix="made"))
        atexit.register(lambda: open("exits", "a").write("template"))
        log = logging.handlers.MemoryHandler(99, target=logging.FileHandler("log", delay=True))
        logging.getLogger().addHandler(log)
        @app.lane("pid")
        def pid(job, ctx):
            global held
            mine = tempfile.TemporaryDirectory(dir=".", prefix="mine")
            own = tempfile.mkdtemp(dir=".", prefix="own")
            atexit.register(os.rmdir, own)
            atexit.register(lambda: open("exits", "a").write("x"))
            multiprocessing.util.Finalize(None, lambda: open("exits", "a").write("y"), exitpriority=1)
            logging.warning("told late")
            threading.Thread(target=time.sleep, args=(1000,)).start()
            keep.append(mine)
            held = None
            return os.getpid()
        keep = []
    """)
    for _ in range(3):
        nest.answer()
        folders = sorted(one.name[:4] for one in nest.kept.folder.iterdir() if one.is_dir())
        assert [one for one in folders if one != "__py"] == ["boun", "held", "made"]
    assert (nest.kept.folder / "exits").read_text() == "xyxyxy"
    assert (nest.kept.folder / "log").read_text() == "told late\n" * 3
    nest.kept.keeper.let_go()
    nest.kept.wait_for(nest.kept.keeper.reap)
    assert [
        one.name for one in nest.kept.folder.iterdir() if one.is_dir() and one.name != "__pycache__"
    ] == []
    assert (nest.kept.folder / "exits").read_text() == "xyxyxytemplate"


def test_a_template_stays_as_it_is_however_many_copies_it_makes(nest: Nest) -> None:
    def measured() -> tuple[int, int, int]:
        pid = nest.kept.children[-1].template
        fds, threads = (len(os.listdir(f"/proc/{pid}/{name}")) for name in ("fd", "task"))
        return fds, threads, len(os.listdir(f"/proc/{nest.kept.keeper.pid}/fd"))

    for _ in range(3):
        nest.answer()
    before, pid = measured(), nest.kept.children[-1].template
    held = meter.resident_of(pid)
    for _ in range(20):
        nest.answer()
    assert measured() == before
    assert nest.kept.children[-1].template == pid
    assert meter.resident_of(pid) < held + (1 << 20)


# --- what cannot be copied

ALONE = {
    "1 thread running": "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()",
    "2 sockets open": "import socket\npair = socket.socketpair()",
    "1 file open": "file = open(__file__)",
    "2 files open": "import sqlite3\none, two = sqlite3.connect('one.db'), sqlite3.connect('two.db')",
    "1 process running": "import subprocess\nhelper = subprocess.Popen(['sleep', '1000'])",
}


@pytest.mark.parametrize("what", ALONE)
def test_a_process_that_holds_what_copies_must_not_share_does_the_work_itself(nest: Nest, what: str) -> None:
    """K13: threads are not copied, connections and positions are shared, SQLite's locks are lost."""
    nest.app.write_text(f"{HEAD}{ALONE[what]}\n{PID}")
    pids = set()
    for _ in range(2):
        child = nest.up()
        assert child.spawn == f"cold importing the application left {what}"
        assert child.template == 0
        assert nest.ask(child) == child.pid
        nest.leave(child)
        pids.add(child.pid)
    assert len(pids) == 2


@pytest.mark.parametrize(
    "what",
    [
        "import logging\nlogging.basicConfig(filename='log')\nlogging.warning('once')",
        "import threading\nended = threading.Thread(target=print)\nended.start()\nended.join()",
        "import os\nmemory = os.memfd_create('shared')",
        "import subprocess\nsubprocess.run(['true'])\nlist(open(__file__))",
    ],
    ids=["a log", "a thread that has ended", "memory", "a program that has ended"],
)
def test_what_copies_may_share_keeps_nobody_from_being_copied(nest: Nest, what: str) -> None:
    nest.app.write_text(f"{HEAD}{what}\n{PID}")
    child = nest.up()
    assert child.spawn == "template"
    nest.leave(child)


def test_what_comes_later_is_looked_for_before_each_copy(nest: Nest) -> None:
    nest.write("""
        import threading, time
        template = os.getpid()
        def later():
            if os.getpid() == template:
                threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        os.register_at_fork(after_in_parent=later)
        @app.lane("pid")
        def pid(job, ctx):
            return os.getppid()
    """)
    first = nest.up()
    nest.leave(first)
    second = nest.up()
    assert second.pid == first.template
    assert second.spawn == "cold importing the application left 1 thread running"
    assert nest.ask(second) == nest.kept.keeper.pid
    nest.leave(second)
    assert second.log.text() == ""
    third = nest.up()
    assert (third.spawn, third.template != first.template) == ("template", True)
    nest.leave(third)


def test_a_python_that_cannot_adopt_makes_no_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Run]
) -> None:
    """Without ctypes there is no subreaper: a copy would be nobody's child, and the kill is told as it is."""
    (tmp_path / "stub").mkdir()
    (tmp_path / "stub" / "ctypes.py").write_text("raise ImportError\n")
    monkeypatch.setattr(keeper, "FLAGS", ("-P", "-S"))
    monkeypatch.setitem(Kept.ENVIRONMENT, "PYTHONPATH", str(tmp_path / "stub"))
    with keeping(tmp_path, "as shipped", monkeypatch) as kept:
        nest = Nest(kept, run)
        nest.write(PID)
        child = nest.up()
        assert (child.spawn, child.template, child.tier) == ("cold", 0, "group")
        kept.keeper.kill()
        assert kept.over(child).exit == Exit(None, signal.SIGKILL)


# --- what goes wrong

TRAP = """
    import signal, time
    template = os.getpid()
    def trap(place):
        if os.path.exists(place):
            os.unlink(place)
            if open("how").read() == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(1000)
    os.register_at_fork(
        after_in_child=lambda: trap("between" if os.getppid() == template else "copy"),
        after_in_parent=lambda: trap("told") if os.getpid() != template else None,
    )
    @app.lane("pid")
    def pid(job, ctx):
        return os.getpid()
"""


@pytest.mark.parametrize("place", ["between", "told"])
def test_a_go_between_that_is_killed_leaves_no_copy_behind_and_another_template_makes_one(
    nest: Nest, place: str
) -> None:
    """Before it has made the copy, and before it could tell of it: that one waits, and must not begin."""
    nest.write(TRAP)
    nest.answer()
    (nest.kept.folder / "how").write_text("die")
    (nest.kept.folder / place).touch()
    nest.answer()
    first, second = nest.kept.children
    assert (second.spawn, second.template != first.template) == ("template", True)
    nest.kept.wait_for(
        lambda: sorted(alive(nest.kept.marker)) == sorted([nest.kept.keeper.pid, second.template])
    )


def test_a_copy_that_is_killed_before_it_begins_ends_like_any_other(nest: Nest) -> None:
    """C155: its number was told before."""
    nest.write(TRAP)
    (nest.kept.folder / "how").write_text("die")
    (nest.kept.folder / "copy").touch()
    child = nest.kept.over(nest.start())
    assert child.pid
    assert child.exit == Exit(None, signal.SIGKILL)
    nest.answer()


@pytest.mark.parametrize("place", ["between", "copy", "told"])
def test_a_start_that_hangs_in_the_midst_of_a_copy_can_be_killed(nest: Nest, place: str) -> None:
    nest.write(TRAP)
    nest.answer()
    (nest.kept.folder / "how").write_text("hang")
    (nest.kept.folder / place).touch()
    child = nest.start()
    nest.kept.wait_for(lambda: not (nest.kept.folder / place).exists())
    nest.kept.keeper.kill()
    nest.kept.over(child)
    template = nest.kept.children[0].template if child.pid else 0  # it has told of the copy, and goes on
    assert set(alive(nest.kept.marker)) == {nest.kept.keeper.pid, template} - {0}
    nest.answer()


@pytest.mark.parametrize("order", ["term", "kill"])
def test_an_import_that_hangs_can_be_ended_and_says_where(nest: Nest, order: str) -> None:
    """C126: with all that it has started."""
    nest.write("""
        import subprocess, time
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        print("up", flush=True)
        time.sleep(1000)
    """)
    child = nest.start()
    nest.kept.said("up")
    getattr(nest.kept.keeper, order)()
    nest.kept.over(child)
    assert child.exit == Exit(None, signal.SIGTERM if order == "term" else signal.SIGKILL)
    assert ("app.py" in child.stack()) == (order == "term")
    assert child.ended == 2
    assert alive(nest.kept.marker) == [nest.kept.keeper.pid]
    nest.write(PID)
    nest.answer()


def test_an_import_that_fails_says_why_and_the_next_start_imports_anew(nest: Nest) -> None:
    """K13."""
    nest.write("raise ValueError('on purpose')")
    child = nest.start()
    word = nest.next(child)
    assert isinstance(word, Failed)
    assert word.code == "app_start_failed"
    assert "on purpose" in word.message
    assert nest.kept.over(child).exit == Exit(1, None)
    nest.write(PID)
    assert nest.answer() == nest.kept.children[-1].pid


@pytest.mark.parametrize("when", ["idle", "at work"])
def test_a_template_that_is_killed_takes_no_copy_with_it_and_is_replaced(nest: Nest, when: str) -> None:
    child = nest.up()
    if when == "idle":
        nest.leave(child)
    os.kill(child.template, signal.SIGKILL)
    nest.kept.wait_for(lambda: state_of(child.template) == "")
    if when == "at work":
        assert nest.ask(child) == child.pid
        assert nest.leave(child).exit == Exit(0, None)
    assert nest.answer() == nest.kept.children[-1].pid
    assert nest.kept.children[-1].template != child.template


def test_a_template_that_a_job_has_stopped_is_woken_for_the_next(nest: Nest) -> None:
    nest.write("""
        import signal
        template = os.getpid()
        @app.lane("pid")
        def pid(job, ctx):
            os.kill(template, signal.SIGSTOP)
            return os.getpid()
    """)
    assert len({nest.answer() for _ in range(3)}) == 3
    assert len({child.template for child in nest.kept.children}) == 1


def test_for_another_start_a_template_that_was_stopped_is_replaced(nest: Nest) -> None:
    """K13: of another world, which its copies would not be in."""
    first = nest.up()
    nest.leave(first)
    os.kill(first.template, signal.SIGSTOP)
    second = nest.up(tail=("--jobs", "2", "app.py"))
    assert second.template not in {0, first.template}
    assert state_of(first.template) == ""
    nest.leave(second)


@pytest.mark.parametrize(
    "odd",
    [
        "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "import signal\nsignal.signal(signal.SIGCHLD, lambda *_: os.waitpid(-1, os.WNOHANG))",
        "sys.stdout = None",
        "class Odd: pass\nsys.stdout = sys.stderr = Odd()",
        "import gc\ngc.disable()",
        "os.close(0)",
        "import atexit\natexit.register(os._exit, 0)",
    ],
    ids=["ignores SIGCHLD", "reaps", "no stdout", "odd stdout", "no collector", "no stdin", "leaves early"],
)
def test_an_odd_application_is_copied_all_the_same(nest: Nest, odd: str) -> None:
    nest.app.write_text(f"{HEAD}{odd}\n{PID}")
    assert len({nest.answer() for _ in range(3)}) == 3
    assert [child.spawn for child in nest.kept.children] == ["template"] * 3


def test_an_application_that_closes_everything_fails_to_start_and_keeps_nobody_busy(nest: Nest) -> None:
    nest.write("os.closerange(3, 1000)")
    child = nest.kept.over(nest.start())
    assert child.failed is None
    assert "Bad file descriptor" in child.log.text()


def test_a_template_that_hangs_up_later_is_ended_and_its_kind_starts_cold(nest: Nest) -> None:
    """Nobody could ask it for a copy any more, and its guardian must not spin on the closed line."""
    nest.write(f"""
        import time
        template = os.getpid()
        def hang_up():
            if os.getpid() == template:
                os.closerange(3, 1000)
                time.sleep(1000)
        os.register_at_fork(after_in_parent=hang_up)
        {PID.replace(chr(10), chr(10) + " " * 8)}
    """)
    child = nest.up()
    assert child.spawn == "cold its template closed its line to its guardian"
    assert sorted(alive(nest.kept.marker)) == sorted([nest.kept.keeper.pid, child.pid])
    nest.leave(child)


CTYPES = "import ctypes\nlibc = ctypes.CDLL(None)\n"
USELESS = {
    "is their reaper": (f"{CTYPES}libc.prctl(36, 1, 0, 0, 0)", "makes no children of its guardian"),
    "is traced": (f"{CTYPES}libc.ptrace(0, 0, 0, 0)", "made no copy within 0.5 s"),
    "hangs before a fork": (
        "import time\nos.register_at_fork(before=lambda: time.sleep(1000))",
        "made no copy within 0.5 s",
    ),
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have guardians wait half a second for a copy."""
    program = tmp_path / "guardian.py"
    program.write_text(
        "import runpy, sys\n"
        f"sys.path.append({str(Path(keeper.PROGRAM).parents[2])!r})\n"
        "from ipc.guardian import nursery\n"
        "nursery.COPY_SECONDS = 0.5\n"
        f"runpy.run_path({keeper.PROGRAM!r}, run_name='__main__')\n"
    )
    monkeypatch.setattr(keeper, "PROGRAM", str(program))


@pytest.mark.parametrize("what", USELESS)
def test_a_template_whose_copies_never_come_is_parted_with_and_its_kind_starts_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Run], impatient: None, what: str
) -> None:
    """K13: no start hangs, the next one does not try again, and the reason is told with both."""
    odd, why = USELESS[what]
    with keeping(tmp_path, "as shipped", monkeypatch) as kept:
        nest = Nest(kept, run)
        nest.app.write_text(
            f"{HEAD}if '--channel' in sys.orig_argv:\n    {odd.replace(chr(10), '; ')}\n{PID}"
        )
        for _ in range(2):
            child = nest.up()
            assert (child.spawn, child.template) == (f"cold its template {why}", 0)
            assert sorted(alive(kept.marker)) == sorted([kept.keeper.pid, child.pid])
            assert nest.ask(child) == child.pid
            nest.leave(child)


def test_a_template_that_a_job_has_spoilt_is_replaced_before_the_application_is_blamed(nest: Nest) -> None:
    nest.write("""
        import resource
        template = os.getpid()
        @app.lane("pid")
        def pid(job, ctx):
            resource.prlimit(template, resource.RLIMIT_NOFILE, (5, 5))
            return os.getpid()
    """)
    for _ in range(2):
        nest.answer()
    first, second = nest.kept.children
    assert (second.spawn, second.template != first.template) == ("template", True)
    assert state_of(first.template) == ""


@pytest.mark.parametrize("room", range(5))
def test_a_template_without_room_for_descriptors_is_replaced_or_does_the_work_itself(
    nest: Nest, room: int
) -> None:
    """Whichever of them is missing, a worker comes."""
    nest.app.write_text(
        HEAD
        + dedent(f"""
        import resource
        template = os.getpid()
        def narrow():
            if os.getpid() == template:
                fds = os.listdir("/proc/self/fd")
                used = [int(fd) for fd in fds if os.path.exists("/proc/self/fd/" + fd)]
                hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(used) + 1 + {room}, hard))
                for _ in range(max(used) + 1 - len(used)):
                    os.dup(0)
        os.register_at_fork(after_in_parent=narrow)
    """)
        + PID
    )
    first = nest.up()
    nest.leave(first)
    child = nest.up()
    assert child.spawn.startswith(("template", "cold it cannot be seen what the application has open"))
    assert (child.template == first.template) == (room > 2), "three are held while a copy is made"
    nest.leave(child)


PIDS = Path("/sys/fs/cgroup/pids")


@pytest.mark.skipif(
    os.geteuid() != 0 or not (PIDS / "cgroup.procs").exists(), reason="needs root and its groups"
)
@pytest.mark.parametrize("most", [1, 2])
def test_where_no_process_can_be_started_there_is_no_copy(nest: Nest, most: int) -> None:
    """At the first fork and at the second: FIELD J, a system at its limit of processes."""
    group = PIDS / f"laneway-test-{nest.kept.marker}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(nest.kept.keeper.pid))
        (group / "pids.max").write_text(str(1 + most))
        child = nest.kept.over(nest.start())
        assert child.failed == "a copy cannot be made: Resource temporarily unavailable"
        (group / "pids.max").write_text("max")
        assert nest.answer() == nest.kept.children[-1].pid
    finally:
        nest.kept.keeper.let_go()
        nest.kept.wait_for(nest.kept.keeper.reap)
        nest.kept.wait_for(lambda: (group / "cgroup.procs").read_text() == "")
        group.rmdir()


def test_a_copy_ends_with_its_guardian(nest: Nest) -> None:
    """U41: in C with the GIL held, where nothing of Python runs; the template goes with it."""
    nest.write("""
        import ctypes
        @app.lane("wedge")
        def wedge(job, ctx):
            print("up", flush=True)
            ctypes.PyDLL(None).pause()
    """)
    child = nest.up()
    child.channel.send(nest._run("wedge"))
    nest.kept.said("up")
    handles = [os.pidfd_open(pid) for pid in (child.pid, child.template)]
    nest.kept.keeper.put_down()
    for handle in handles:
        assert select.select([handle], [], [], 2.0)[0]
        os.close(handle)
