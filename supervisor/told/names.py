"""Who owns our five import names: PyPI has another `supervisor`, and anybody may have a `worker.py`.

Nothing here relies on what is inside the modules, since they may be somebody else's.
"""

from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROOMS: Final = ("supervisor", "worker", "landing", "ipc", "policies")
ROOT: Final = Path(__file__).resolve().parents[2]
REMEDY: Final = "pip uninstall supervisor, then pip install --force-reinstall laneway"


def strangers() -> Iterator[str]:
    """Yield a line for each of our names that leads elsewhere, and for a distribution that overwrites one."""
    for name in ROOMS:
        found = origin(name)
        if found != ROOT / name / "__init__.py":
            yield f"{name!r} leads to {found or 'nothing'}, not to laneway in {ROOT}; rename or remove that"
    try:
        other = version("supervisor")
    except PackageNotFoundError:
        return
    yield f"PyPI's supervisor {other} is installed over laneway's package of the same name; {REMEDY}"


def origin(name: str) -> Path | None:
    """Return the file that `import name` would run, None when there is none."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).resolve() if spec is not None and spec.origin else None


def hidden(folders: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each module in the user's folders that ours hides: theirs are searched last."""
    for folder in dict.fromkeys(one.resolve() for one in folders):
        for name in ROOMS:
            for place in (folder / f"{name}.py", folder / name / "__init__.py"):
                if place.is_file() and folder != ROOT:
                    yield f"{place} is hidden by laneway's own {name!r}; rename it to import it"
