"""`check`, and the names that a run refuses to share."""

from tests.cli.shell import Shell


def test_check_says_what_would_run(project: Shell) -> None:
    done = project("check")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(
        f"ok: {project.folder}/squares.py:app (moody, runaway, sleepy, square, vault_sync); 2 workers"
    )
    assert project("check", "--json").json == {"ok": True, "complaints": [], "warnings": []}


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
