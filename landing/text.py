"""Text from outside, made fit to be stored and sent; asking an error what it is runs no code of its class."""

from typing import Final

ARGS: Final = BaseException.__dict__["args"]
NAME: Final = type.__dict__["__name__"]


def clean(text: str) -> str:
    r"""Return text that has UTF-8 and ends nowhere early: lone surrogates and NUL become \udXXX and \x00."""
    return str.encode(text, "utf-8", "backslashreplace").decode().replace("\0", r"\x00")


def lenient(raw: bytes) -> str:
    """Read a stored text cell whose bytes may be no UTF-8; a `text_factory`."""
    return raw.decode("utf-8", "backslashreplace")


def type_name(error: BaseException) -> str:
    """Return the name of an exception's class."""
    return clean(NAME.__get__(type(error)))


def is_a(error: BaseException, kind: type[BaseException]) -> bool:
    """Tell whether an error is of a class; `isinstance` would ask the error for its `__class__`."""
    return issubclass(type(error), kind)


def error_text(error: BaseException) -> str:
    """Return an exception's class and, where its arguments are one text, the first 1,000 characters."""
    match ARGS.__get__(error):
        case (text,) if type(text) is str:
            return f"{type_name(error)}: {clean(text[:1000])}"
        case _:
            return type_name(error)
