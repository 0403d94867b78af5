"""`check`, and the names that a run refuses to share."""

import pytest

from ipc.guardian.shield import abi, described
from tests.cli.shell import Shell


def test_check_says_what_would_run(project: Shell) -> None:
    done = project("check")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(
        f"ok: {project.folder}/squares.py:app (moody, runaway, sleepy, square, vault_sync); 2 workers"
    )
    assert done.out.count("\n") == 1, "nothing more is asked for, not even by the built-in lanes"
    assert project("check", "--json").json == {"ok": True, "complaints": [], "warnings": [], "worlds": {}}


def test_check_says_what_is_on_for_whose_children(project: Shell) -> None:
    """K13: of decorator and settings together; a seal that a kind is born with is not told."""
    settings = project.folder / "supervisor.toml"
    world = 'network = false\nmemory_limit = "2GB"\ncpu_limit = "90s"\njobs_per_child = 1000\nspawn = "cold"'
    settings.write_text(
        f"{settings.read_text()}\n[kinds.square]\n{world}\n[kinds.vault_sync]\nprocess_limit = 5\n"
    )
    done = project("check")
    assert (done.code, done.err) == (0, "")
    square = ["network sealed", "memory limit 2 GB", "CPU limit 90 s", "1,000 jobs per child", "started cold"]
    assert done.out.splitlines()[1:] == [f"  square: {', '.join(square)}", "  vault_sync: process limit 5"]
    worlds = {"square": square, "vault_sync": ["process limit 5"]}
    assert project("check", "--json").json["worlds"] == worlds


@pytest.mark.skipif(not abi(), reason="this kernel has no Landlock")
def test_check_says_what_a_shield_keeps_off(project: Shell) -> None:
    """U14."""
    settings = project.folder / "supervisor.toml"
    settings.write_text(f"{settings.read_text()}\n[kinds.square]\nshield = true\n")
    assert project("check").out.splitlines()[1:] == [f"  square: shield ({described(abi())})"]


def test_check_names_what_of_the_users_is_hidden_by_ours(project: Shell) -> None:
    """K13."""
    project.write("worker.py", "")
    done = project("check")
    assert done.code == 0
    assert (
        done.err
        == f"hint: {project.folder}/worker.py is hidden by laneway's own 'worker'; rename it to import it\n"
    )


def test_run_refuses_when_one_of_our_names_leads_elsewhere(project: Shell) -> None:
    """K13, exit code 2."""
    other = project.folder / "other"
    (other / "worker").mkdir(parents=True)
    (other / "worker" / "__init__.py").write_text("")
    line = project.refused("run", code=2, env={"PYTHONPATH": f"{other}:{project.environ['PYTHONPATH']}"})
    assert line.startswith(f"'worker' leads to {other}/worker/__init__.py, not to laneway in")
