"""Why a job behind the shield was refused, in one sentence at the end of the error."""

import pytest

from supervisor.told.shield import why_refused

HOME = "/notes/.supervisor"
DENIED = '13, "Permission denied", '
NOTHING = ""
CLOSES = f"; shield = true closes {HOME} to this kind"
STORE = f"{CLOSES}: ctx.read answers from the store"
BESIDE = f"{CLOSES}; right in the folders above it nothing can be made or removed"
SIGNALS = "; shield = true lets this kind signal only what it has started"
OF_THE_SYSTEM = ["PermissionError", "OSError", "Exception", "BaseException"]
OF_SQLITE = ["sqlite3.OperationalError", "sqlite3.DatabaseError", "sqlite3.Error", "Exception"]
OF_A_PROGRAM = ["subprocess.CalledProcessError", "subprocess.SubprocessError", "Exception"]


@pytest.mark.parametrize(
    ("message", "bases", "why"),
    [
        (f'{DENIED}"{HOME}/store.db"', OF_THE_SYSTEM, STORE),
        (f'{DENIED}"/real{HOME}/store.db"', OF_THE_SYSTEM, STORE),
        (f'18, "Invalid cross-device link", "{HOME}/store.db"', OF_THE_SYSTEM, STORE),
        (f'1, ["cat", "{HOME}/store.db"]', OF_A_PROGRAM, STORE),
        (f'{DENIED}"/notes/new.txt"', OF_THE_SYSTEM, BESIDE),
        (f'{DENIED}"new.txt"', OF_THE_SYSTEM, BESIDE),
        ("unable to open database file", OF_SQLITE, BESIDE),
        ('1, "Operation not permitted"', OF_THE_SYSTEM, SIGNALS),
        ('1, "Operation not permitted", "/notes/x"', OF_THE_SYSTEM, BESIDE),
        (f'2, "No such file or directory", "{HOME}/nothing"', OF_THE_SYSTEM, NOTHING),
        ('28, "No space left on device"', OF_THE_SYSTEM, NOTHING),
        ("network = false: no connection to 192.0.2.1:9", OF_THE_SYSTEM, NOTHING),
        ("no such table: notes", OF_SQLITE, NOTHING),
        ("13, a number", ["ValueError", "Exception"], NOTHING),
    ],
)
def test_a_refusal_is_told_by_what_was_refused(message: str, bases: list[str], why: str) -> None:
    """C155, U14: only what the shield may have made is called its own."""
    assert why_refused(message, bases, (HOME, f"/real{HOME}")) == why
    assert why_refused(message, bases, ()) == NOTHING, "no shield, no reason"
