"""Where a project and its store are. Light, because every command asks this first.

A project is the nearest folder upwards that holds `supervisor.toml` or `.supervisor/`.
This is the only file that reads the environment for settings; deeper code receives values.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from supervisor.errors import SettingsRefused

FILE: Final = "supervisor.toml"
HOME: Final = ".supervisor"


def environment(given: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Return the environment that settings may come from."""
    return os.environ if given is None else given  # noqa: TID251 - this is the door


def wants_traceback() -> bool:
    """Tell whether LANEWAY_DEBUG asks for tracebacks instead of one line."""
    return bool(environment().get("LANEWAY_DEBUG"))


def project_folder(cwd: Path) -> Path:
    """Return the nearest folder upwards that holds settings or a store, else `cwd` itself."""
    for folder in (cwd, *cwd.parents):
        # os.path also answers where a folder above may not be looked into.
        if os.path.lexists(folder / FILE) or os.path.isdir(folder / HOME):  # noqa: PTH112
            return folder
    return cwd


def absolute(folder: Path, path: str | None) -> Path | None:
    """Return `path` as seen from `folder`, `~` included; None where nothing was said."""
    if not path:
        return None
    return Path(os.path.normpath(folder / os.path.expanduser(path)))  # noqa: PTH111 - "~nobody" stays a name


def said_home(flag: str | None, cwd: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the home that the command line or LANEWAY_HOME names; an empty one names none."""
    return absolute(cwd, flag or environ.get("LANEWAY_HOME"))


def find_home(
    flag: str | None = None, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> Path:
    """Return the store's folder alone, for commands that need nothing else of the settings.

    Raises:
        SettingsRefused: the settings file has a say and cannot be read, or its home is no text.
    """
    cwd = cwd or Path.cwd()
    if (said := said_home(flag, cwd, environment(environ))) is not None:
        return said
    folder = project_folder(cwd)
    if not os.path.lexists(folder / FILE):
        return folder / HOME
    from supervisor.settings.file import SettingsFile  # noqa: PLC0415 - a TOML parser nobody else waits for

    file = SettingsFile(folder / FILE)
    home = absolute(folder, file.text("home")) or folder / HOME
    if file.complaints:
        raise SettingsRefused(file.complaints)
    return home


def names_app(cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> bool:
    """Tell whether LANEWAY_APP or the settings file names an application, so that no flag is needed."""
    if environment(environ).get("LANEWAY_APP"):
        return True
    path = project_folder(cwd or Path.cwd()) / FILE
    if not os.path.lexists(path):
        return False
    from supervisor.settings.file import SettingsFile  # noqa: PLC0415 - as above

    return SettingsFile(path).text("app") is not None
