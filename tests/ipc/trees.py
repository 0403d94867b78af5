"""A hostile tree under one guardian, killed again and again; run as a program, also by an ordinary user.

    python trees.py ROOT LOCK KILLS grouped|alone       "grouped": control groups are made below its own

It prints, as JSON, how many milliseconds each kill took from the order to the guardian's word that it is
over, how many processes ended, and which of them were still alive then.
"""

import json
import os
import select
import signal
import socket
import sys
import time

MEMBERS = ("plain", "deaf", "away", "orphan", "orphan away", "hopper")
TREE = """
import ctypes, os, signal, time
def up(name):
    os.write(1, f"{name}\\n".encode())
def stay(name):
    up(name)
    while True: time.sleep(3600)
def started(act):
    if (pid := os.fork()) == 0:
        act()
        os._exit(0)
    return pid
def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stay("deaf")
def away(name="away"):
    os.setsid()
    stay(name)
def hop():
    up("hopper")
    while True:
        if os.fork(): os._exit(0)
        os.setsid()
started(lambda: stay("plain"))
started(deaf)
started(away)
os.waitpid(started(lambda: started(lambda: stay("orphan"))), 0)
os.waitpid(started(lambda: started(lambda: away("orphan away"))), 0)
started(hop)
ctypes.PyDLL(None).pause()
"""


def main(root: str, lock: str, kills: str, how: str) -> None:
    sys.path.append(root)
    from ipc.guardian import cgroup
    from ipc.keeper import Keeper

    sys.stdin.readline()  # it may be moved to its control group first
    group = str(cgroup.base()) if how == "grouped" else ""
    keeper = Keeper({}, lock)
    print(json.dumps([killed(keeper, group, {"MARKER": os.urandom(16).hex()}) for _ in range(int(kills))]))
    keeper.let_go()
    while not keeper.reap():
        select.select([], [], [], 0.005)


def killed(keeper, group, environment):
    """Start a tree, kill it once it has all its members, and look at once whether one of them is alive."""
    channel, theirs = socket.socketpair()
    log, output = os.pipe()
    stacks = os.open(os.devnull, os.O_RDWR)
    group = group and f"{group}/laneway-tree-{keeper.pid}"
    argv = [sys.executable, "-I", "-S", "-c", TREE]
    keeper.start((argv, [], environment, "/", 0, "", group, False), (theirs.fileno(), output, stacks))
    os.close(output)
    seen = b""
    while not all(f"{name}\n".encode() in seen for name in MEMBERS):
        piece = os.read(log, 4096)
        assert piece, seen
        seen += piece
    (started,) = told_by(keeper)
    began = time.perf_counter()
    keeper.kill()
    *_, over = told_by(keeper)
    milliseconds = (time.perf_counter() - began) * 1000
    (marker,) = (f"{name}={value}".encode() for name, value in environment.items())
    survivors = [pid for pid in os.listdir("/proc") if pid.isdigit() and marker in environ_of(pid)]
    for fd in (log, stacks):
        os.close(fd)
    channel.close()
    theirs.close()
    return {
        "ms": milliseconds,
        "tier": started.tier,
        "signal": -over.code,
        "ended": over.ended,
        "survivors": survivors,
    }


def told_by(keeper):
    """Return what a guardian tells next."""
    assert select.select([keeper], [], [], 20)[0]
    return keeper.receive()


def environ_of(pid):
    """Return the environment of a process; that of a dead one is empty, as is that of another user's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    main(*sys.argv[1:])
