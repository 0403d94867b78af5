"""Which application, and where its import broke."""

import sys
from textwrap import dedent

import pytest

from ipc.appspec import load_app, split_spec
from ipc.errors import AppError


@pytest.fixture(autouse=True)
def clean_imports(monkeypatch, tmp_path):
    """Each test in its own folder, with its own import state."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        return file

    return write


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("pkg.mod", ("pkg.mod", "app")),
        ("pkg.mod:it", ("pkg.mod", "it")),
        ("a/b.py", ("a/b.py", "app")),
        ("a/b.py:it", ("a/b.py", "it")),
        ("odd:folder/b.py", ("odd:folder/b.py", "app")),
        ("odd:folder/b.py:it", ("odd:folder/b.py", "it")),
    ],
)
def test_a_spec_is_a_source_and_a_name(spec, parts):
    assert split_spec(spec) == parts


def test_a_file_is_loaded_under_its_stem_and_sees_its_neighbours(write, tmp_path):
    write(
        "deep/my_app_one.py",
        "import neighbour_one\nfrom beside_one import x\napp = (neighbour_one.x, x)\nother = 3\n",
    )
    write("deep/neighbour_one.py", "x = 1\n")
    write("beside_one.py", "x = 2\n")
    assert load_app("deep/my_app_one.py") == (1, 2)
    assert load_app(f"{tmp_path}/deep/my_app_one.py:other") == 3
    assert sys.modules["my_app_one"].app == (1, 2)
    assert sys.path[-2:] == [str(tmp_path / "deep"), str(tmp_path)]


def test_a_module_is_found_in_the_current_folder_last(write):
    write("pkg_two/mod.py", "app = 'mine'\n")
    write("pkg_two/__init__.py", "")
    write("json.py", "app = 'shadow'\n")
    assert load_app("pkg_two.mod") == "mine"
    with pytest.raises(AppError, match="has no 'app'"):
        load_app("json")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("x = 1\nimport no_such_module_x\n", 2, "ModuleNotFoundError: No module named 'no_such_module_x'"),
        ("x = 1\n\nraise ValueError('a\\nb')\n", 3, "ValueError: a b"),
        ("x = (\n", 1, "SyntaxError"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("from supervisor import App\n\n\napp = App('bad name!')\n", 4, "ValueError: an app's name"),
        ("import json\njson.loads('{')\n", 2, "JSONDecodeError"),
        (
            """
            class Odd(Exception):
                def __str__(self): raise RuntimeError
            raise Odd
            """,
            4,
            "Odd",
        ),
    ],
)
def test_a_broken_file_says_where(write, tmp_path, text, line, says):
    """K13: file and line in the user's own code, on one line, also when a library raised."""
    file = write("broken_app.py", text)
    with pytest.raises(AppError) as caught:
        load_app("broken_app.py")
    error = caught.value
    assert (error.file, error.line) == (str(file), line)
    assert says in error.message
    assert str(error).endswith(f" ({file}:{line})")
    assert "\n" not in str(error)
    assert "broken_app" not in sys.modules, "a second try loads it afresh"


def test_a_broken_import_of_an_import_is_named_where_it_broke(write):
    write("outer_app.py", "import inner_broken\n")
    inner = write("inner_broken.py", "\n\n1 / 0\n")
    with pytest.raises(AppError) as caught:
        load_app("outer_app.py")
    assert (caught.value.file, caught.value.line) == (str(inner), 3)


def test_what_is_not_there_is_said_plainly(tmp_path):
    with pytest.raises(AppError, match=r"there is no module 'no_such_app'; a file is given as PATH\.py"):
        load_app("no_such_app")
    with pytest.raises(AppError, match=r"there is no module 'no_such\.app'"):
        load_app("no_such.app:x")
    with pytest.raises(AppError, match=f"there is no file {tmp_path}/nope.py"):
        load_app("nope.py")
    with pytest.raises(AppError, match="there is no file"):
        load_app(f"{tmp_path}.py")


def test_a_missing_name_is_said_with_the_way_to_name_another(write):
    file = write("nameless_app.py", "application = 1\n")
    with pytest.raises(
        AppError, match=r"it has no 'app'; another name is given as nameless_app\.py:NAME"
    ) as caught:
        load_app("nameless_app.py")
    assert caught.value.file == str(file)


@pytest.mark.parametrize("name", ["json", "worker", "supervisor", "pytest"])
def test_a_file_may_not_take_the_name_of_another_module(write, name):
    """It would be found in the other's place by everybody who imports that name."""
    write(f"{name}.py", "app = 1\n")
    with pytest.raises(AppError, match="rename the file"):
        load_app(f"{name}.py")
