"""Trials from behind the shield: a guardian that holds a store open, and a child of it that is closed off."""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ORDINARY = 65534
"""Somebody who is not root."""
ISOLATED = ("-I", "-S", "-B", "-c")

GUARDIAN = """
import ctypes, os, socket, sys
root, folder, shielded, before, *command = sys.argv[1:]
sys.path.append(root)
from ipc.guardian.shield import close_off
exec(before)
os.chdir(folder)
held = os.open("store.db", os.O_RDWR)
listening = socket.socket(socket.AF_UNIX)
listening.bind(f"\\0{os.getpid()}")
listening.listen()
child = os.fork()
if child == 0:
    os.chdir("/")
    if shielded:
        close_off(folder)
    os.execv(command[0], [*command, folder, shielded, str(os.getppid()), str(held)])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
TRIAL = """
import ctypes, json, os, shutil, signal, socket, sqlite3, subprocess, sys, tempfile
codes, folder, shielded, parent, held = sys.argv[1:]
original = top = os.path.dirname(os.path.dirname(folder))
outcomes = {}
for name, code in json.loads(codes).items():
    if not shielded:
        apart = tempfile.mkdtemp(dir=os.path.dirname(original))
        top = shutil.copytree(original, apart + "/top", symlinks=True)
    project, elsewhere = top + "/my notes", top + "/elsewhere"
    folder, pages = project + "/.supervisor", project + "/pages"
    store = folder + "/store.db"
    os.chdir("/")
    try:
        exec(code)
    except Exception as refusal:
        outcomes[name] = f"{type(refusal).__name__}: {refusal}"
    else:
        outcomes[name] = "done"
print(json.dumps(outcomes))
"""
MOUNTS = """
libc = ctypes.CDLL(None, use_errno=True)
def mount(*arguments):
    if libc.mount(*arguments, None):
        raise OSError(ctypes.get_errno(), "mount")
libc.unshare(0x20000)
mount(None, b"/", None, 0x44000)
"""

TRICKS = {  # each does what it says where the shield is off
    "read it": "open(store, 'rb').read()",
    "read it in SQLite": "sqlite3.connect(store).execute('SELECT text FROM notes')",
    "read it without a lock": "sqlite3.connect(f'file:{store}?immutable=1', uri=True).execute('SELECT 1')",
    "write into it": "open(store, 'r+b').write(b'x')",
    "append to it": "open(store, 'ab').write(b'x')",
    "open it for truncating": "open(store, 'wb')",
    "truncate it by its name": "os.truncate(store, 0)",
    "rename it": "os.rename(store, folder + '/other')",
    "move it out": "os.rename(store, pages + '/store.db')",
    "put something in its place": "os.rename(pages + '/one.txt', store)",
    "remove it": "os.remove(store)",
    "give it a second name outside": "os.link(store, pages + '/store.db')",
    "add a journal to it": "open(store + '-journal', 'w')",
    "add a folder": "os.mkdir(folder + '/more')",
    "add a socket": "socket.socket(socket.AF_UNIX).bind(folder + '/s')",
    "rename the folder": "os.rename(folder, project + '/other')",
    "move the folder": "os.rename(folder, pages + '/moved')",
    "rename the project": "os.rename(project, project + '2')",
    "put the folder behind a new link": "os.symlink(folder, pages + '/l'); open(pages + '/l/store.db')",
    "follow a link that was there": "open(project + '/link/store.db')",
    "follow a link to the file that was there": "open(project + '/link.db')",
    "follow a link above and come back": "open(project + '/up/my notes/.supervisor/store.db')",
    "go there step by step": "os.chdir(project); os.chdir('.supervisor'); open('store.db')",
    "start from the folder, opened": "os.open('store.db', os.O_RDWR, dir_fd=os.open(folder, os.O_RDONLY))",
    "have a program read it": """
ran = subprocess.run(["cat", store], capture_output=True)
if b"Permission denied" in ran.stderr:
    raise PermissionError
ran.check_returncode()""",
    "through a descriptor of the supervisor": "open(f'/proc/{parent}/fd/{held}')",
    "through the working folder of the supervisor": "open(f'/proc/{parent}/cwd/store.db')",
    "through the root of the supervisor": "open(f'/proc/{parent}/root{store}')",
}
SIGNALS = {
    "ask whether the supervisor lives": "os.kill(int(parent), 0)",
    "signal the supervisor": "os.kill(int(parent), signal.SIGCONT)",
    "connect to an abstract socket": "socket.socket(socket.AF_UNIX).connect(f'\\0{parent}')",
}
WORK = {
    "import the application": "sys.path.append(project); import app; assert app.ANSWER == 42",
    "list the project": "assert {'.supervisor', 'app.py', 'pages', 'up'} < set(os.listdir(project))",
    "see the names in the folder": "assert 'store.db' in os.listdir(folder)",
    "read a file of the project": "open(project + '/app.py').read()",
    "write a file of the project": "open(project + '/app.py', 'a').write('#')",
    "truncate a file of the project": "os.truncate(project + '/app.py', 12)",
    "follow a link that leads elsewhere": "open(project + '/up/my notes/pages/one.txt')",
    "make and change things beside the way": """
os.mkdir(pages + "/new"); open(pages + "/new/a", "w").write("a")
os.replace(pages + "/new/a", pages + "/b"); os.link(pages + "/b", pages + "/c"); os.symlink("b", pages + "/d")
os.remove(pages + "/b"); os.rmdir(pages + "/new")""",
    "move between folders": "open(pages + '/x', 'w'); os.rename(pages + '/x', elsewhere + '/x')",
    "keep a database": "sqlite3.connect(pages + '/own.db').execute('CREATE TABLE t (x)')",
    "run a program": "subprocess.run(['cat', pages + '/one.txt'], check=True, capture_output=True)",
    "signal a child": """
child = subprocess.Popen(["sleep", "60"])
child.terminate(); assert child.wait(20) == -signal.SIGTERM""",
    "use devices": "open('/dev/null', 'w').write('x'); os.openpty()",
    "use memory files": "open(f'/proc/self/fd/{os.memfd_create(str())}', 'w').write('x')",
    "use a temporary folder": """
beside = next(one for one in ("/var/tmp", "/dev/shm", "/tmp") if not folder.startswith(one + "/"))
tempfile.TemporaryFile(dir=beside).write(b"x")""",
}


class Scene:
    """A project with a store, what is beside it, and the shield; all belongs to the user of the trials."""

    def __init__(self, top: Path, python: str, user: int | None) -> None:
        self.top, self.python, self.user = top / "top", python, user
        self.project = self.top / "my notes"
        self.folder = self.project / ".supervisor"
        self.elsewhere = self.top / "elsewhere"
        for folder in (self.folder, self.project / "pages", self.elsewhere):
            folder.mkdir(parents=True)
        db = sqlite3.connect(self.folder / "store.db")
        db.executescript(
            "PRAGMA journal_mode=WAL; CREATE TABLE notes (text); INSERT INTO notes VALUES ('kept')"
        )
        db.close()
        (self.project / "app.py").write_text("ANSWER = 42\n")
        (self.project / "pages" / "one.txt").write_text("one\n")
        (self.project / "link").symlink_to(".supervisor")
        (self.project / "link.db").symlink_to(".supervisor/store.db")
        (self.project / "up").symlink_to("..")
        self.program = top / "program"
        for file in ("ipc/__init__.py", "ipc/guardian/__init__.py", "ipc/guardian/shield.py"):
            (self.program / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, self.program / file)
        top.chmod(0o755)
        for path in (top, *top.rglob("*")) if user is not None else ():
            os.chown(path, user, user, follow_symlinks=False)

    def kept(self) -> bool:
        """Tell whether the store is what it was."""
        db = sqlite3.connect(self.folder / "store.db")
        try:
            return db.execute("SELECT text FROM notes").fetchall() == [("kept",)]
        finally:
            db.close()

    def attempts(
        self, codes: Mapping[str, str], *, shielded: bool = True, before: str = ""
    ) -> dict[str, str]:
        """Run code in a child of a guardian; return by name what came of it: "done", or what was raised.

        Without the shield each works on a copy of the scene, since it will do what it says.
        """
        guardian = (GUARDIAN, self.program, self.folder, "yes" if shielded else "", before)
        ran = subprocess.run(
            [self.python, *ISOLATED, *guardian, self.python, *ISOLATED, TRIAL, json.dumps(codes)],
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            env={"LC_ALL": "C.UTF-8", "PATH": os.defpath},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        outcomes: dict[str, str] = json.loads(ran.stdout)
        return outcomes

    def attempt(self, code: str, **how: Any) -> str:
        """Run one piece of code, as `attempts` does."""
        return self.attempts({"it": code}, **how)["it"]


def reachable(python: str) -> bool:
    """Tell whether an ordinary user may run it, and it has what a trial imports."""
    probe = "import ctypes, sqlite3, sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([python, *ISOLATED, probe], user=ORDINARY, check=False).returncode == 0
    except OSError:
        return False
