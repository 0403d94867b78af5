"""A shell has what it starts in the background ignore SIGINT, and supervisors that tests start would, too."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
