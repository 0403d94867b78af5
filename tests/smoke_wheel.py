"""Install the built wheel in a fresh environment and run real jobs with it, from another folder.

    python tests/smoke_wheel.py dist/laneway-*.whl

Standard library only; the first thing that is wrong ends it with one line and exit 1.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("supervisor", "worker", "landing", "ipc", "policies")
LIMIT = 120
"""Seconds that one command may take."""

APP = """
from supervisor import App

app = App("squares")
app.migration(1, "CREATE TABLE squares (n INTEGER PRIMARY KEY, square INTEGER) WITHOUT ROWID")

@app.lane("square")
def square(job, ctx):
    for n in range(job.payload["count"]):
        yield n, n * n
        ctx.checkpoint(str(n))

@square.lander
def land(db, job, rows):
    db.executemany("INSERT INTO squares VALUES (?, ?)", rows)
"""


def main(wheel: Path) -> int:
    """Check everything in a scratch folder, which goes when it is done."""
    with tempfile.TemporaryDirectory(prefix="laneway-smoke-") as scratch:
        folder = Path(scratch)
        binaries = install(wheel, folder / "env")
        check_contents(binaries, folder)
        check_vault(binaries, folder)
        check_application(binaries, folder)
    print("smoke: the wheel installs, indexes, searches, and runs a job from another folder")
    return 0


def install(wheel: Path, environment: Path) -> Path:
    """Make a fresh environment with nothing but the wheel and what it needs; return its bin folder."""
    venv.create(environment, with_pip=True)
    binaries = environment / "bin"
    pins = str(ROOT / "constraints.txt")
    run([binaries / "python", "-m", "pip", "install", "--quiet", "-c", pins, wheel], environment)
    return binaries


def check_contents(binaries: Path, folder: Path) -> None:
    """Every room comes from the environment and says that it is typed; the store's migrations are there."""
    for room in ROOMS:
        place = Path(
            run([binaries / "python", "-P", "-c", f"import {room}; print({room}.__file__)"], folder)
        ).parent
        expect(place.is_relative_to(folder / "env"), f"{room} was loaded from {place}, not from the wheel")
        expect((place / "py.typed").is_file(), f"{room} has no py.typed")
    ours = {file.name for file in (ROOT / "landing" / "migrations").glob("*.sql")}
    packed = {file.name for file in (folder / "env").glob("lib/*/site-packages/landing/migrations/*.sql")}
    expect(packed == ours, f"the wheel's migrations are {sorted(packed)}, the tree's {sorted(ours)}")


def check_vault(binaries: Path, folder: Path) -> None:
    """A folder of notes is indexed and searched by the built-in lane."""
    notes = folder / "notes"
    notes.mkdir()
    (notes / "tides.md").write_text("# Tides\n\nThe heliotrope ferry leaves at high water.\n", "utf-8")
    (notes / "moon.txt").write_text("The moon pulls the water.\n", "utf-8")
    home = ["--home", folder / "vault"]
    run([binaries / "laneway", "index", notes, *home], folder)
    hits = json.loads(run([binaries / "laneway", "search", "heliotrope", *home, "--json"], folder))
    expect([Path(hit["path"]).name for hit in hits] == ["tides.md"], f"search found {hits}")


def check_application(binaries: Path, folder: Path) -> None:
    """A user's lane is enqueued, run until idle, and its rows have landed."""
    place = folder / "project"
    place.mkdir()
    (place / "app.py").write_text(APP, "utf-8")
    options = ["--home", place / "store", "--json"]
    app = ["--app", "app.py"]
    queued = json.loads(
        run([binaries / "supervisor", "enqueue", "square", '{"count": 1000}', *app, *options], place)
    )
    run([binaries / "supervisor", "run", "--until-idle", *app, "--home", place / "store"], place)
    job = json.loads(run([binaries / "supervisor", "show", str(queued["id"]), *options], place))
    expect(job["state"] == "done", f"the job is {job['state']}: {job['reason']}")
    expect(job["landed"]["rows"] == 1000, f"{job['landed']['rows']} of 1000 rows landed")


def run(command: list[str | Path], cwd: Path) -> str:
    """Run one command outside the checkout and return what it printed.

    The environment is pruned of everything that could lead it back to the checkout.
    """
    ours = ("PYTHON", "PIP_CONSTRAINT", "PIP_BUILD", "VIRTUAL_ENV", "LANEWAY_", "COVERAGE_", "MAKE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LIMIT, check=False,
    )  # fmt: skip
    expect(done.returncode == 0, f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(fact: bool, complaint: str) -> None:
    """End with the complaint unless the fact holds."""
    if not fact:
        sys.exit(f"smoke: {complaint}")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
