"""The project holds to its own rules: sizes of rooms, dependencies, documents, nothing of one machine."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import coverage_map

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("supervisor", "worker", "landing", "ipc", "policies")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FILE_LIMIT = 300
FUNCTION_LIMIT = 40
MACHINE_PATH = re.compile(r"/(?:root|work|home/\w+|Users/\w+)/")
INDEX_ADDRESS = re.compile(r"py(?:pi\.org|thonhosted)|index-ur[l]|file:/[/]")


def room_files() -> Iterator[Path]:
    for room in ROOMS:
        yield from (ROOT / room).rglob("*.py")


def project_files() -> list[Path]:
    """Every file that is or would be committed."""
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git checkout: nothing says which files are the project's")
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def documents() -> list[Path]:
    return [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def length_without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        lines -= node.body[0].end_lineno - node.body[0].lineno + 1
    return lines


def imports_of(files: Iterator[Path]) -> set[str]:
    """The top-level names of the third-party packages that these files import."""
    names = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - set(ROOMS)


def required(specifier: str) -> str:
    return re.split(r"[><=!~\[; ]", specifier)[0].replace("-", "_").lower()


def test_no_room_file_is_longer_than_its_limit() -> None:
    lengths = {file: len(file.read_text("utf-8").splitlines()) for file in room_files()}
    assert lengths
    assert {str(file.relative_to(ROOT)): n for file, n in lengths.items() if n > FILE_LIMIT} == {}


def test_no_function_of_a_room_is_longer_than_its_limit() -> None:
    long = {}
    for file in room_files():
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = length_without_docstring(node)
                if length > FUNCTION_LIMIT:
                    long[f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"] = length
    assert long == {}


def test_every_room_says_that_it_is_typed() -> None:
    assert [room for room in ROOMS if not (ROOT / room / "py.typed").is_file()] == []


def test_the_runtime_dependencies_are_exactly_what_the_rooms_import() -> None:
    declared = {required(one) for one in PROJECT["project"]["dependencies"]}
    assert declared == imports_of(room_files())


def test_every_dependency_is_pinned() -> None:
    pinned = {required(line) for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()}
    groups = PROJECT["dependency-groups"].values()
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    wanted += [one for group in groups for one in group if isinstance(one, str)]
    assert {required(one) for one in wanted} - pinned == set()


def test_no_file_holds_a_path_of_one_machine_or_an_index_address() -> None:
    files = project_files()
    assert ROOT / "pyproject.toml" in files
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for file in files
        for number, line in enumerate(file.read_bytes().decode("utf-8", "replace").splitlines(), 1)
        if MACHINE_PATH.search(line) or INDEX_ADDRESS.search(line)
    ]
    assert found == []


def test_links_between_documents_lead_somewhere() -> None:
    targets = [
        (document, target)
        for document in documents()
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text("utf-8"))
        if not re.match(r"[a-z]+:", target)
    ]
    assert targets
    assert [f"{d.name} -> {t}" for d, t in targets if not (d.parent / t).exists()] == []


def test_files_that_documents_name_exist() -> None:
    """A document that names a file of a room by its path is wrong when the file has gone."""
    pattern = re.compile(rf"`((?:{'|'.join((*ROOMS, 'tests', 'tools', 'docs'))})/[\w/.-]*)`")
    named = [(d, path) for d in documents() for path in pattern.findall(d.read_text("utf-8"))]
    assert named
    assert [f"{d.name}: {path}" for d, path in named if not (ROOT / path).exists()] == []


def test_make_targets_that_documents_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {
        (document.name, target)
        for document in documents()
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", document.read_text("utf-8"), re.MULTILINE)
    }
    assert {("README.md", "run"), ("README.md", "test")} <= named
    assert {one for one in named if one[1] not in targets} == set()


def test_the_commands_of_the_readme_are_the_commands_of_the_program() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    table = text[text.index("| command | does |") : text.index("| exit code |")]
    named = set(re.findall(r"^\| `([a-z]+)", table, re.MULTILINE))
    shown = subprocess.run(
        [sys.executable, "-c", "from supervisor.cli import main; main()", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert {name for name in named if not re.search(rf"\b{name}\b", shown)} == set()


def test_every_row_of_the_coverage_map_is_proven_by_tests_that_exist() -> None:
    text = coverage_map.DOCUMENT.read_text("utf-8")
    assert coverage_map.complaints(text, coverage_map.proofs_in(ROOT / "tests")) == []


def test_the_coverage_map_names_what_is_unproven_and_what_is_stale() -> None:
    text = "| C150 | frames | | |\n| C151 | messages | | |\n"
    assert coverage_map.complaints(text, {"C150": ["tests/test_a.py::test_b"]}) == [
        "docs/coverage.md: no test names C151 in its docstring",
        "docs/coverage.md is stale: make coverage-map",
    ]


def test_the_coverage_map_reads_ids_from_docstrings_of_tests_only(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    source = 'def helper():\n    "C1"\n\ndef test_it():\n    "C150, K3: it holds."\n    "C2"\n'
    (tests / "test_a.py").write_text(source, "utf-8")
    node = "tests/test_a.py::test_it"
    assert coverage_map.proofs_in(tests) == {"C150": [node], "K3": [node]}
