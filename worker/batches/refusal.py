"""Why the worker itself ends an attempt: what the compute half did is against the rules."""


class Refusal(BaseException):
    """The attempt fails with `code` (row_type, row_keys, row_too_large, ...).

    Not an `Exception`: it may pass through user code, whose `except Exception` is not for it.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Leave(BaseException):
    """The compute half ends here because the supervisor asked to yield."""
