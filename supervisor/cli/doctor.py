"""`supervisor doctor`: what this machine, environment and store are, and what is wrong with them."""

import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from ipc.leftovers import can_look
from landing.connect import SQLITE_VERSION
from landing.disk import NETWORK, file_system
from landing.errors import StoreError
from landing.snapshot import store_size
from supervisor import sensors
from supervisor.cli.codes import FAILED
from supervisor.cli.output import page, plain, print_json
from supervisor.cli.status import next_step
from supervisor.lock import is_live
from supervisor.settings.place import find_home
from supervisor.told.names import ROOT, strangers
from supervisor.told.status import megabytes, status

FIXED: Final = ((3, 51, 3), (3, 50, 7), (3, 44, 6))
"""The first SQLite of each line without the WAL-reset bug (CONTRACTS K8)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `level` is ok, warning (works, with a risk) or wrong; `advice` says what to do."""

    name: str
    value: str
    level: str = "ok"
    advice: str = ""


def doctor_command(*, home: str | None, as_json: bool) -> int:
    """Print the findings; 1 says that something is wrong."""
    findings = [*environment_findings(), *store_findings(find_home(home))]
    wrong = any(finding.level == "wrong" for finding in findings)
    if as_json:
        print_json({"ok": not wrong, "findings": [asdict(finding) for finding in findings]})
    else:
        print("\n".join(page([cells(finding) for finding in findings])))
    return FAILED if wrong else 0


def cells(finding: Finding) -> tuple[str, str]:
    """Return a finding's cells."""
    mark = "" if finding.level == "ok" else f"   {finding.level.upper()}: {finding.advice}"
    return finding.name, plain(f"{finding.value}{mark}")


def environment_findings() -> Iterator[Finding]:
    """Look at the interpreter, the libraries and the names."""
    yield Finding("laneway", f"{sensors.version()} in {ROOT}")
    yield Finding("python", f"{platform.python_version()} ({sys.executable})")
    yield sqlite_finding(SQLITE_VERSION)
    yield Finding("msgspec", version("msgspec"))
    yield Finding("platform", platform.platform())
    yield Finding("kill", "process group: a descendant that left it is not followed")
    yield leftovers_finding(can_look=can_look())
    clashes = list(strangers())
    yield from (Finding("names", "taken", "wrong", line) for line in clashes)
    if not clashes:
        yield Finding("names", "supervisor, worker, landing, ipc and policies are laneway's")


def leftovers_finding(*, can_look: bool) -> Finding:
    """Say whether a start finds what a dead run has left running."""
    if can_look:
        return Finding("leftovers", "a start ends what dead runs left running, found by its environment")
    advice = "a job's descendant that outlives a killed supervisor runs on; its rows are refused all the same"
    return Finding("leftovers", "not looked for: no /proc here", "warning", advice)


def sqlite_finding(found: tuple[int, int, int]) -> Finding:
    """Name the SQLite versions that can lose a commit when a checkpoint resets the WAL."""
    text = ".".join(str(part) for part in found)
    if has_wal_reset_bug(found):
        advice = "has the WAL-reset bug (rare damage when two processes write at once); mended in 3.51.3"
        return Finding("sqlite", text, "warning", advice)
    return Finding("sqlite", text)


def has_wal_reset_bug(found: tuple[int, int, int]) -> bool:
    """Tell whether this version has the bug: it is before 3.51.3 and not one of the mended older lines."""
    return found < FIXED[0] and not any(found[:2] == line[:2] and found >= line for line in FIXED[1:])


def store_findings(home: Path) -> Iterator[Finding]:
    """Look at the store of a home, if it has one, and at the disk that it is on."""
    try:
        size, wal = store_size(home)
        facts = status(home)
    except StoreError as error:
        missing = error.code == "no_store" or not home.exists()
        yield Finding(
            "store", f"none in {home}" if missing else str(home), *(() if missing else ("wrong", str(error)))
        )
        return
    yield Finding("store", f"{home}: {megabytes(size):g} MB, WAL {megabytes(wal):g} MB")
    yield disk_finding(home)
    yield Finding("lock", f"held, supervisor {facts['supervisor']['state']}" if is_live(home) else "free")
    step = next_step(facts)
    for reason in facts["reasons"]:
        yield Finding("health", "not good", "warning", f"{reason}; {step}" if step else reason)


def disk_finding(home: Path) -> Finding:
    """Name the file system; WAL does not work across machines."""
    kind = file_system(home)
    if kind in NETWORK:
        advice = "a network file system; the store needs a local one: --home DIR"
        return Finding("disk", kind, "wrong", advice)
    return Finding("disk", kind)
