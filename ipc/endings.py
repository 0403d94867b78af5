"""What a compute half may raise to say how its job ends (SPEC U6).

Any other exception is terminal unless the lane names it in `retry_on`.
"""


class Ending(Exception):
    """The compute half decided how this attempt ends; use one of the three below."""

    disposition = "fail"
    after: float | None = None


class Retry(Ending):
    """Try again, by default after the kind's backoff.

    Args:
        message: shown as the attempt's error.
        after: seconds to wait instead of the kind's backoff; None keeps the backoff.
    """

    disposition = "retry"

    def __init__(self, message: str = "", *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class Fail(Ending):
    """Give up: the job is failed at once, whatever attempts are left.

    Args:
        message: shown as the attempt's error.
        optional: True ends it as failed_optional: it did not work out, and nobody need care.
    """

    disposition = "fail"

    def __init__(self, message: str = "", *, optional: bool = False) -> None:
        super().__init__(message)
        self.optional = optional


class Skip(Ending):
    """Nothing to do: the job is done, this attempt is recorded as skipped (CONTRACTS K15)."""

    disposition = "skip"
