"""What a person can change before a retry, by the error code of the attempt that a limit ended."""

from collections.abc import Mapping
from typing import Final

REMEDIES: Final[Mapping[str, str]] = {
    "memory_limit": "raise memory_limit, or give it less",
    "process_limit": "raise process_limit, or let it start fewer processes",
    "cpu_limit": "raise cpu_limit, or give it less",
    "kernel_oom": "give it less, run fewer at a time (max_workers), or set a memory_limit to end it in time",
}
