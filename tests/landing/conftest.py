import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from tests.landing.stand import Stand

settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("furnished") / "home"
    Stand(home).furnish()
    return home


@pytest.fixture
def stand(furnished: Path, home: Path) -> Stand:
    shutil.copytree(furnished, home)
    return Stand(home)
