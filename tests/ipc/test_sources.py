"""Which files of an application a process has loaded, and whether two have loaded the same (K13)."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from msgspec import ValidationError

from ipc import sources
from ipc.messages import SOURCE_BYTES, SOURCES_LIMIT, Ready, encoder, up_decoder
from ipc.sources import LARGE, Own, Source, folders_of, note, pack, read, theirs

Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Write a file and have it be loaded as a module of some name."""
    loaded: list[str] = []

    def load(path: str, text: str = "", name: str = "") -> ModuleType:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        name = name or f"theirs_{file.stem}"
        module = ModuleType(name)
        module.__file__ = str(file)
        sys.modules[name] = module
        loaded.append(name)
        return module

    yield load
    for name in loaded:
        del sys.modules[name]


def test_what_lies_in_the_folder_of_an_application_is_its_own(load: Load, tmp_path: Path) -> None:
    load("app.py", "one")
    load("package/deep/part.py", "two")
    found = note([str(tmp_path)])
    assert [Path(path).relative_to(tmp_path.resolve()) for path in found] == [
        Path("app.py"),
        Path("package/deep/part.py"),
    ]
    assert {one.size for one in found.values()} == {3}
    assert len({one.digest for one in found.values()}) == 2


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("lib/python3/site-packages/installed.py", ""),
        ("lib/python3/dist-packages/installed.py", ""),
        ("prefix/lib/own.py", ""),
        ("landing/planted.py", "landing.planted"),
        ("json/planted.py", "json.planted"),
    ],
)
def test_what_is_not_the_users_is_left_out(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, name: str
) -> None:
    """Installed packages, a virtual environment in the folder, our rooms and Python's own."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    load(path, "x", name)
    load("app.py")
    assert [Path(one).name for one in theirs([str(tmp_path)])] == ["app.py"]


def test_a_folder_inside_of_the_virtual_environment_is_still_the_users(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    load("project/app.py")
    assert [Path(one).name for one in theirs([str(tmp_path / "project")])] == ["app.py"]
    assert [Path(one).name for one in theirs([str(tmp_path)])] == ["app.py"]


def test_modules_of_any_nature_are_looked_at_without_running_their_code(load: Load, tmp_path: Path) -> None:
    """A lazy module stays unloaded, whatever stands in for a module is asked nothing."""

    class Trap(ModuleType):
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(f"{name} was asked for")

    (tmp_path / "lazy.py").write_text("raise AssertionError('it was loaded')")
    spec = importlib.util.spec_from_file_location("theirs_lazy", tmp_path / "lazy.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lazy)
    load("odd.py").__file__ = None  # as a namespace has it
    load("odder.py").__file__ = 3  # type: ignore[assignment]
    for name, stands_in in {
        "theirs_trap": Trap("theirs_trap"),
        "theirs_none": None,
        "theirs_lazy": lazy,
    }.items():
        sys.modules[name] = stands_in  # type: ignore[assignment]
    try:
        assert [Path(one).name for one in theirs([str(tmp_path)])] == ["lazy.py"]
    finally:
        for name in ("theirs_trap", "theirs_none", "theirs_lazy"):
            del sys.modules[name]


def test_a_file_has_one_name_however_it_is_reached(load: Load, tmp_path: Path) -> None:
    """A child's working folder has no links in it, its supervisor's may have."""
    load("real/app.py")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    sys.modules["theirs_app"].__file__ = str(tmp_path / "link" / "app.py")
    real = str((tmp_path / "real" / "app.py").resolve())
    assert list(theirs([str(tmp_path / "link")])) == [real]
    sys.modules["theirs_app"].__file__ = str(tmp_path / "real" / "app.py")
    assert list(theirs([str(tmp_path / "link")])) == [real]


def test_what_cannot_be_read_is_nobodys_concern(load: Load, tmp_path: Path) -> None:
    """A pipe in the place of a file would hold up whoever opens it."""
    load("app.py")
    os.mkfifo(tmp_path / "pipe.py")
    for name in ("gone.py", "pipe.py", "app.py/inside.py", "no\0name.py"):
        load("other.py", name=f"theirs_{name}").__file__ = str(tmp_path / name)
    load("folder/__init__.py").__file__ = str(tmp_path / "folder")
    (tmp_path / "other.py").unlink()
    assert [Path(one).name for one in note([str(tmp_path)])] == ["app.py"]


def test_a_large_file_counts_by_its_size_and_time(tmp_path: Path) -> None:
    """A library in the folder is not read by every child."""
    file = tmp_path / "library.so"
    file.write_bytes(b"a" * (LARGE + 1))
    before = read(str(file))
    os.utime(file, ns=(1, 1))
    touched = read(str(file))
    file.write_bytes(b"b" * (LARGE + 1))
    os.utime(file, ns=(1, 1))
    other = read(str(file))
    assert before is not None
    assert touched is not None
    assert before.digest != touched.digest
    assert touched == other


def test_files_are_told_up_to_a_limit(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "SOURCES_LIMIT", 3)
    for n in range(5):
        load(f"part{n}.py")
    assert [Path(one).name for one in note([str(tmp_path)])] == ["part0.py", "part1.py", "part2.py"]


def test_a_file_that_changed_while_it_was_loaded_agrees_with_nothing(load: Load, tmp_path: Path) -> None:
    """It was read before or after, nobody knows; one that changed before or will change is known."""
    load("app.py")
    path = str((tmp_path / "app.py").resolve())
    changed = os.stat(path).st_ctime_ns
    for during in ((0, 0), (changed, changed + 9), (changed - 9, changed - 1)):
        found = read(path, during)
        assert found is not None
        assert found.digest
    own = Own(note([str(tmp_path)], (changed - 9, changed)))
    assert own.differing(pack({path: found})) == [path]
    assert own.changed() == []


def test_only_what_both_have_loaded_is_compared() -> None:
    """K13: imports that depend on where they are made are no difference."""
    one, other = Source(b"1" * 8, 1, 1), Source(b"2" * 8, 1, 1)
    own = Own({"/a": one, "/b": one, "/only here": one})
    assert own.differing(b"") == ()
    assert own.differing(pack({"/a": one, "/b": one, "/only there": other})) == []
    assert own.differing(pack({"/only there": other})) == []
    assert own.differing(pack({"/a": other, "/b": one, "/c": other})) == ["/a"]
    assert own.differing(pack({"/b": other, "/a": other})) == ["/b", "/a"]
    assert own.differing(pack({"/a": one})) == [], "the answer is not that of the last time"


@pytest.mark.parametrize("torn", [1, 8, 15, 17])
def test_what_a_child_says_of_its_sources_may_be_anything(torn: int) -> None:
    """C150: torn or made up, it is no more than a difference."""
    own = Own({"/a": Source(b"1" * 8, 1, 1)})
    assert own.differing(os.urandom(torn)) == []
    assert own.differing(pack({"/a": Source(b"1" * 8, 1, 1)})[:torn]) == []


def test_more_sources_than_are_ever_told_are_refused() -> None:
    """C150: before they are looked at."""
    most = Ready(1, [], b"s" * (SOURCES_LIMIT * SOURCE_BYTES))
    assert up_decoder.decode(encoder.encode(most)) == most
    with pytest.raises(ValidationError):
        up_decoder.decode(encoder.encode(Ready(1, [], b"s" * (SOURCES_LIMIT * SOURCE_BYTES + 1))))


def test_a_file_has_changed_when_there_is_something_else_in_it(load: Load, tmp_path: Path) -> None:
    load("app.py", "one")
    file = tmp_path / "app.py"
    own = Own(note([str(tmp_path)]))
    os.utime(file, ns=(1, 1))
    assert own.changed() == [], "touched"
    file.unlink()
    assert own.changed() == [], "an editor is about to put the new one there"
    file.write_text("two")
    assert own.changed() == [str(file.resolve())]
    assert own.changed() == [str(file.resolve())], "it stays so"
    file.write_text("one")
    assert own.changed() == [], "until it is undone"


def test_a_process_loads_a_file_once_whatever_becomes_of_it(load: Load, tmp_path: Path) -> None:
    load("app.py", "one")
    first = note([str(tmp_path)])
    (tmp_path / "app.py").write_text("two")
    assert note([str(tmp_path)]) == first


def test_the_folders_are_where_children_work_and_where_the_files_are() -> None:
    specs = ["supervisor.lanes:app", "/there/app.py:mine", "package.module"]
    assert folders_of(specs, "/here") == ["/here", "/there"]
