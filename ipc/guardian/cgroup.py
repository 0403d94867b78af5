"""Control groups: the kernel ends a whole tree at one stroke, forks under way included (version 2 only).

    base, the group that we are in  --make-->  base/NAME  <--join | take_in--  a worker
                                               base/NAME  --kill--> nobody left --remove--> gone

It takes a group in which we may make others: root's, or one that was delegated. Whoever runs with
our rights can also leave such a group, so it makes a kill quicker and surer, and the sweep stays the judge.
"""

import os
import signal
from errno import ENODEV, ENOENT, EOPNOTSUPP

TRIAL = "laneway-trial-"
JOIN_AND_KILL = (
    'exec 2>/dev/null; [ -w "$1/cgroup.kill" ] && echo 0 >"$1/cgroup.procs" && echo 1 >"$1/cgroup.kill"'
)
NOT_LISTED = (ENOENT, ENODEV, EOPNOTSUPP)
"""What a group answers that is gone, or whose processes are listed with the group above it (threaded)."""


def base(mountinfo: str = "/proc/self/mountinfo", own: str = "/proc/self/cgroup") -> str | None:
    """Return the folder of our own group if trees can be ended through groups below it, else None.

    It is tried, by a shell that joins such a group and ends it: what is allowed depends on more
    than permissions (namespaces, threaded groups, controllers that are handed down). Takes 3 ms.
    """
    try:
        found = folders(text_of(mountinfo), text_of(own))
    except OSError:
        return None
    return next((folder for folder in found if is_tried(folder)), None)


def folders(mountinfo: str, own: str, controller: str = "") -> list[str]:
    """Return where the group of a process is to be found, given its mountinfo and its cgroup file. Pure.

    Of version 2, or of a controller of version 1. There may be several mounts, and some show a part of
    the tree only; a group outside that part is not to be found there.
    """
    lines = [line.split(":", 2) for line in own.splitlines() if line.count(":") >= 2]
    group = next((path for _, names, path in lines if controller in names.split(",")), None)
    if group is None or group.startswith("/.."):  # outside our cgroup namespace
        return []
    found = []
    for root, point in mounts(mountinfo, controller):
        above = root.rstrip("/")
        if group == above or group.startswith(f"{above}/"):
            found.append(point + group[len(above) :].rstrip("/"))
    return found


def mounts(mountinfo: str, controller: str) -> list[tuple[str, str]]:
    """Return each mount of a hierarchy: the part of the tree that it shows, and the folder where."""
    found = []
    for line in mountinfo.splitlines():
        place, _, system = line.partition(" - ")
        kind, _, rest = system.partition(" ")
        is_wanted = controller in options(rest) if kind == "cgroup" else kind == "cgroup2" and not controller
        if is_wanted:
            root, point = place.split(" ")[3:5]
            found.append((unescaped(root), unescaped(point)))
    return found


def options(source_and_options: str) -> list[str]:
    """Return the options that a file system was made with."""
    return source_and_options.rpartition(" ")[2].split(",")


def unescaped(path: str) -> str:
    """Return a path of mountinfo as it is: blanks and backslashes are written as three octal digits."""
    head, *parts = path.split("\\")
    return head + "".join(chr(int(part[:3], 8)) + part[3:] for part in parts)


def is_tried(folder: str) -> bool:
    """Tell whether a process can be ended through a group below `folder`; nothing is left of the trial."""
    try:
        if os.getpid() not in listed(folder):  # another mount hides the one that was meant
            return False
        trial = make(folder, TRIAL + os.urandom(8).hex())
    except OSError:
        return False
    try:
        return ends_a_shell(trial)
    except OSError:
        return False
    finally:
        remove(trial)


def ends_a_shell(group: str) -> bool:
    """Have a shell join a group and end it; tell whether it died of that."""
    argv = ["sh", "-c", JOIN_AND_KILL, "sh", group]
    pid = os.posix_spawn("/bin/sh", argv, {})  # noqa: TID251 - a fork would not be safe beside threads
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def make(folder: str, name: str) -> str:
    """Make a group below another and return its folder; one of that name may not be there yet."""
    path = f"{folder}/{name}"
    os.mkdir(path)
    return path


def join(path: str) -> None:
    """Move this process, with all its threads, into a group.

    Raises:
        OSError: it may not, or the group takes no processes; it is where it was.
    """
    put(f"{path}/cgroup.procs", b"0")


def take_in(path: str, pid: int) -> bool:
    """Move another process into a group, not what it has started before; tell whether it is in there."""
    try:
        put(f"{path}/cgroup.procs", b"%d" % pid)
    except OSError:
        return False
    return True


def kill(path: str) -> bool:
    """SIGKILL every process in a group and in those below; False where the kernel has not taken the order."""
    try:
        put(f"{path}/cgroup.kill", b"1")
    except OSError:
        return False
    return True


def members(path: str) -> list[int]:
    """Return the processes in a group and in those below it; a zombie is in none."""
    return sorted({pid for group in tree(path) for pid in listed(group)})


def remove(path: str) -> bool:
    """Remove a group and those that a job has made below it; False where a process is left in one."""
    for group in reversed(tree(path)):
        try:
            os.rmdir(group)
        except OSError:  # gone already, or busy; then so are those above it
            continue
    return not os.path.isdir(path)


def leftovers(folder: str, prefix: str) -> list[str]:
    """Return the groups right below `folder` whose names begin with `prefix`."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    paths = [f"{folder}/{name}" for name in sorted(names) if name.startswith(prefix)]
    return [path for path in paths if os.path.isdir(path)]


def tree(path: str) -> list[str]:
    """Return a group and all below it, parents first; a job may have made them deeper than calls can go."""
    found = [path]
    for group in found:
        try:
            with os.scandir(group) as entries:
                found += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:  # removed meanwhile, or its path is longer than paths may be
            continue
    return found


def listed(group: str) -> list[int]:
    """Return the processes of one group that this process has numbers for."""
    try:
        text = text_of(f"{group}/cgroup.procs")
    except OSError as error:
        if error.errno not in NOT_LISTED:
            raise
        return []
    return [pid for line in text.split() if (pid := int(line))]  # 0: it is outside our process namespace


def text_of(path: str) -> str:
    """Return a file's text, in the encoding of paths."""
    with open(path, "rb") as file:
        return os.fsdecode(file.read())


def put(path: str, value: bytes) -> None:
    """Write to a file of a group: in one call, so that what the kernel says of it is heard."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value)
    finally:
        os.close(fd)
