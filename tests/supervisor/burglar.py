"""An application that tries every way into the store; it is copied into the projects of tests."""

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from errno import EACCES
from pathlib import Path
from typing import Any, NamedTuple

from supervisor import App, Context, Job, Landing, Rows

app = App("burglar")
app.migration(1, "CREATE TABLE items (job INT, n INT, text TEXT, attempt INT)")

Jobs = Job[dict[str, Any]]
Pairs = Iterator[tuple[int, str]]

IMPORTED_BY = os.getpid()


class Scene(NamedTuple):
    """What a burglar knows: the store, a folder of his own beside the way to it, and who watches."""

    store: Path
    beside: Path
    supervisor: int


def by_sqlite(store: Path, statement: str, query: str = "") -> None:
    db = sqlite3.connect(f"file:{store}{query}", uri=True)
    try:
        db.execute(statement).fetchall()
    finally:
        db.close()


def by_shell(command: str, *words: object) -> None:
    """Have a grandchild do it."""
    argv = ["sh", "-c", command, "sh", *map(str, words)]
    ran = subprocess.run(argv, capture_output=True, check=False)
    if ran.returncode:
        raise PermissionError(EACCES, ran.stderr.decode().strip())


def by_descriptor(scene: Scene) -> None:
    """Read what the supervisor has open of the store's folder."""
    folder = str(scene.store.parent.resolve())
    for fd in Path(f"/proc/{scene.supervisor}/fd").iterdir():
        if str(fd.readlink()).startswith(folder):
            fd.read_bytes()
            return
    raise AssertionError("the supervisor has nothing of it open")


def by_folder_of_the_supervisor(scene: Scene) -> None:
    """Go there from where the supervisor is."""
    there = Path(f"/proc/{scene.supervisor}/cwd")
    (there / os.path.relpath(scene.store.resolve(), there.readlink())).read_bytes()


def by_list(folder: Path) -> None:
    for name in os.listdir(folder):
        if (folder / name).is_file():
            (folder / name).read_bytes()


def by_link(link: Path, store: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(store)
    link.read_bytes()


def step_by_step(store: Path) -> None:
    folder = os.open(store.parent, os.O_RDONLY)
    try:
        os.close(os.open(store.name, os.O_RDONLY, dir_fd=folder))
    finally:
        os.close(folder)


def put_in_place(false: Path, store: Path) -> None:
    false.touch()
    false.rename(store)


Trick = Callable[[Scene], object]

TRICKS: dict[str, Trick] = {  # each does what it says where the shield is off
    "read": lambda at: at.store.read_bytes(),
    "write": lambda at: os.close(os.open(at.store, os.O_RDWR)),
    "append": lambda at: os.close(os.open(at.store, os.O_WRONLY | os.O_APPEND)),
    "open and truncate": lambda at: at.store.write_bytes(b""),
    "truncate": lambda at: os.truncate(at.store, 0),
    "rename": lambda at: at.store.rename(at.store.with_suffix(".old")),
    "move out": lambda at: at.store.rename(at.beside / "moved"),
    "put something in its place": lambda at: put_in_place(at.beside / "false", at.store),
    "unlink": lambda at: at.store.unlink(),
    "hard link": lambda at: os.link(at.store, at.beside / f"linked {at.store.name}"),
    "symbolic link": lambda at: by_link(at.beside / "link", at.store),
    "list and read": lambda at: by_list(at.store.parent),
    "add a journal": lambda at: at.store.with_suffix(".journal").touch(),
    "add a folder": lambda at: at.store.with_suffix(".folder").mkdir(),
    "step by step": lambda at: step_by_step(at.store),
    "sqlite reads": lambda at: by_sqlite(at.store, "SELECT * FROM sqlite_master"),
    "sqlite writes": lambda at: by_sqlite(at.store, "CREATE TABLE mine (n)"),
    "sqlite without locks": lambda at: by_sqlite(at.store, "SELECT * FROM sqlite_master", "?immutable=1"),
    "descriptors of the supervisor": by_descriptor,
    "folder of the supervisor": by_folder_of_the_supervisor,
    "root of the supervisor": lambda at: Path(f"/proc/{at.supervisor}/root{at.store}").read_bytes(),
    "a shell reads": lambda at: by_shell('cat "$1"', at.store),
    "a shell writes": lambda at: by_shell('echo x >>"$1"', at.store),
    "a shell's shell reads": lambda at: by_shell('sh -c \'cat "$1"\' sh "$1" & wait $!', at.store),
}
SIGNALS: dict[str, Trick] = {
    "signal the supervisor": lambda at: os.kill(at.supervisor, signal.SIGCONT),
    "signal the guardian": lambda at: os.kill(os.getppid(), signal.SIGCONT),
    "a shell signals the supervisor": lambda at: by_shell('kill -CONT "$1"', at.supervisor),
}


def outcome(trick: str, scene: Scene) -> str:
    """Try one; say "done", or what was raised."""
    try:
        (TRICKS | SIGNALS)[trick](scene)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def scene_of(payload: dict[str, Any], store: str) -> Scene:
    return Scene(Path(store), Path(payload["beside"]), payload["supervisor"])


@app.lane("burgle", max_attempts=1)
def burgle(job: Jobs, ctx: Context) -> Pairs:
    """Try what the payload says, each trick on the store that it names for it."""
    for n, (trick, store) in enumerate(job.payload["stores"].items()):
        yield n, f"{trick} = {outcome(trick, scene_of(job.payload, store))}"


@app.lane("break_in", max_attempts=1)
def break_in(job: Jobs, ctx: Context) -> Pairs:
    """Try one trick, and fail of what comes of it."""
    yield 0, "before"
    (TRICKS | SIGNALS)[job.payload["trick"]](scene_of(job.payload, job.payload["store"]))


@app.lane("make_file", max_attempts=1)
def make_file(job: Jobs, ctx: Context) -> Pairs:
    Path(job.payload["file"]).write_text("made")
    yield 0, "made"


@app.lane("read_file", max_attempts=1)
def read_file(job: Jobs, ctx: Context) -> Pairs:
    yield os.getpid(), Path(job.payload["file"]).read_text()


@app.lane("whereabouts", max_attempts=1)
def whereabouts(job: Jobs, ctx: Context) -> Pairs:
    """Say which process has imported the application, and which one works."""
    yield IMPORTED_BY, str(os.getpid())


@app.read
def texts(db: Any, job: int) -> list[str]:
    return [str(text) for (text,) in db.query("SELECT text FROM items WHERE job = ?", (job,))]


@app.lane("ask", max_attempts=1)
def ask(job: Jobs, ctx: Context) -> Pairs:
    yield 0, "landed first"
    ctx.checkpoint("0")
    while not (seen := ctx.read(texts, job=job.id)):
        time.sleep(0.005)
    yield 1, repr(seen)


def land(db: Landing, job: Jobs, rows: Rows[tuple[int, str]]) -> None:
    db.executemany(f"INSERT INTO items VALUES ({job.id}, ?, ?, {job.attempt})", rows)


for _lane in app.lanes.values():
    _lane.lander(land)
