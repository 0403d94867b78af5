from pathlib import Path

import pytest

from tests.cli.shell import SQUARES, Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def project(shell: Shell) -> Shell:
    """A folder with an application and the settings that name it."""
    shell.write("squares.py", SQUARES)
    shell.write("supervisor.toml", 'app = "squares.py"\nmax_workers = 2\n')
    return shell
