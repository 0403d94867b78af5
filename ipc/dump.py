"""The signal that makes a child write down where it is and go on.

SIGTERM does so too, but user code may ignore or handle SIGTERM; hardly any touches this one.
"""

import signal
from typing import Final

DUMP_SIGNAL: Final[int] = signal.SIGRTMAX - 5 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2
