"""The embedded minter: what holds, and what is refused."""

import base64
import copy
import hashlib
import hmac
import json
import pickle
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from itsdangerous import URLSafeSerializer

from supervisor.secrets.minter import Claims, Refusal, Refused, SigningMinter

NOT_OURS = Refused(Refusal.NOT_OURS)
START = 1_700_000_000_000_000


class World:
    """Both clocks, turned by hand."""

    def __init__(self) -> None:
        self.now = START
        self.steady = 50.0
        self.minter = SigningMinter(lambda: self.now, lambda: self.steady)


@pytest.fixture
def world() -> World:
    return World()


def token_of(minter: SigningMinter, role: str = "embedder", ttl: float = 600.0) -> str:
    return minter.mint(role, ttl).token.reveal()


def test_a_token_says_its_role_accessor_and_expiry(world: World) -> None:
    """C141."""
    minted = world.minter.mint("embedder", 600.0)
    claims = Claims("embedder", minted.accessor, START + 600_000_000)
    assert world.minter.verify(minted.token.reveal()) == claims
    assert minted.expires_at == claims.expires_at


def test_a_token_ends_when_its_time_is_up(world: World) -> None:
    """C141."""
    token = token_of(world.minter, ttl=600.0)
    world.steady += 599.99
    assert isinstance(world.minter.verify(token), Claims)
    world.steady += 0.01
    assert world.minter.verify(token) == Refused(Refusal.EXPIRED)


def test_a_wall_clock_that_is_set_prolongs_and_shortens_nothing(world: World) -> None:
    """C141."""
    token = token_of(world.minter, ttl=600.0)
    world.now += 10**12
    assert isinstance(world.minter.verify(token), Claims)
    world.now -= 10**13
    world.steady += 600
    assert world.minter.verify(token) == Refused(Refusal.EXPIRED)


def test_two_tokens_for_one_role_are_two(world: World) -> None:
    """C141."""
    one, other = world.minter.mint("a", 1.0), world.minter.mint("a", 1.0)
    assert one.accessor != other.accessor
    assert one.token.reveal() != other.token.reveal()


def test_the_key_is_of_this_life_only(world: World) -> None:
    """C141."""
    assert World().minter.verify(token_of(world.minter)) == NOT_OURS


TOKEN_LETTERS = string.ascii_letters + string.digits + "-_.=\n !"


MINTER = World().minter
TOKEN = token_of(MINTER)


@given(st.integers(0, len(TOKEN)), st.sampled_from(["", *TOKEN_LETTERS]), st.integers(0, 2))
def test_a_token_with_one_character_changed_added_or_gone_is_refused(at: int, put: str, gone: int) -> None:
    """C141, also where base64 would read the same bytes from it."""
    changed = TOKEN[:at] + put + TOKEN[at + gone :]
    assert changed == TOKEN or MINTER.verify(changed) == NOT_OURS


def test_the_last_character_of_a_signature_has_one_spelling(world: World) -> None:
    """C141: two of its bits are in no byte, so base64 alone would take four letters for one."""
    token = token_of(world.minter)
    body, last = token[:-1], token[-1]
    alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
    twins = [body + letter for letter in alphabet if alphabet.index(letter) // 4 == alphabet.index(last) // 4]
    signature = {base64.urlsafe_b64decode(twin.rpartition(".")[2] + "=") for twin in twins}
    assert len(twins) == 4
    assert len(signature) == 1
    assert [world.minter.verify(twin) for twin in twins if twin != token] == [NOT_OURS] * 3


@given(st.text())
def test_no_text_at_all_raises_or_passes(text: str) -> None:
    """C141."""
    assert MINTER.verify(text) == NOT_OURS


@pytest.mark.parametrize("text", ["", ".", "..", "é.é", "\ud800", "\0" * 100, "a" * 1024, "." * 1024])
def test_what_is_no_token_is_refused(world: World, text: str) -> None:
    """C141."""
    assert world.minter.verify(text) == NOT_OURS


def test_what_is_too_long_is_not_looked_at(world: World) -> None:
    """C141, also when it begins with a good token."""
    token = token_of(world.minter)
    assert world.minter.verify(token + "a" * (1025 - len(token))) == Refused(Refusal.TOO_LONG)
    assert world.minter.verify("a" * 10**7) == Refused(Refusal.TOO_LONG)


def jwt(algorithm: str, claims: dict[str, object], key: bytes = b"") -> str:
    head = json.dumps({"alg": algorithm, "typ": "JWT"}).encode()
    parts = [base64.urlsafe_b64encode(part).rstrip(b"=") for part in (head, json.dumps(claims).encode())]
    text = b".".join(parts)
    signed = hmac.digest(key, text, "sha256") if key else b""
    return (text + b"." + base64.urlsafe_b64encode(signed).rstrip(b"=")).decode()


def test_a_token_that_names_its_own_algorithm_gets_nothing_by_it(world: World) -> None:
    """C141: not "none", not even the same one under the right key in another form."""
    claims: dict[str, object] = {"role": "embedder", "accessor": "a", "exp": 2**40}
    for algorithm, key in (("none", b""), ("None", b""), ("HS256", b""), ("HS256", world.minter._key)):
        assert world.minter.verify(jwt(algorithm, claims, key)) == NOT_OURS


@pytest.mark.parametrize("digest", [hashlib.sha1, hashlib.sha512, hashlib.md5])
def test_the_right_key_with_another_digest_is_refused(world: World, digest: object) -> None:
    """C141."""
    signing = {"digest_method": digest, "key_derivation": "hmac"}
    forge = URLSafeSerializer(world.minter._key, salt="laneway token", signer_kwargs=signing)
    assert world.minter.verify(str(forge.dumps(["embedder", "a", START, 1e9]))) == NOT_OURS


def test_a_signature_belongs_to_its_own_claims_only(world: World) -> None:
    """C141."""
    weak, strong = token_of(world.minter, "reader"), token_of(world.minter, "writer")
    spliced = strong.rpartition(".")[0] + "." + weak.rpartition(".")[2]
    assert world.minter.verify(spliced) == NOT_OURS


def test_the_key_is_shown_and_copied_nowhere(world: World) -> None:
    """U40."""
    minter = world.minter
    key = minter._key
    assert len(key) == 32
    assert repr(minter) == str(minter) == "SigningMinter(key hidden)"
    assert not hasattr(minter, "__dict__")
    for copying in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="its key stays here") as caught:
            copying(minter)
        assert repr(key) not in str(caught.value)


def test_a_refusal_does_not_repeat_what_was_refused(world: World) -> None:
    """U40."""
    token = token_of(world.minter, ttl=1.0)
    world.steady += 2
    for text in (token, token + "x", token * 20):
        assert token[:20] not in repr(world.minter.verify(text))


def test_the_public_way_to_mint_verifies_its_own_and_audits_it() -> None:
    """C141."""
    from supervisor import Authority, signing_authority

    authority = signing_authority()
    assert isinstance(authority, Authority)
    minted = authority.mint_token("reader", ttl=60)
    assert [entry.accessor for entry in authority.audit.entries()] == [minted.accessor]
