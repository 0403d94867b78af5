import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from policies.readings import PresenceReading
from supervisor.probes.presence import Desk, PresenceProbe
from supervisor.probes.terminals import FIRST_PERSON, is_person
from supervisor.sensors import now_micros
from tests.supervisor.probes.peer import Logind, Peer

THRESHOLD = 300.0


class Room:
    """A machine with a logind, the owner's bus and devices of its own; nobody is logged in yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uid = os.getuid()
        self.logind = Logind(folder / "system_bus")
        self.peers: list[Peer] = [self.logind]
        self.typed: tuple[float, str] | None = None
        self.desk = Desk(
            uid=self.uid,
            system_bus=self.logind.address,
            runtime=str(folder / "user"),
            x_sockets=str(folder / "X11"),
            devices=str(folder / "dev"),
        )

    def own_bus(self, uid: int | None = None) -> Peer:
        """Open the bus of a user's session."""
        peer = Peer(self.folder / "user" / str(self.uid if uid is None else uid) / "bus")
        self.peers.append(peer)
        return peer

    def probe(self) -> PresenceProbe:
        return PresenceProbe(self.desk, THRESHOLD, lambda: self.typed)

    def look(self) -> PresenceReading:
        return self.probe()()

    def file(self, path: str) -> Path:
        made = self.folder / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.touch()
        return made

    def person_at(self, console: str, ago: float) -> float:
        """Have somebody logged in at a console, who typed so many seconds ago; return when that was."""
        made, typed = self.file(console), now_micros() / 1e6 - ago
        if os.getuid() == 0:
            os.chown(made, FIRST_PERSON, -1)
        elif not is_person(os.getuid()):
            pytest.skip("what a service owns is no person's console")
        os.utime(made, (typed, typed))
        return typed


@pytest.fixture
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    room = Room(tmp_path_factory.mktemp("room"))
    yield room
    for peer in room.peers:
        peer.close()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    """Write a file below the test's folder, and return its path."""

    def put(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return put
