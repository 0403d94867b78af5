from pathlib import Path

import pytest

from tests.cli.shell import SQUARES, Shell
from tests.supervisor.serving import MEASURED


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def project(shell: Shell) -> Shell:
    """A folder with an application and the settings that name it."""
    shell.write("squares.py", SQUARES)
    shell.write("supervisor.toml", f'app = "squares.py"\nmax_workers = 2\n[defaults]\n{MEASURED}')
    return shell
