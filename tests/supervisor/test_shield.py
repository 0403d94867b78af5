"""The shield as users meet it: in a real project a burglar is refused and told why, honest work goes on."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ipc.guardian import meter, shield
from landing.store import Store
from supervisor import events, machine, sensors
from supervisor.application import load_application
from supervisor.settings.values import Flags, load_settings
from tests.cli.shell import Shell
from tests.supervisor.burglar import SIGNALS, TRICKS
from tests.supervisor.serving import House, kill_session, wait_for

VERSION = shield.abi()
behind = pytest.mark.skipif(VERSION < 3, reason="this kernel has no Landlock that keeps a file whole")
scoped = pytest.mark.skipif(VERSION < 6, reason="this kernel's Landlock keeps off no signals")

BURGLAR = Path(__file__).with_name("burglar.py")
REFUSED = ("PermissionError", "OSError: [Errno 18]", "OperationalError: unable to open database file")


def beside_the_app(top: Path) -> tuple[Path, Path]:
    return top / "my notes", top / "my notes" / ".supervisor"


def elsewhere(top: Path) -> tuple[Path, Path]:
    return top / "notes", top / "state" / "laneway"


def behind_a_link(top: Path) -> tuple[Path, Path]:
    (top / "disk" / "notes").mkdir(parents=True)
    (top / "notes").symlink_to(top / "disk" / "notes")
    return top / "notes", top / "notes" / "home"


def at_the_top_of_home(top: Path) -> tuple[Path, Path]:
    return top, top / ".supervisor"


LAYOUTS: list[Callable[[Path], tuple[Path, Path]]] = [
    beside_the_app,
    elsewhere,
    behind_a_link,
    at_the_top_of_home,
]


class Project(House):
    """A project as people have it: an application with a folder of pages, settings, a home.

    Args:
        top: an empty folder.
        layout: where in it project and home are.
        also: lines at the end of the application; HOME in them is the home.
        options: `[defaults]` of the settings.
    """

    def __init__(
        self, top: Path, layout: Callable[[Path], tuple[Path, Path]], also: str = "", **options: Any
    ) -> None:
        self.folder, self.home = layout(top)
        self.pages = self.folder / "pages"
        self.pages.mkdir(parents=True)
        name = f"{top.name}.py"  # this process loads many, and modules are known by their names
        self.app = str(shutil.copy(BURGLAR, self.folder / name))
        with open(self.app, "a") as file:
            file.write(also.replace("HOME", repr(str(self.home))))
        options = {"env": ["COVERAGE_PROCESS_CONFIG"], **options}
        lines = (f"{name} = {json.dumps(value)}\n" for name, value in options.items())
        (self.folder / "supervisor.toml").write_text(f"[defaults]\n{''.join(lines)}")
        flags = Flags(home=str(self.home), app=self.app, max_workers=1)
        self.settings = load_settings(flags, cwd=self.folder, environ={})
        self.application = load_application(self.settings)
        self.events: list[events.Event] = []
        self.store = Store(self.home, sensors.now_micros, create_missing=True)
        for register in self.application.declarations():
            self.store.write(register)

    def decoys(self) -> dict[str, str]:
        """Make a database in the home for each trick: where there is no shield, it does what it says."""
        stores = {trick: self.home / f"decoy-{n}.db" for n, trick in enumerate(TRICKS)}
        for store in stores.values():
            db = sqlite3.connect(store)
            db.execute("CREATE TABLE kept (n)")
            db.close()
        return {trick: str(store) for trick, store in stores.items()}

    def break_in(self, kind: str, **payload: Any) -> int:
        return self.enqueue(kind, {"beside": str(self.pages), "supervisor": os.getpid(), **payload})

    def outcomes(self, job: int) -> dict[str, str]:
        (attempt,) = self.attempts(job)
        assert attempt["outcome"] == "done", attempt
        return dict(text.split(" = ", 1) for _, text in self.items(job))


def tables(path: str) -> str:
    db = sqlite3.connect(path)
    try:
        return ", ".join(name for (name,) in db.execute("SELECT name FROM sqlite_master"))
    finally:
        db.close()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, beside_the_app, shield=True)


# --- what is refused, and what is not


@behind
@pytest.mark.parametrize(
    ("layout", "options"),
    [
        *((layout, {}) for layout in LAYOUTS),
        (beside_the_app, {"spawn": "cold"}),
        (beside_the_app, {"jobs_per_child": 3}),
        (behind_a_link, {"spawn": "cold", "jobs_per_child": 3}),
    ],
)
def test_no_job_gets_at_the_store_or_at_who_keeps_it(
    tmp_path: Path, layout: Callable[[Path], tuple[Path, Path]], options: dict[str, Any]
) -> None:
    """C127, U14, K13; issue 4, must show 5: by its path, by SQLite, by /proc, by a shell, by a signal."""
    house = Project(tmp_path, layout, shield=True, **options)
    store, decoys = str(house.home / "store.db"), house.decoys()
    every = dict.fromkeys(TRICKS | (SIGNALS if VERSION >= 6 else {}), store)
    jobs = [house.break_in("burgle", stores=every), house.break_in("burgle", stores=decoys)]
    asked = house.enqueue("ask")
    assert house.serve().ended == "idle"
    for job, stores in zip(jobs, (every, decoys), strict=True):
        found = house.outcomes(job)
        assert found.keys() == stores.keys()
        assert {trick: came for trick, came in found.items() if not came.startswith(REFUSED)} == {}
        assert house.attempts(job)[0]["world"]["shield"] == shield.described(VERSION)
    assert {tables(path) for path in decoys.values()} == {"kept"}
    assert house.items(asked) == [(0, "landed first"), (1, "['landed first']")]


@behind
@pytest.mark.parametrize("options", [{}, {"spawn": "cold"}])
def test_without_the_shield_the_same_job_gets_everywhere(tmp_path: Path, options: dict[str, Any]) -> None:
    """So that the test before this one can fail."""
    house = Project(tmp_path, beside_the_app, **options)
    everything = house.decoys() | dict.fromkeys(SIGNALS, str(house.home / "store.db"))
    job = house.break_in("burgle", stores=everything)
    assert house.serve().ended == "idle"
    assert {trick: came for trick, came in house.outcomes(job).items() if came != "done"} == {}
    assert house.attempts(job)[0]["world"]["shield"] is None


@behind
@pytest.mark.parametrize("jobs", [1, 3])
def test_every_copy_of_a_template_is_behind_it(tmp_path: Path, jobs: int) -> None:
    """Of the first copy and of the next ones, and of the next job in a child that is used again."""
    house = Project(tmp_path, beside_the_app, shield=True, jobs_per_child=jobs)
    store = str(house.home / "store.db")
    told = [
        (house.enqueue("whereabouts"), house.break_in("burgle", stores={"read": store})) for _ in range(6)
    ]
    house.serve()
    places = [house.items(where)[0] for where, _ in told]
    assert len({template for template, _ in places}) < len({child for _, child in places}) or jobs > 1
    assert len({child for _, child in places}) < 6 or jobs == 1
    for where, burgled in told:
        assert house.outcomes(burgled)["read"].startswith("PermissionError")
        assert house.attempts(where)[0]["world"]["spawn"] == "template"


# --- the job says why


WHY = "; shield = true closes {home} to this kind: ctx.read answers from the store"
SIGNAL_WHY = "; shield = true lets this kind signal only what it has started"
BESIDE_WHY = (
    "; shield = true closes {home} to this kind; right in the folders above it nothing can be made or removed"
)


@scoped
def test_a_job_that_was_refused_says_what_and_by_which_option(project: Project) -> None:
    """C127, C155; issue 4, must show 5: the error with its path, and that the shield closes the store."""
    store = str(project.home / "store.db")
    expected = {
        "read": ("PermissionError", f'13, "Permission denied", "{store}"', WHY),
        "truncate": ("PermissionError", f'13, "Permission denied", "{store}"', WHY),
        "unlink": ("PermissionError", f'13, "Permission denied", "{store}"', WHY),
        "hard link": ("OSError", f'18, "Invalid cross-device link", "{store}"', WHY),
        "sqlite reads": ("OperationalError", "unable to open database file", BESIDE_WHY),
        "a shell reads": ("PermissionError", f"13, \"cat: '{store}': Permission denied\"", WHY),
        "signal the supervisor": ("PermissionError", '1, "Operation not permitted"', SIGNAL_WHY),
    }
    jobs = {trick: project.break_in("break_in", trick=trick, store=store) for trick in expected}
    project.serve()
    for trick, (kind, message, why) in expected.items():
        (attempt,) = project.attempts(jobs[trick])
        assert (attempt["outcome"], attempt["error"]["type"]) == ("failed", kind), trick
        assert attempt["error"]["message"] == message + why.format(home=project.home)
        assert project.job(jobs[trick])["reason"] == f"{kind}: {attempt['error']['message']}"[:300]
        assert project.items(jobs[trick]) == [(0, "before")], "what came before it has landed"


@behind
def test_a_job_that_makes_a_file_beside_the_store_is_told_that_too(project: Project) -> None:
    """The price of the shield: right in the folders above the store nothing can be made."""
    refused = project.enqueue("make_file", {"file": str(project.folder / "new.txt")})
    made = project.enqueue("make_file", {"file": str(project.pages / "new.txt")})
    project.serve()
    (attempt,) = project.attempts(refused)
    path = project.folder / "new.txt"
    assert attempt["error"]["message"] == f'13, "Permission denied", "{path}"' + BESIDE_WHY.format(
        home=project.home
    )
    assert not path.exists()
    assert project.job(made)["state"] == "done"


@behind
def test_a_store_behind_a_link_is_named_either_way(tmp_path: Path) -> None:
    house = Project(tmp_path, behind_a_link, shield=True)
    stores = [house.home / "store.db", house.home.resolve() / "store.db"]
    jobs = [house.break_in("break_in", trick="read", store=str(store)) for store in stores]
    house.serve()
    messages = [house.attempts(job)[0]["error"]["message"] for job in jobs]
    assert messages == [
        f'13, "Permission denied", "{store}"{WHY.format(home=house.home)}' for store in stores
    ]


@behind
def test_show_tells_the_whole_story(project: Project) -> None:
    """C127: with what was on."""
    store = str(project.home / "store.db")
    job = project.break_in("break_in", trick="read", store=store)
    project.serve()
    screen = Shell(project.folder)("show", str(job), "--home", str(project.home)).out
    assert f"shield = true closes {project.home} to this kind" in screen
    assert f"shield ({shield.described(VERSION)})" in screen


@behind
def test_an_interpreter_in_the_project_works_behind_it(tmp_path: Path) -> None:
    """A virtual environment, the application and the store in one folder, as most projects have them."""
    house = Project(tmp_path, beside_the_app, shield=True)
    venv.create(house.folder / ".venv", symlinks=True)
    environ = Shell(house.folder).environ
    environ["PYTHONPATH"] += f":{Path(msgspec.__file__).parents[1]}"
    burgled = house.break_in("burgle", stores={"read": str(house.home / "store.db")})
    command = [str(house.folder / ".venv/bin/python"), "-P", "-m", "supervisor", "run", "--until-idle"]
    ran = subprocess.run(
        [*command, "--app", house.app], cwd=house.folder, env=environ, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert house.outcomes(burgled)["read"].startswith("PermissionError")


# --- from the first line on, and what is new


AT_IMPORT = """
try:
    AT_IMPORT = Path(HOME, "seen.txt").read_text()
except OSError as error:
    AT_IMPORT = type(error).__name__

@app.lane("at_import")
def at_import(job, ctx):
    yield 0, AT_IMPORT

at_import.lander(land)
"""


@behind
@pytest.mark.parametrize("options", [{}, {"spawn": "cold"}])
def test_what_the_application_does_at_its_import_is_behind_it_too(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """U14: in the children; in the supervisor, which has to read it, the application is trusted (K11)."""
    home = beside_the_app(tmp_path)[1]
    home.mkdir(parents=True)
    (home / "seen.txt").write_text("seen")
    house = Project(tmp_path, beside_the_app, AT_IMPORT, shield=True, **options)
    job = house.enqueue("at_import")
    house.serve()
    assert house.items(job) == [(0, "PermissionError")]
    assert sys.modules[Path(house.app).stem].AT_IMPORT == "seen"


@behind
def test_an_application_that_needs_the_store_at_its_import_is_held_and_says_why(tmp_path: Path) -> None:
    """K13: app_start_failed, with file and line; no attempt is used."""
    house = Project(
        tmp_path, elsewhere, 'Path(HOME).exists() and Path(HOME, "store.db").read_bytes()\n', shield=True
    )
    job = house.enqueue("whereabouts")
    served = house.serve()
    assert served.ended == "app_start_failed"
    assert "PermissionError" in served.detail
    assert f"{Path(house.app).name}:" in served.detail
    assert "behind the shield" in served.detail
    assert (house.attempts(job), house.job(job)["state"]) == ([], "queued")


@pytest.fixture
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Project, int]]:
    """A supervisor as a process of its own, over a project with the shield and the options of the test."""
    house = Project(tmp_path, beside_the_app, shield=True, **request.param)
    process = house.start()
    yield house, process.pid
    kill_session(process)


def workers(guardian: int) -> list[int]:
    """Return the worker processes that a guardian keeps."""
    return [one for one in meter.children(guardian) if b"worker" in meter.read(f"/proc/{one}/cmdline")]


def stands_by(supervisor: int, last: int, kept: int) -> bool:
    """Tell whether the child that worked last has gone, and another is there; its guardian keeps so many."""
    found = [workers(guardian) for guardian in meter.children(supervisor)]
    return all(last not in pids for pids in found) and any(len(pids) >= kept for pids in found)


def said_by_a_job(house: Project, page: Path) -> tuple[int, str]:
    """Have a job read a page; return which process it was, and the text, or what was raised."""
    job = house.enqueue("read_file", {"file": str(page)})
    wait_for(lambda: house.job(job)["finished_at"])
    (row,) = house.items(job) or [(0, str(house.attempts(job)[-1]["error"]))]
    return row


@behind
@pytest.mark.parametrize(
    ("running", "kept"),
    [({}, 2), ({"spawn": "cold"}, 1), ({"jobs_per_child": 20}, 0)],
    ids=["a copy and its template", "a cold child", "a child that is used again"],
    indirect=["running"],
)
def test_a_job_sees_the_files_that_were_there_when_it_was_queued(
    running: tuple[Project, int], kept: int
) -> None:
    """K13: also those that are newer than the child that stood by for it."""
    house, supervisor = running
    for n in range(3):
        page = house.folder / f"page {n}.txt"
        page.write_text("new")
        assert said_by_a_job(house, page)[1] == "new"
        draft = house.folder / "draft.txt"
        draft.write_text("saved")
        draft.replace(page)  # as editors do
        child, text = said_by_a_job(house, page)
        assert text == "saved"
        if kept:
            wait_for(partial(stands_by, supervisor, child, kept))


# --- where there is none


WITHOUT = """
import ctypes, os, struct, sys
first, *command = sys.argv[1:]
number, refuse, allow = (0x20, 0, 0, 0), (0x06, 0, 0, 0x50026), (0x06, 0, 0, 0x7FFF0000)
rules = [number, (0x35, 0, 2, int(first)), (0x25, 1, 0, 446), refuse, allow]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(command[0], command)
"""
"""Runs a command for which the kernel has no system call from `first` to 446: from 444 on, no Landlock."""


def without(first: int, house: Project, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the supervisor where the kernel refuses these calls of Landlock's."""
    shell = Shell(house.folder)
    command = [sys.executable, "-P", "-m", "supervisor", *words, "--home", str(house.home)]
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, str(first), *command],
        cwd=shell.folder,
        env=shell.environ,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@behind
@pytest.mark.parametrize("command", [("check",), ("run", "--until-idle")])
def test_where_there_is_no_landlock_a_kind_that_wants_the_shield_is_refused(
    project: Project, command: tuple[str, ...]
) -> None:
    """U14: it fails closed, with one line: which kind, what is missing, what to do."""
    job = project.enqueue("whereabouts")
    done = without(444, project, *command, "--app", project.app)
    kinds = ", ".join(repr(kind) for kind in sorted(project.application.kinds))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: kinds {kinds} have shield = true, and this system has no Landlock (Linux 5.13 and newer),"
        " or it is switched off; run elsewhere, or set shield = false\n"
    )
    assert (project.job(job)["state"], project.attempts(job)) == ("queued", [])


@behind
def test_where_the_shield_cannot_be_put_up_after_all_no_job_runs_without_it(project: Project) -> None:
    """U14: a kernel that has it and refuses it, as under too many layers; no attempt is used."""
    job = project.enqueue("whereabouts")
    done = without(446, project, "run", "--until-idle", "--app", project.app)
    assert done.returncode == 2
    assert "landlock_restrict_self: Function not implemented" in done.stderr
    assert (project.job(job)["state"], project.attempts(job)) == ("queued", [])


@behind
def test_kinds_without_the_shield_need_no_landlock(tmp_path: Path) -> None:
    house = Project(tmp_path, beside_the_app)
    job = house.enqueue("whereabouts")
    assert without(444, house, "run", "--until-idle", "--app", house.app).returncode == 0
    assert house.job(job)["state"] == "done"


def test_what_the_system_can_keep_off_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """OS.md 5: other kernels, and macOS, cannot be had here."""
    versions = iter((0, 2, 3, 7))
    monkeypatch.setattr("supervisor.machine.abi", lambda: next(versions))
    found = [machine.shield() for _ in range(4)]
    assert [bool(one) for one in found] == [False, True, True, True]
    assert [one.gap for one in found] == ["", "the store can be truncated", "", ""]
    monkeypatch.setattr("sys.platform", "darwin")
    for sandbox, kept_off in ((sys.executable, "sandbox-exec: store"), ("/nowhere", "")):
        monkeypatch.setattr("supervisor.machine.SANDBOX", sandbox)
        assert machine.shield().kept_off == kept_off
