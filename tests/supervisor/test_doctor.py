"""`doctor` and the names: what is wrong with a machine, an environment, a store."""

import sys
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from ipc.guardian import cgroup, shield
from ipc.guardian.orders import CGROUP, GROUP, GUARDIAN
from ipc.oom import Look
from landing.disk import file_system
from landing.enqueue import Register
from landing.store import Store
from policies.gates.vocabulary import Limits
from policies.options import Options
from policies.readings import MemoryReading, Power, PowerReading, PresenceReading, Readings
from supervisor import machine, sensors
from supervisor.cli.doctor import (
    children_findings,
    disk_finding,
    has_wal_reset_bug,
    kill_finding,
    leftovers_finding,
    oom_finding,
    shield_finding,
    spawn_finding,
    sqlite_finding,
)
from supervisor.cli.findings import Finding, sensed_findings
from supervisor.client import Client
from supervisor.told.names import hidden, origin, strangers
from tests.cli.shell import Shell


def test_a_healthy_environment_has_its_versions_and_exit_code_0(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    done = shell("doctor", "--json")
    assert (done.code, done.json["ok"]) == (0, True)
    findings = {finding["name"]: finding for finding in done.json["findings"]}
    assert findings.keys() == {
        *("laneway", "python", "sqlite", "msgspec", "platform", "names"),
        *("kill", "leftovers", "spawn", "shield", "oom", "owner", "power", "memory", "store"),
    }
    assert findings["store"]["value"] == f"none in {shell.home}"
    here = {one.name: one.value for one in children_findings([])}
    assert {name: findings[name]["value"] for name in here} == here, "what is true of this process, too"
    assert [line.split()[0] for line in shell("doctor").out.splitlines()] == list(findings)


def test_a_store_is_looked_at_with_its_disk_and_lock(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    Client(shell.home).enqueue("vault_sync")
    findings = {one["name"]: one for one in shell("doctor", "--json").json["findings"]}
    assert findings["store"]["value"].startswith(f"{shell.home}: ")
    assert (findings["lock"]["value"], findings["health"]["level"]) == ("free", "warning")
    assert findings["disk"]["level"] == "ok"


def test_a_store_that_is_none_is_wrong(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.home.mkdir()
    (shell.home / "store.db").write_bytes(b"no database at all, but as long as a header would be " * 20)
    done = shell("doctor", "--json")
    assert (done.code, done.json["ok"]) == (1, False)
    assert "not a database" in done.json["findings"][-1]["advice"]


def test_pypis_supervisor_is_noticed_by_its_metadata_alone(tmp_path: Path) -> None:
    """DESIGN section 2: the same import name, silently overwritten."""
    info = tmp_path / "site" / "supervisor-4.3.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: supervisor\nVersion: 4.3.0\n")
    shell = Shell(tmp_path)
    done = shell("doctor", env={"PYTHONPATH": f"{shell.environ['PYTHONPATH']}:{info.parent}"})
    assert done.code == 1
    assert "WRONG: PyPI's supervisor 4.3.0 is installed over laneway's package of the same name" in done.out


def test_our_names_lead_to_us() -> None:
    assert list(strangers()) == []
    assert origin("worker") == Path(__file__).resolve().parents[2] / "worker" / "__init__.py"
    assert origin("nobody_has_this_name") is None


def test_a_users_module_that_ours_hides_is_named(tmp_path: Path) -> None:
    """K13."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "__init__.py").touch()
    (tmp_path / "worker.py").touch()
    (tmp_path / "landing").mkdir()
    lines = list(hidden([tmp_path, tmp_path]))
    assert lines == [
        f"{tmp_path}/worker.py is hidden by laneway's own 'worker'; rename it to import it",
        f"{tmp_path}/policies/__init__.py is hidden by laneway's own 'policies'; rename it to import it",
    ]
    assert list(hidden([Path(__file__).resolve().parents[2]])) == []


@pytest.mark.parametrize(
    ("version", "bug"),
    [
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
    ],
    ids=str,
)
def test_the_sqlite_versions_with_the_wal_reset_bug_are_known(
    version: tuple[int, int, int], bug: bool
) -> None:
    """K8."""
    assert has_wal_reset_bug(version) is bug
    assert sqlite_finding(version).level == ("warning" if bug else "ok")


# --- what can be done to children


def test_how_surely_a_job_is_killed_is_said_honestly() -> None:
    """C126, OS.md 2: the sentence of a process group promises no more than it can keep."""
    assert "below /sys/fs/cgroup/mine" in kill_finding(CGROUP, "/sys/fs/cgroup/mine").value
    assert kill_finding(GUARDIAN, "").value.startswith("guardian: ends the whole tree")
    group = kill_finding(GROUP, "")
    assert (group.value, group.level) == ("process group", "warning")
    assert group.advice == (
        "the worker and all descendants that stay in its process group die;"
        " a descendant that leaves the group and outlives its parent may survive"
    )


def test_the_tier_is_the_one_that_a_run_would_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """C126: tried, not guessed; a cgroup where one is ours, else a guardian if it can get the orphans."""
    tier, folder = machine.kill_tier()
    assert (tier, folder) == ((CGROUP, cgroup.base()) if cgroup.base() else (GUARDIAN, ""))
    monkeypatch.setattr("supervisor.machine.cgroup.base", lambda: None)
    assert machine.kill_tier() == (GUARDIAN, "")
    monkeypatch.setitem(sys.modules, "ctypes", None)  # a Python that cannot ask the system for them
    assert machine.kill_tier() == (GROUP, "")


def test_who_ends_what_a_dead_supervisor_has_left_is_said_honestly() -> None:
    """K9, U41."""
    by_both = "guardians end them when a supervisor dies; a start ends the rest, found by its environment"
    assert leftovers_finding(GUARDIAN, can_look=True).value == by_both
    assert leftovers_finding(CGROUP, can_look=True).value == f"{by_both} or its cgroup"
    alone = leftovers_finding(GROUP, can_look=True)
    assert (alone.level, "guardian" in alone.value) == ("ok", False)
    without = leftovers_finding(GROUP, can_look=False)
    assert (without.level, without.value) == ("warning", "not looked for: no /proc here")


def test_how_children_begin_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN 5: templates on Linux, cold elsewhere."""
    monkeypatch.setattr("sys.platform", "linux")
    assert spawn_finding(templates=machine.has_templates()).value.startswith("templates: ")
    monkeypatch.setattr("sys.platform", "darwin")
    assert spawn_finding(templates=machine.has_templates()).value.startswith("cold: ")


def test_the_shield_is_told_with_its_gaps_and_with_who_asks_for_it() -> None:
    """U14: a kind that asks for what cannot be had is wrong, not a warning."""
    whole = machine.Shield("landlock 7: store, signals")
    assert shield_finding(whole, []).value == (
        "possible: landlock 7: store, signals; no kind of this store asks for it"
    )
    asked = shield_finding(whole, ["embed", "report"])
    assert (asked.level, asked.value.endswith("; on for embed, report")) == ("ok", True)
    gap = shield_finding(replace(whole, gap="the store can be truncated"), ["embed"])
    assert (gap.level, gap.advice) == ("warning", "the store can be truncated")
    missing = machine.Shield("")
    assert shield_finding(missing, []).level == "ok"
    wanted = shield_finding(missing, ["embed"])
    assert (wanted.level, wanted.value) == ("wrong", f"not possible: {machine.NO_SHIELD}")
    assert wanted.advice.startswith("embed: shield = true")


@pytest.mark.skipif(not shield.abi(), reason="this kernel has no Landlock")
def test_the_kinds_that_ask_for_the_shield_are_those_that_the_store_knows(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    kinds = {"open": Options(), "closed": Options(shield=True), "shut": Options(shield=True)}
    Store(shell.home, sensors.now_micros, create_missing=True).write(Register("notes", kinds))
    findings = {one["name"]: one for one in shell("doctor", "--json").json["findings"]}
    assert findings["shield"]["value"] == f"possible: {shield.described(shield.abi())}; on for closed, shut"


def test_whether_a_kill_by_the_kernel_can_be_told_apart_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """FIELD H9, J3: the surest source is named."""
    said = []
    for look in (Look(1, True, 1, ()), Look(1, True, 1), Look(machine=1), Look()):
        monkeypatch.setattr("supervisor.machine.Witness.look", lambda _, look=look: look)
        said.append(oom_finding(machine.tells_of_oom()).value)
    apart = "kills by the kernel, out of memory, are told apart: "
    assert said == [
        f"{apart}its log names them",
        f"{apart}our memory cgroup counts them",
        f"{apart}the machine counts them",
        "kills by the kernel, out of memory, read as a SIGKILL by somebody",
    ]


# --- owner, power, memory

AWAY = PresenceReading(840.0, "logind")
MAINS = PowerReading(Power.MAINS, 80.0, "AC")
PLENTY = MemoryReading(9_100_000_000, 24_000_000_000, 0.0, "MemAvailable")


def sensed(limits: Limits | None = None, **readings: Any) -> dict[str, Finding]:
    """What is said of a machine that is idle, on mains and has room, but for these readings."""
    found = Readings(**{"presence": AWAY, "power": MAINS, "memory": PLENTY, **readings})
    return {one.name: one for one in sensed_findings(found, limits or Limits())}


def test_what_each_probe_sees_is_said_with_its_source_and_what_the_gates_make_of_it() -> None:
    """U28, OS 6 to 8."""
    said = {name: (one.value, one.level) for name, one in sensed().items()}
    assert said == {
        "owner": ("away 14 min (logind); heavy work may start", "ok"),
        "power": ("mains (AC); heavy work may start", "ok"),
        "memory": (
            "9.1 GB of 24 GB free (MemAvailable);"
            " a job that needs up to 6.7 GB may start (2.4 GB are kept back)",
            "ok",
        ),
    }


@pytest.mark.parametrize(
    ("name", "readings", "words"),
    [
        (
            "owner",
            {"presence": PresenceReading(3.0, "tty1")},
            "present, 3.0 s since a touch (tty1);"
            " heavy work waits: you are here, until 300 s without a touch",
        ),
        (
            "owner",
            {"presence": PresenceReading(inf, "no session")},
            "away (no session); heavy work may start",
        ),
        (
            "power",
            {"power": PowerReading(Power.BATTERY, 61.0, "BAT0")},
            "battery 61 % (BAT0); heavy work waits: on battery (61 %), until mains",
        ),
        (
            "power",
            {"power": PowerReading(Power.BATTERY, 5.0, "BAT0")},
            "battery 5 % (BAT0); all work waits: battery at 5 %, below 20 %, until mains",
        ),
        (
            "memory",
            {"memory": MemoryReading(1_000_000_000, 24_000_000_000, 0.0, "cgroup")},
            "1 GB of 24 GB free (cgroup);"
            " what needs memory waits: 2.4 GB are kept back, until memory is free",
        ),
        (
            "memory",
            {"memory": MemoryReading(9_000_000_000, 24_000_000_000, 40.0, "cgroup")},
            "9 GB of 24 GB free, pressure 40 % (cgroup);"
            " heavy work waits: memory is short (pressure 40 %), until pressure falls",
        ),
        (
            "memory",
            {"memory": MemoryReading(source="no /proc")},
            "unknown (no /proc); nobody can tell what is free: no job waits for memory",
        ),
    ],
)
def test_what_keeps_heavy_work_waiting_is_said_and_is_no_fault(
    name: str, readings: dict[str, Any], words: str
) -> None:
    """C60, C130, C132, U28."""
    found = sensed(**readings)[name]
    assert (found.value, found.level) == (words, "ok")


def test_what_nobody_can_tell_is_a_warning_where_it_stops_heavy_work() -> None:
    """U28: unknown counts as present and as battery; the setting that ends it is named."""
    unknown = {"presence": PresenceReading(None, "no bus"), "power": PowerReading(source="no sysfs")}
    found = sensed(**unknown)
    assert found["owner"].value.startswith("unknown (no bus); heavy work waits: you may be here (no bus)")
    assert found["power"].value.startswith("unknown (no sysfs); heavy work waits: power unknown (no sysfs)")
    assert [found[name].level for name in ("owner", "power")] == ["warning", "warning"]
    assert 'presence = "dedicated"' in found["owner"].advice
    assert "power = false" in found["power"].advice
    told = sensed(Limits(presence=0.0, power=False), **unknown)
    assert [told[name].value for name in ("owner", "power")] == [
        "unknown (no bus); heavy work may start",
        "unknown (no sysfs); heavy work may start",
    ]
    assert {one.level for one in told.values()} == {"ok"}


def test_the_gates_are_those_of_the_settings_and_bad_settings_stop_no_doctor(tmp_path: Path) -> None:
    """The probes themselves are asked; this machine has some memory."""
    shell = Shell(tmp_path)
    for reserve, words in (('"900000GB"', "what needs memory waits"), ('"huge"', "are kept back)")):
        shell.write("supervisor.toml", f"[gates]\nmemory_reserve = {reserve}\n")
        findings = {one["name"]: one for one in shell("doctor", "--json").json["findings"]}
        assert words in findings["memory"]["value"]


# --- the disk


def test_the_file_system_of_a_folder_is_named() -> None:
    assert file_system(Path("/proc")) == "proc"
    assert disk_finding(Path("/proc")).level == "ok"


def test_a_network_file_system_is_wrong_for_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.cli.doctor.file_system", lambda folder: "nfs4")
    assert disk_finding(Path("/")).level == "wrong"
