"""What somebody may have meant: one way to say "did you mean" for settings, kinds and commands."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ' (did you mean "embed"?)' when one of `known` is close to `word`, else ""."""
    close = get_close_matches(word, sorted(known), n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""
