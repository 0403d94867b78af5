"""Work that runs in this process: lanes of mode `inproc`, and handlers.

modes      which kinds run here, and who said so
handlers   a handler as a lane without rows
thread     a thread that speaks the wire of a child, and its end as far as a thread has one
threads    the threads of one run, and which of them has held up the loop
"""
