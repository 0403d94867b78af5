"""Hints name commands that work where they are read."""

import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.cli.hints import command, given_value, run
from tests.cli.shell import SQUARES, Shell


@pytest.mark.parametrize(
    ("argv", "words", "said"),
    [
        (["/x/bin/laneway", "jobs"], "show 5", "laneway show 5"),
        (["/x/bin/supervisor", "jobs"], "show 5", "supervisor show 5"),
        (["/x/supervisor/__main__.py", "jobs"], "show 5", "supervisor show 5"),
        (["laneway", "jobs", "--home", "a b"], "show 5", "laneway show 5 --home 'a b'"),
        (["laneway", "jobs", "--home=here"], "logs 5", "laneway logs 5 --home here"),
        (["laneway", "enqueue", "x", "--app", "app.py"], "run", "laneway run --app app.py"),
        (["laneway", "retry", "5", "--app", "app.py"], "retry 5", "laneway retry 5 --app app.py"),
        (["laneway", "run", "--app", "app.py", "--home", "h"], "show 5", "laneway show 5 --home h"),
        ([], "status", "supervisor status"),
    ],
)
def test_a_command_is_said_as_this_one_was_typed(argv: list[str], words: str, said: str) -> None:
    assert command(words, argv) == said


def test_the_last_value_of_an_option_counts() -> None:
    assert given_value("--home", ["x", "--home", "a", "--home=b"]) == "b"
    assert given_value("--home", ["x", "--home"]) is None


def test_the_way_to_start_a_supervisor_always_names_an_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LANEWAY_APP", raising=False)
    assert run(["vault_sync"], ["laneway"]) == "laneway run --app supervisor.lanes"
    assert run(["vault_sync", "mine"], ["laneway"]) == "laneway run --app FILE.py"
    assert run(["mine"], ["laneway", "--app", "a.py"]) == "laneway run --app a.py"
    (tmp_path / "supervisor.toml").write_text('home = "h"\n')
    assert run(["mine"], ["laneway"]) == "laneway run --app FILE.py"
    (tmp_path / "supervisor.toml").write_text('app = "a.py"\n')
    assert run(["mine"], ["laneway"]) == "laneway run"


def test_a_hint_can_be_followed_word_by_word(shell: Shell) -> None:
    shell.write("squares.py", SQUARES)
    queued = shell("enqueue", "square", "{}", "--app", "squares.py", "--home", "some where")
    words = queued.err.strip().rpartition(": ")[2]
    assert words == "supervisor run --home 'some where' --app squares.py"
    ran = subprocess.run(
        f"{sys.executable} -P -m {words} --until-idle",
        shell=True,
        cwd=shell.folder,
        env=shell.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "FAILED: supervisor show 1 --home 'some where'\n" in ran.stdout
    assert shell("show", "1", "--home", "some where").out.endswith(
        "next     supervisor show 1 --full --home 'some where'\n"
        "         supervisor retry 1 --home 'some where'\n"
    )
