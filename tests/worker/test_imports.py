"""The child cannot reach the store: what its entry imports, read from the source and seen at run time."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    "landing",
    "policies",
    "supervisor",
    "sqlite3",
    "_sqlite3",
    "apsw",
    "aiosqlite",
    "dbm",
    "subprocess",
}


def imported(file, package):
    """Yield every module named by an import statement anywhere in a file, functions included."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] + "." if node.level else ""
            module = (base + (node.module or "")).rstrip(".")
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) == "__import__"
        ):
            yield "__import__"


def source_of(root, module):
    path = root.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def reachable(root, entry):
    """Return every module that `entry` reaches over any number of hops, each with the way there."""
    ways, queue = {entry: [entry]}, [entry]
    while queue:
        module = queue.pop()
        file = source_of(root, module)
        if file is None:
            continue
        package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        parents = [module.rsplit(".", n)[0] for n in range(1, module.count(".") + 1)]
        for name in (*imported(file, package), *parents):
            if name not in ways:
                ways[name] = [*ways[module], name]
                queue.append(name)
    return ways


def test_nothing_reachable_from_the_worker_entry_can_open_a_store():
    """C159: at module level or inside a function, directly or over hops."""
    ways = reachable(ROOT, "worker.__main__")
    for name, way in ways.items():
        assert name.partition(".")[0] not in FORBIDDEN, " -> ".join(way)
    assert {"worker.batches.cutter", "worker.guard", "ipc.channel", "ipc.appspec", "msgspec"} <= ways.keys()


@pytest.mark.parametrize(
    "planted",
    [
        "import sqlite3",
        "def f():\n    from sqlite3 import connect",
        "def f():\n    class A:\n        def g(self):\n            import landing.connect",
        "from . import hop",
        "from .hop import x",
        "def f():\n    from worker.hop import x",
        "try:\n    import worker.hop as h\nexcept ImportError:\n    pass",
    ],
)
def test_the_walk_finds_what_is_planted(tmp_path, planted):
    """The ratchet itself: it looks into functions and across hops."""
    for name, text in {
        "__init__": "",
        "__main__": "import worker.one",
        "one": planted,
        "hop": "import landing",
    }.items():
        (tmp_path / "worker").mkdir(exist_ok=True)
        (tmp_path / "worker" / f"{name}.py").write_text(text)
    names = {name.partition(".")[0] for name in reachable(tmp_path, "worker.__main__")}
    assert names & FORBIDDEN


UNMEASURED = {"COVERAGE_PROCESS_START": "", "COVERAGE_PROCESS_CONFIG": ""}
"""A measured child would load the measuring tool, which uses SQLite itself."""

LOOK = """
    import sys
    @app.lane("modules")
    def modules(job, ctx):
        yield from ((name,) for name in sorted(sys.modules))
    @app.read
    def everything(db): ...
    app.migration(1, "CREATE TABLE t (x)")
    @modules.lander
    def land(db, job, rows): ...
"""


def test_a_real_worker_with_an_app_has_no_store_and_no_screen(spawn, rows):
    """Promise 4, C156: neither landing nor SQLite nor rich is loaded, after a whole job."""
    worker = spawn(LOOK, **UNMEASURED)
    loaded = {name.partition(".")[0] for (name,) in rows(worker.job("modules"))}
    assert {"app_under_test", "supervisor", "worker", "ipc"} <= loaded
    assert not loaded & {
        "landing",
        "sqlite3",
        "_sqlite3",
        "rich",
        "psutil",
        "subprocess",
        "asyncio",
        "logging",
    }


def test_a_child_whose_app_imports_nothing_has_little_loaded(start, tmp_path, rows):
    """Import time counts: no parser of options, no logging, nothing of ours that a child does not need."""
    (tmp_path / "bare.py").write_text(
        "import sys\n"
        "class Lane:\n"
        "    payload = rows = None\n"
        "    def compute(self, job, ctx): yield from ((name,) for name in sorted(sys.modules))\n"
        "class app:\n"
        "    lanes = {'modules': Lane()}\n"
    )
    worker = start(specs=["bare.py"], **UNMEASURED)
    worker.next()
    loaded = {name.partition(".")[0] for (name,) in rows(worker.job("modules"))}
    assert {"msgspec", "worker", "ipc", "bare"} <= loaded
    assert not loaded & {
        "policies",
        "supervisor",
        "landing",
        "rich",
        "argparse",
        "logging",
        "subprocess",
        "pathlib",
    }
    assert not loaded & {
        "socket",
        "selectors",
        "threading",
        "traceback",
        "hashlib",
        "json",
        "tempfile",
        "asyncio",
    }
