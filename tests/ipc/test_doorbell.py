"""The doorbell is a hint that never fails (OS.md 9)."""

import os
import select
import stat
from pathlib import Path

from ipc.doorbell import DOORBELL, Doorbell, ring


def test_a_ring_wakes_the_listener_once_however_often_it_rang(tmp_path: Path) -> None:
    bell = Doorbell(tmp_path)
    assert not bell.drain()
    for _ in range(5):
        ring(tmp_path)
    assert select.select([bell.fileno()], [], [], 5)[0]
    assert bell.drain()
    assert not bell.drain()
    bell.close()


def test_ringing_where_nobody_listens_is_harmless(tmp_path: Path) -> None:
    ring(tmp_path)
    ring(tmp_path / "nowhere")
    Doorbell(tmp_path).close()
    ring(tmp_path)


def test_a_full_queue_is_harmless(tmp_path: Path) -> None:
    bell = Doorbell(tmp_path)
    for _ in range(2000):
        ring(tmp_path)
    assert bell.drain()
    bell.close()


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    Doorbell(tmp_path).close()
    bell = Doorbell(tmp_path)
    ring(tmp_path)
    assert bell.drain()
    bell.close()


def test_the_socket_is_private_and_its_folder_may_have_a_long_path(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-rather-long-name-for-a-folder"] * 5)
    deep.mkdir(parents=True)
    assert len(os.fsencode(deep)) > 108
    bell = Doorbell(deep)
    ring(deep)
    assert bell.drain()
    assert stat.S_IMODE((deep / DOORBELL).stat().st_mode) == 0o600
    bell.close()
