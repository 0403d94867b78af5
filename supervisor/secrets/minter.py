"""The embedded minter: it signs what a token says with a key of this one life, which is kept in memory only.

A token is its claims and an HMAC-SHA256 over them. It names no algorithm, so none can be chosen for it.
"""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NoReturn

from policies.job import MICROS
from supervisor import sensors
from supervisor.secrets import Authority, Minted, Token

if TYPE_CHECKING:
    from itsdangerous import URLSafeSerializer

LONGEST: Final = 1024
"""Characters; no token of ours comes near it, and nothing longer is looked at."""


class Refusal(StrEnum):
    """Why a token is refused. Which part of a bad one is wrong, nobody is told."""

    TOO_LONG = "too_long"
    NOT_OURS = "not_ours"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token that holds says; `expires_at` is microseconds UTC."""

    role: str
    accessor: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A text that gives its bearer nothing."""

    reason: Refusal


class SigningMinter:
    """Mints and verifies. Args: `now` is the wall clock and `steady` one that nobody can set (see `sensors`).

    Expiry is judged on `steady`, so that a wall clock that is set back prolongs nothing.
    """

    __slots__ = ("_key", "_now", "_steady")

    def __init__(self, now: Callable[[], int], steady: Callable[[], float]) -> None:
        self._now = now
        self._steady = steady
        self._key = secrets.token_bytes(32)

    def __repr__(self) -> str:
        return "SigningMinter(key hidden)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a minter cannot be pickled or copied: its key stays here")

    def mint(self, role: str, ttl: float) -> Minted:
        """Return a new token for `role` that lives `ttl` seconds."""
        accessor = secrets.token_hex(16)
        expires_at = self._now() + int(ttl * MICROS)
        claims = [role, accessor, expires_at, self._steady() + ttl]
        return Minted(Token(str(self._serializer().dumps(claims))), accessor, expires_at)

    def verify(self, token: str) -> Claims | Refused:
        """Say what a token claims, or why it is refused; never raises, whatever the text."""
        if len(token) > LONGEST:
            return Refused(Refusal.TOO_LONG)
        claims = self._read(token)
        if claims is None:
            return Refused(Refusal.NOT_OURS)
        role, accessor, expires_at, ends = claims
        return Refused(Refusal.EXPIRED) if self._steady() >= ends else Claims(role, accessor, expires_at)

    def _read(self, token: str) -> list[Any] | None:
        from itsdangerous import BadData  # noqa: PLC0415 - only who mints or verifies pays for it

        if not token.isascii():
            return None
        serializer = self._serializer()
        try:
            claims: list[Any] = serializer.loads(token)
        except BadData:
            return None
        # Base64 can be written in several ways that read the same; a token is the one text that was minted.
        return claims if secrets.compare_digest(token, str(serializer.dumps(claims))) else None

    def _serializer(self) -> "URLSafeSerializer":
        from itsdangerous import URLSafeSerializer  # noqa: PLC0415 - as above

        signing = {"digest_method": hashlib.sha256, "key_derivation": "hmac"}
        return URLSafeSerializer(self._key, salt="laneway token", signer_kwargs=signing)


def signing_authority() -> Authority:
    """Return the right to mint with a new key, which lives as long as this process."""
    return Authority(SigningMinter(sensors.now_micros, sensors.steady))
