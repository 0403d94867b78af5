"""The shield: closes a folder to a process and to all that it starts, and the supervisor to their signals.

    /  ------>  srv  ------>  notes  ------>  .supervisor      names can be listed, nothing can be opened
    |- usr      |- ftp        |- app.py
    `- tmp      `- www        `- pages                         every right, on each by its inode

Landlock only allows, and what it allows on a directory holds for all that is below. So every entry
beside the way to the folder is allowed, one by one, and the directories on the way are not. That has a
price: a file that is made in one of those directories later, or written anew and renamed into its place,
is closed to the process as well, and it can make, remove or rename nothing there itself. `places` tells
whether they have changed.

A symbolic link is never followed here, since it could lead to the folder; whoever follows it later is
judged by where it leads. A second mount that shows the folder is found; an overlay's layers or FUSE, which
show its files as others, are not. Not covered either: stat and chmod, descriptors that are open already,
hard links and mounts that others make, and what root may do to a raw disk. To root the kernel also shows the
supervisor's environment.
"""

import os
import sys
from errno import ENOSYS
from stat import S_ISDIR, S_ISLNK

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CALLS = {
    CREATE_RULESET: "landlock_create_ruleset",
    ADD_RULE: "landlock_add_rule",
    RESTRICT_SELF: "landlock_restrict_self",
}
ASK_VERSION = 1
PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38

READ_DIR = 1 << 3
ON_FILES = 0b111 | 1 << 14 | 1 << 15 | 1 << 16
"""The rights that mean something on a file: execute, write, read, truncate, ioctl, connect to a socket."""
RIGHTS = (0, 13, 14, 15, 15, 16, 16, 16, 16, 17)
"""How many rights an ABI knows, in the order of their bits: 2 adds moves, 3 truncate, 5 ioctl, 9 sockets."""
SCOPES = 0b11
"""No abstract unix socket and no process outside can be connected to or signalled, from ABI 6 on."""


class Kernel:
    """The system calls, which no library wraps.

    Raises:
        ImportError: this Python has no ctypes.
        OSError: this Python cannot call the system's library.
    """

    def __init__(self) -> None:
        import ctypes  # noqa: PLC0415 - only who is shielded pays for it

        libc = ctypes.CDLL(None, use_errno=True)
        self._syscall, self._prctl = libc.syscall, libc.prctl
        self._syscall.restype = ctypes.c_long
        self._number, self._errno = ctypes.c_long, ctypes.get_errno

    def call(self, number: int, *arguments: int | bytes | None) -> int:
        """Make a system call; bytes are passed by their address."""
        passed = [self._number(one) if isinstance(one, int) else one for one in arguments]
        return self._checked(self._syscall(self._number(number), *passed), CALLS[number])

    def give_up_new_privileges(self) -> None:
        """Have programs gain no rights by set-user-id any more: Landlock wants that of who is not root."""
        one, nothing = self._number(1), self._number(0)
        self._checked(self._prctl(PR_SET_NO_NEW_PRIVS, one, nothing, nothing, nothing), "no_new_privs")

    def _checked(self, result: int, what: str) -> int:
        if result < 0:
            number = self._errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")
        return int(result)


def abi() -> int:
    """Return the version of this kernel's Landlock; 0 where there is none, or where it cannot be called."""
    if sys.platform != "linux":
        return 0
    try:
        return Kernel().call(CREATE_RULESET, None, 0, ASK_VERSION)
    except (ImportError, OSError):
        return 0


def rights(version: int) -> int:
    """Return all file-system rights of an ABI; those of one that is newer than this file stay free."""
    return (1 << RIGHTS[min(version, len(RIGHTS) - 1)]) - 1


def described(version: int) -> str:
    """Say for people what the shield keeps off under an ABI."""
    store = "store" if version >= 3 else "store (but it can be truncated)"
    return f"landlock {version}: {store}{', signals' if version >= 6 else ''}"


def close_off(folder: str) -> str:
    """Close a folder to the calling thread and to all that it starts from now on, for ever.

    Call it while there is one thread only. Directories on the way that this user may not list
    stay closed with all that is in them, but for the way itself.

    Returns:
        What is kept off, for people: "landlock 7: store, signals".

    Raises:
        OSError: it cannot be done; the text says why. The process may have given up new privileges.
    """
    version = abi()
    if not version:
        raise OSError(ENOSYS, "this system has no Landlock, or it is switched off")
    ways, shut = around(os.path.realpath(folder, strict=True))
    kernel = Kernel()
    handled = rights(version)
    attributes = (handled, 0, SCOPES if version >= 6 else 0)
    ruleset = kernel.call(
        CREATE_RULESET, b"".join(one.to_bytes(8, sys.byteorder) for one in attributes), 24, 0
    )
    try:
        root = os.open("/", os.O_PATH)
        allow(kernel, ruleset, root, READ_DIR)
        os.close(root)
        for way in ways:
            allow_beside(kernel, ruleset, way, shut, handled)
        kernel.give_up_new_privileges()
        kernel.call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return described(version)


def allow_beside(kernel: Kernel, ruleset: int, way: str, shut: set[tuple[int, int]], handled: int) -> None:
    """Allow everything in a directory but what is shut, and what cannot be listed or opened."""
    try:
        names = os.listdir(way)
    except OSError:
        return
    for name in names:
        try:
            entry = os.open(os.path.join(way, name), os.O_PATH | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            found = os.fstat(entry)
            if (found.st_dev, found.st_ino) not in shut and not S_ISLNK(found.st_mode):
                allow(kernel, ruleset, entry, handled if S_ISDIR(found.st_mode) else handled & ON_FILES)
        finally:
            os.close(entry)


def allow(kernel: Kernel, ruleset: int, entry: int, granted: int) -> None:
    """Add a rule: these rights on what the descriptor stands for, and on all below."""
    rule = granted.to_bytes(8, sys.byteorder) + entry.to_bytes(4, sys.byteorder)
    kernel.call(ADD_RULE, ruleset, PATH_BENEATH, rule, 0)


def places(folder: str) -> tuple[tuple[int, int, int], ...]:
    """Return (st_dev, st_ino, st_mtime_ns) of each directory on the way to a folder, without the folder.

    They differ once an entry beside the way has come, gone or been replaced: ask before the shield is
    put up and compare later. Empty where there is nothing to look at.
    """
    if sys.platform != "linux":
        return ()
    try:
        ways, _ = around(os.path.realpath(folder, strict=True))
        stats = [os.stat(way) for way in ways]
    except OSError:
        return ()
    return tuple((one.st_dev, one.st_ino, one.st_mtime_ns) for one in stats)


def around(folder: str) -> tuple[list[str], set[tuple[int, int]]]:
    """Return the directories on the ways to a folder that exist, and what must not be allowed in them.

    The latter is known by device and inode, because a file system may take two spellings for one name.
    """
    closed = shown_at(folder, mount_of(folder), mount_table())
    stats = {path: os.stat(path) for path in closed | leading_to(closed) if os.path.exists(path)}
    shut = {(one.st_dev, one.st_ino) for one in stats.values()}
    return sorted(stats.keys() - closed), shut


def leading_to(closed: set[str]) -> set[str]:
    """Return every directory above closed paths that is not in one of them."""
    above = set()
    for path in closed:
        parent = path
        while parent != "/":
            parent = os.path.dirname(parent)
            above.add(parent)
    return {path for path in above if not any(within(path, one) for one in closed)}


def shown_at(folder: str, mount: bytes, table: bytes) -> set[str]:
    """Return every path by which the mounts of a table (/proc/self/mountinfo) show a folder, or a part of it.

    Args:
        folder: a real path.
        mount: the number of the mount that it is reached by.
        table: the mounts that can be reached; its own may be missing, in a changed root.
    """
    found = {folder}
    lines = [line.split(b" ", 5) for line in table.split(b"\n") if line]
    for _, _, device, root, at, *_ in (line for line in lines if line[0] == mount):
        inside = joined(unescaped(root), below(folder, unescaped(at)))
        for line in (line for line in lines if line[2] == device):
            top, point = unescaped(line[3]), unescaped(line[4])
            if within(inside, top):
                found.add(joined(point, below(inside, top)))
            elif within(top, inside):
                found.add(point)
    return found


def mount_of(path: str) -> bytes:
    """Return the number of the mount by which a path is reached."""
    fd = os.open(path, os.O_PATH)
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
            return next(line.split()[1] for line in file if line.startswith(b"mnt_id:"))
    finally:
        os.close(fd)


def mount_table() -> bytes:
    """Return the kernel's list of mounts."""
    with open("/proc/self/mountinfo", "rb") as file:
        return file.read()


def unescaped(field: bytes) -> str:
    """Return a path of the table: blanks, newlines and backslashes are written as octal numbers there."""
    plain = field.decode("unicode_escape").encode("latin-1") if b"\\" in field else field
    return os.fsdecode(plain)


def within(path: str, top: str) -> bool:
    """Tell whether a path is `top` or below it."""
    return f"{path}/".startswith(f"{top.rstrip('/')}/")


def below(path: str, top: str) -> str:
    """Return what follows `top` in a path within it: nothing, or a slash and more."""
    return path[len(top.rstrip("/")) :].rstrip("/")


def joined(top: str, rest: str) -> str:
    """Return the path of `rest`, which `below` gave, below `top`."""
    return f"{top.rstrip('/')}{rest}" or "/"


def sandboxed(argv: list[str], folder: str) -> list[str]:
    """Return a command as macOS runs it with a folder closed to it and to all that it starts.

    What is above the folder cannot be renamed or removed, since there it is known by its path.
    """
    real = os.path.realpath(folder)
    above = " ".join(f"(literal {quoted(path)})" for path in sorted(leading_to({real})))
    profile = (
        f"(version 1)(allow default)(deny file* (subpath {quoted(real)}))(deny file-write-unlink {above})"
    )
    return ["/usr/bin/sandbox-exec", "-p", profile, *argv]


def quoted(path: str) -> str:
    """Return a path as a string of a sandbox profile."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
