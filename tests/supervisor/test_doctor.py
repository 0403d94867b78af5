"""`doctor` and the names: what is wrong with a machine, an environment, a store."""

from pathlib import Path

import pytest

from landing.disk import file_system
from supervisor.cli.doctor import disk_finding, has_wal_reset_bug, leftovers_finding, sqlite_finding
from supervisor.client import Client
from supervisor.told.names import hidden, origin, strangers
from tests.cli.shell import Shell


def test_a_healthy_environment_has_its_versions_and_exit_code_0(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    done = shell("doctor", "--json")
    assert (done.code, done.json["ok"]) == (0, True)
    findings = {finding["name"]: finding for finding in done.json["findings"]}
    assert findings.keys() == {
        *("laneway", "python", "sqlite", "msgspec", "platform", "kill", "leftovers", "names", "store")
    }
    assert findings["store"]["value"] == f"none in {shell.home}"
    assert findings["kill"]["value"].startswith("process group")
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


def test_whether_a_start_finds_what_dead_runs_left_running_is_said_honestly() -> None:
    """K9, U41."""
    assert leftovers_finding(can_look=True).level == "ok"
    without = leftovers_finding(can_look=False)
    assert (without.level, without.value) == ("warning", "not looked for: no /proc here")


def test_the_file_system_of_a_folder_is_named() -> None:
    assert file_system(Path("/proc")) == "proc"
    assert disk_finding(Path("/proc")).level == "ok"


def test_a_network_file_system_is_wrong_for_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisor.cli.doctor.file_system", lambda folder: "nfs4")
    assert disk_finding(Path("/")).level == "wrong"
