"""What holds for every test: signals as a terminal has them, and how many of its children are measured."""

import os
import signal
import zlib

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has what it starts in the background ignore it, and supervisors that tests start would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

MEASURED = [name for name in os.environ if name.startswith("COVERAGE_PROCESS_")]
ONE_IN = 3


@pytest.fixture(autouse=True)
def measures_few_children(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure what the children of one test in a few cover, always the same ones.

    It costs each process more than most of them take, and they all go the same ways.
    """
    if zlib.crc32(request.node.nodeid.encode()) % ONE_IN:
        for name in MEASURED:
            monkeypatch.delenv(name)
