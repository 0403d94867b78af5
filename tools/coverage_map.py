"""docs/coverage.md: which tests prove which row.

    tests/**/test_*.py --docstrings name ids--> proofs --> the table's last two columns

`write` puts the columns in, `prove ID` runs the tests of one row. The suite calls
`complaints` to hold the document to the tests.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "coverage.md"
ROW = re.compile(r"^\| ([ABCUK]\d+) \| ([^|]*) \|[^|]*\|[^|]*\|$")
ID = re.compile(r"\b[ABCUK]\d+\b")
FIELD = re.compile(r"\bFIELD [A-J]\d+")
"""Field reports have numbers of their own, which are no rows."""

Proofs = dict[str, list[str]]
"""Row id -> pytest node ids, without their parameters, in the order of the files."""


def proofs_in(tests: Path) -> Proofs:
    """Collect the ids that the docstrings of the tests under `tests` name."""
    proofs: Proofs = {}
    for file in sorted(tests.rglob("test_*.py")):
        for node, docstring in tests_of(ast.parse(file.read_text("utf-8"))):
            for row in dict.fromkeys(ID.findall(FIELD.sub("", docstring))):
                proofs.setdefault(row, []).append(f"{file.relative_to(tests.parent)}::{node}")
    return proofs


def tests_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of each test of a file."""
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for member in members:
            if isinstance(member, ast.FunctionDef) and member.name.startswith("test_"):
                yield prefix + member.name, ast.get_docstring(member) or ""


def render(text: str, proofs: Proofs) -> str:
    """Return the document with the last two columns of every row written from `proofs`."""
    return "".join(render_line(line, proofs) + "\n" for line in text.splitlines())


def render_line(line: str, proofs: Proofs) -> str:
    """Write one row's tests and command; any other line stays as it is."""
    if (row := ROW.match(line)) is None:
        return line
    tests = "<br>".join(f"`{node}`" for node in proofs.get(row[1], []))
    return f"| {row[1]} | {row[2]} | {tests} | `make prove ROW={row[1]}` |"


def complaints(text: str, proofs: Proofs) -> list[str]:
    """Say what is wrong with the document: rows without a test, a stale table."""
    rows = [row[1] for line in text.splitlines() if (row := ROW.match(line))]
    found = [f"docs/coverage.md: no test names {row} in its docstring" for row in rows if row not in proofs]
    if render(text, proofs) != text:
        found.append("docs/coverage.md is stale: make coverage-map")
    return found


def main(arguments: list[str]) -> int:
    """Do what the command line says and return its exit code."""
    proofs = proofs_in(ROOT / "tests")
    match arguments:
        case ["write"]:
            DOCUMENT.write_text(render(DOCUMENT.read_text("utf-8"), proofs), "utf-8")
            return 0
        case ["prove", row] if row in proofs:
            return subprocess.run(
                [sys.executable, "-m", "pytest", *proofs[row]], cwd=ROOT, check=False
            ).returncode
        case ["prove", row]:
            print(f"error: no test names {row!r}; docs/coverage.md lists the rows", file=sys.stderr)
        case _:
            print("usage: python -m tools.coverage_map write | prove ROW", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
