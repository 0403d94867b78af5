"""The right to mint: what it refuses, what it remembers, and where a token never appears (U40)."""

import copy
import io
import json
import logging
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

import msgspec
import pytest
from rich.console import Console
from rich.pretty import pretty_repr

from supervisor import sensors
from supervisor.secrets import Audit, Authority, Entry, Minted, NoMinter, Token
from supervisor.secrets.minter import SigningMinter


def authority(most: int = 4096) -> Authority:
    return Authority(SigningMinter(sensors.now_micros, sensors.steady), Audit(most))


def test_a_token_comes_with_an_accessor_and_lives_ten_minutes_unless_told_otherwise() -> None:
    """C141."""
    before = sensors.now_micros()
    minted, longer = authority().mint_token("embedder"), authority().mint_token("embedder", ttl=3600)
    after = sensors.now_micros()
    assert before <= minted.expires_at - 600_000_000 <= after
    assert before <= longer.expires_at - 3_600_000_000 <= after
    assert minted.accessor not in minted.token.reveal()
    assert minted.accessor != longer.accessor


def test_nothing_is_minted_where_no_minter_is_wired() -> None:
    """C141."""
    nobody = Authority(None)
    with pytest.raises(NoMinter, match=r"^no token for embedder: no minter is wired$"):
        nobody.mint_token("embedder")
    assert nobody.audit.entries() == ()


ROLES: list[Any] = ["", " ", "a b", "a\nb", ".a", "ä", "a" * 65, "a/b", None, 7, b"role"]


@pytest.mark.parametrize("role", ROLES)
def test_what_is_no_role_is_refused_in_one_line_that_does_not_repeat_it(role: Any) -> None:
    """C141: somebody who gives a token where the role belongs must not find it in the log."""
    mine = authority()
    with pytest.raises(ValueError, match=r"^a role must be") as caught:
        mine.mint_token(role)
    assert "\n" not in str(caught.value)
    assert mine.audit.entries() == ()
    with pytest.raises(ValueError, match=r"^a role must be") as caught:
        mine.mint_token(token := mine.mint_token("a").token.reveal())
    assert token not in str(caught.value)


TTLS: list[Any] = [0, -1, 86_401, float("nan"), float("inf"), True, "600", None]


@pytest.mark.parametrize("ttl", TTLS)
def test_what_is_no_time_to_live_is_refused_in_one_line(ttl: Any) -> None:
    """C141."""
    mine = authority()
    with pytest.raises(ValueError, match=r"^a token's ttl must be seconds above 0 and up to 86400$"):
        mine.mint_token("embedder", ttl)
    assert mine.audit.entries() == ()


def test_the_audit_keeps_accessor_role_and_expiry_of_the_newest() -> None:
    """C141."""
    mine = authority(most=3)
    minted = [mine.mint_token(role) for role in ("a", "b", "c", "d")]
    kept = zip(minted[1:], ("b", "c", "d"), strict=True)
    assert mine.audit.entries() == tuple(Entry(one.accessor, role, one.expires_at) for one, role in kept)


def test_the_audit_tells_what_is_live_from_what_has_expired() -> None:
    """C141."""
    audit = Audit()
    audit.add(Entry("a", "role", 10))
    audit.add(Entry("b", "role", 20))
    assert [[entry.accessor for entry in audit.live(now)] for now in (9, 10, 19, 20)] == [
        ["a", "b"],
        ["b"],
        ["b"],
        [],
    ]


def test_the_audit_has_no_field_that_could_hold_a_token() -> None:
    """C141, U40, LESSONS 60."""
    mine = authority()
    token = mine.mint_token("embedder").token.reveal()
    assert [field.name for field in fields(Entry)] == ["accessor", "role", "expires_at"]
    assert token not in repr([asdict(entry) for entry in mine.audit.entries()])
    assert token.encode() not in pickle.dumps(mine.audit)


def printed(minted: Minted) -> str:
    stream = io.StringIO()
    Console(file=stream, width=1000).print(minted, {"minted": minted})
    return stream.getvalue()


def logged(minted: Minted) -> str:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s %(token)s %(args)s"))
    logger = logging.getLogger("tokens")
    logger.addHandler(handler)
    try:
        logger.warning("minted %s and %r", minted, minted.token, extra={"token": minted.token})
    finally:
        logger.removeHandler(handler)
    return stream.getvalue()


def raised(minted: Minted) -> str:
    held = minted.token
    try:
        raise ValueError(held, minted)
    except ValueError as error:
        trace = traceback.TracebackException.from_exception(error, capture_locals=True)
        return "".join(trace.format()) + str(error) + repr(error)


WAYS_OUT: dict[str, Callable[[Minted], str]] = {
    "repr": repr,
    "str": str,
    "format": lambda minted: f"{minted} {minted.token} {minted.token!r} {minted.token!s:>40} {[minted]}",
    "asdict": lambda minted: repr(asdict(minted)),
    "json": lambda minted: json.dumps(asdict(minted), default=str),
    "copy": lambda minted: repr(copy.deepcopy(minted)) + repr(copy.copy(minted.token)),
    "pretty": pretty_repr,
    "printed": printed,
    "logged": logged,
    "raised": raised,
}


@pytest.mark.parametrize("way_out", WAYS_OUT)
def test_a_token_appears_in_nothing_that_is_shown_logged_or_raised(way_out: str) -> None:
    """U40, C141."""
    minted = authority().mint_token("embedder")
    shown = WAYS_OUT[way_out](minted)
    assert "hidden" in shown
    assert minted.token.reveal() not in shown


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_token_cannot_be_pickled_nor_can_what_holds_one(protocol: int) -> None:
    """U40, C141."""
    mine = authority()
    minted = mine.mint_token("embedder")
    held: list[Any] = [minted, minted.token, {"payload": minted}, mine]
    for one in held:
        with pytest.raises(TypeError, match="cannot be pickled") as caught:
            pickle.dumps(one, protocol)
        assert minted.token.reveal() not in str(caught.value)


def test_a_token_is_no_json_and_nothing_that_the_wire_or_a_row_could_carry() -> None:
    """U40."""
    minted = authority().mint_token("embedder")
    for encode in (json.dumps, msgspec.json.encode, msgspec.msgpack.encode, msgspec.to_builtins):
        with pytest.raises(TypeError) as caught:
            encode({"token": minted.token})
        assert minted.token.reveal() not in str(caught.value)


def test_a_copy_of_a_token_is_the_token() -> None:
    token = Token("hush")
    assert copy.deepcopy({"token": token})["token"] is token
    assert copy.copy(token) is token


def test_only_who_mints_or_verifies_waits_for_the_signing_library() -> None:
    """U40: neither a child nor `status` loads it with what it imports."""
    code = (
        "import sys, supervisor.secrets.minter as minter; from supervisor import sensors\n"
        "mine = minter.SigningMinter(sensors.now_micros, sensors.steady)\n"
        "before = 'itsdangerous' in sys.modules; mine.mint('a', 1.0)\n"
        "print(before, 'itsdangerous' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
