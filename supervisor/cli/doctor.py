"""`supervisor doctor`: what this machine, environment and store are, and what is wrong with them.

environment + what can be done to children + owner, power, memory + store  ->  findings, one a line
"""

import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Final

from ipc.guardian.orders import CGROUP, GROUP, GUARDIAN
from ipc.leftovers import can_look
from landing import views
from landing.connect import SQLITE_VERSION
from landing.disk import NETWORK, file_system
from landing.errors import StoreError
from landing.snapshot import snapshot, store_size
from supervisor import machine, sensors
from supervisor.cli.codes import FAILED
from supervisor.cli.findings import Finding, machine_findings
from supervisor.cli.output import page, plain, print_json
from supervisor.cli.status import next_step
from supervisor.lock import is_live
from supervisor.settings.place import find_home
from supervisor.told.names import ROOT, strangers
from supervisor.told.status import megabytes, status

FIXED: Final = ((3, 51, 3), (3, 50, 7), (3, 44, 6))
"""The first SQLite of each line without the WAL-reset bug (CONTRACTS K8)."""
GROUP_ONLY: Final = (
    "the worker and all descendants that stay in its process group die;"
    " a descendant that leaves the group and outlives its parent may survive"
)


def doctor_command(*, home: str | None, as_json: bool) -> int:
    """Print the findings; 1 says that something is wrong."""
    place = find_home(home)
    findings = [
        *environment_findings(),
        *children_findings(shielded(place)),
        *machine_findings(home),
        *store_findings(place),
    ]
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
    clashes = list(strangers())
    yield from (Finding("names", "taken", "wrong", line) for line in clashes)
    if not clashes:
        yield Finding("names", "supervisor, worker, landing, ipc and policies are laneway's")


def children_findings(shielded: list[str]) -> Iterator[Finding]:
    """Look at what this system can do to children. Args: the kinds that ask for the shield."""
    tier, folder = machine.kill_tier()
    yield kill_finding(tier, folder)
    yield leftovers_finding(tier, can_look=can_look())
    yield spawn_finding(templates=machine.has_templates())
    yield shield_finding(machine.shield(), shielded)
    yield oom_finding(machine.tells_of_oom())


def kill_finding(tier: str, folder: str) -> Finding:
    """Say how surely a job's processes are ended, in the words of the tier that an attempt's world names."""
    if tier == CGROUP:
        return Finding("kill", f"cgroup: the kernel ends the whole tree at one stroke, below {folder}")
    if tier == GUARDIAN:
        return Finding("kill", "guardian: ends the whole tree; no cgroup is ours to use here")
    return Finding("kill", "process group", "warning", GROUP_ONLY)


def leftovers_finding(tier: str, *, can_look: bool) -> Finding:
    """Say who ends what a dead supervisor leaves running: its guardians, and the next start."""
    if not can_look:
        advice = (
            "a job's descendant that outlives a killed supervisor runs on; its rows are refused all the same"
        )
        return Finding("leftovers", "not looked for: no /proc here", "warning", advice)
    found_by = "found by its environment or its cgroup" if tier == CGROUP else "found by its environment"
    if tier == GROUP:
        return Finding("leftovers", f"a start ends what dead runs left running, {found_by}")
    return Finding(
        "leftovers", f"guardians end them when a supervisor dies; a start ends the rest, {found_by}"
    )


def spawn_finding(*, templates: bool) -> Finding:
    """Say how a child begins."""
    if templates:
        return Finding("spawn", "templates: a child is a copy of a process that has imported the application")
    return Finding("spawn", "cold: each child imports the application; one stands by")


def shield_finding(shield: machine.Shield, kinds: list[str]) -> Finding:
    """Say whether children can be shut out of the store, what that leaves open, and who asks for it."""
    if not shield and kinds:
        advice = f"{', '.join(kinds)}: shield = true; they do not run here until that is set to false"
        return Finding("shield", f"not possible: {machine.NO_SHIELD}", "wrong", advice)
    if not shield:
        return Finding("shield", f"not possible: {machine.NO_SHIELD}")
    asked = f"on for {', '.join(kinds)}" if kinds else "no kind of this store asks for it"
    value = f"possible: {shield.kept_off}; {asked}"
    return Finding("shield", value, "warning", shield.gap) if shield.gap else Finding("shield", value)


def oom_finding(told_by: str) -> Finding:
    """Say whether a worker that the kernel ended for want of memory is told from one that somebody killed."""
    if told_by:
        return Finding("oom", f"kills by the kernel, out of memory, are told apart: {told_by}")
    return Finding("oom", "kills by the kernel, out of memory, read as a SIGKILL by somebody")


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


def shielded(home: Path) -> list[str]:
    """Return the kinds that ask for the shield, as far as a store knows them."""
    try:
        with snapshot(home) as db:
            return sorted(
                kind for kind, row in views.kinds(db).items() if row["options"].get("shield") is True
            )
    except StoreError:  # store_findings says what is wrong with it
        return []


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
