"""Short-lived tokens for those who must show on whose behalf they act (SPEC C141, U40).

Authority.mint_token(role) -> Minter.mint -> Minted(token, accessor) -> whoever asked
                           `-> Audit: accessor, role, expiry

The supervisor may mint; it keeps the accessors and never a token. `minter` has the embedded minter.
"""

import re
from collections import deque
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

LONGEST_LIFE: Final = 86_400.0
"""Seconds that a token may live: it is for one piece of work, not for an account."""

ROLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
MOST_ENTRIES: Final = 4096


class Token:
    """A secret that only `reveal` shows: it is not printed, copied or pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret, to be handed to the one it was minted for and kept nowhere."""
        return self._text

    def __repr__(self) -> str:
        return "Token(hidden)"

    def __copy__(self) -> "Token":
        return self

    def __deepcopy__(self, memo: object) -> "Token":
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a token cannot be pickled")


@dataclass(frozen=True, slots=True)
class Minted:
    """What minting gives: the secret, the name by which it may be spoken of, its end in microseconds UTC."""

    token: Token
    accessor: str
    expires_at: int


class Minter(Protocol):
    """Makes tokens; it may be a server elsewhere. What it raises must not hold a token."""

    def mint(self, role: str, ttl: float) -> Minted:
        """Return a new token for `role` that lives `ttl` seconds; both have been checked."""
        ...


class NoMinter(Exception):
    """Nothing is wired that could mint."""


@dataclass(frozen=True, slots=True)
class Entry:
    """That a token was minted: by accessor, for which role, until when (microseconds UTC)."""

    accessor: str
    role: str
    expires_at: int


class Audit:
    """The newest entries, oldest first. It has no field that could hold a token."""

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self._entries: deque[Entry] = deque(maxlen=most)

    def add(self, entry: Entry) -> None:
        """Keep an entry; the oldest goes when there are too many."""
        self._entries.append(entry)

    def entries(self) -> tuple[Entry, ...]:
        """Return all that are kept."""
        return tuple(self._entries)

    def live(self, now: int) -> tuple[Entry, ...]:
        """Return those whose token has not expired at `now`, microseconds UTC."""
        return tuple(entry for entry in self._entries if now < entry.expires_at)


class Authority:
    """The right to mint, with its audit. Args: `minter` is None where nothing is wired."""

    def __init__(self, minter: Minter | None, audit: Audit | None = None) -> None:
        self._minter = minter
        self.audit = audit or Audit()

    def mint_token(self, role: str, ttl: float = 600.0) -> Minted:
        """Return a new token for `role` that lives `ttl` seconds.

        Raises:
            ValueError: `role` or `ttl` cannot be one, in one line.
            NoMinter: nothing is wired that could mint.
        """
        check_role(role)
        check_ttl(ttl)
        if self._minter is None:
            raise NoMinter(f"no token for {role}: no minter is wired")
        minted = self._minter.mint(role, ttl)
        self.audit.add(Entry(minted.accessor, role, minted.expires_at))
        return minted


def check_role(role: object) -> None:
    """Refuse what is no role, without repeating it: by mistake it might be a secret."""
    if not isinstance(role, str) or not ROLE.fullmatch(role):
        raise ValueError("a role must be 1 to 64 letters, digits, dots, colons, hyphens or underscores")


def check_ttl(ttl: object) -> None:
    """Refuse what is no time to live."""
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl <= LONGEST_LIFE:
        raise ValueError(f"a token's ttl must be seconds above 0 and up to {LONGEST_LIFE:g}")
