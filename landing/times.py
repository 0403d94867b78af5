"""Times as earlier files wrote them: naive text is UTC, and a fraction or a zone may be there (SPEC U11)."""

import calendar
import re
from typing import Final

from policies.job import MICROS

TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,6})\d*)?(?:Z|\+00:00)?", re.ASCII
)


def micros(text: str) -> int | None:
    """Return the time that a text says, in microseconds UTC; None where it says none."""
    if (found := TIME.fullmatch(text)) is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    if not (year and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
        return None
    whole = calendar.timegm((year, month, day, hour, minute, second))
    return whole * MICROS + int((found[7] or "").ljust(6, "0"))
