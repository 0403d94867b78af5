from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ipc.kept import PROGRAM, Kept, keeping


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """A guardian, at the end of which nothing may be left of what it kept."""
    with keeping(tmp_path, PROGRAM, monkeypatch) as kept:
        yield kept


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """The same where being measured would take too long."""
    with keeping(tmp_path, "as shipped", monkeypatch) as kept:
        yield kept
