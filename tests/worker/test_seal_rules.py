"""How the seal judges: which addresses are near, which names ask nobody, how a refusal reads (SPEC C157)."""

import socket
from _socket import AF_INET, AF_INET6, AF_UNIX

import pytest

from worker.seal import (
    host_of,
    is_literal,
    is_near,
    is_refused,
    is_sealed,
    no_connection,
    no_lookup,
    watch,
)


def connection(where):
    return f"network = false: no connection to {where}; set network = true for this kind"


def lookup(name):
    return f"network = false: no lookup of {name}; set network = true for this kind"


FAR = connection("203.0.113.7:443")
ODD_ADDRESS = connection("an address that is no plain (host, port)")
ODD_HOST = lookup("a host that is no plain text")


NEAR = (
    "127.0.0.1", "127.255.255.254", "localhost", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1",
    "::ffff:7f00:1",
)  # fmt: skip
NOT_NEAR = (
    "0.0.0.0", "::", "126.255.255.255", "128.0.0.1", "127.1", "0177.0.0.1", "0x7f.0.0.1", "2130706433",
    "127.0.0.1.example.com", "localhost.example.com", "LOCALHOST", "255.255.255.255", "<broadcast>",
    "::2", "::1%lo", "::127.0.0.1", "::ffff:128.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "fe80::1",
)  # fmt: skip
BROKEN = ("", " 127.0.0.1", "127.0.0.1\n", "127.0.0.1\0.example.com", "localhost\0", "127.0.0.\ud800")
WIDE = "\uff11\uff12\uff17.0.0.1"  # Python's own encoding of names turns it into 127.0.0.1


@pytest.mark.parametrize("host", NEAR)
def test_loopback_is_near(host):
    """C157: as text or bytes, with or without the numbers that an IPv6 address has."""
    for family in (AF_INET, AF_INET6):
        for address in [(host, 1), (host.encode(), 1), (host, 1, 0, 7)]:
            assert is_near(family, address)


@pytest.mark.parametrize("host", [*NOT_NEAR, *BROKEN, WIDE], ids=ascii)
def test_nothing_else_is_near(host):
    """C157: unusual spellings of loopback neither, for the C library reads them in ways of its own."""
    for family in (AF_INET, AF_INET6):
        for address in [(host, 1), (host.encode("utf-8", "surrogatepass"), 1), (host, 1, 0, 0)]:
            assert not is_near(family, address)
    assert str(no_connection((host, 1))).isprintable()


@pytest.mark.parametrize("family", [16, 17, 38, 40], ids=["netlink", "packet", "alg", "vsock"])
def test_sockets_of_other_families_reach_nothing(family):
    """C157: but for unix sockets."""
    for address in [("127.0.0.1", 1), (0, 0), (2, 80), "path"]:
        assert is_near(AF_UNIX, address)
        assert not is_near(family, address)


def test_literal_addresses_need_no_lookup_and_names_do():
    for host in ("203.0.113.7", "2001:db8::7", "127.0.0.1", "0.0.0.0", "localhost"):
        assert is_literal(host)
    for host in ("name.example.com", "1.1", "fe80::1%eth0", "", None):
        assert not is_literal(host)


def trap(*_):
    raise AssertionError("code of a hostile object ran")


HOOKS = (
    "__str__", "__repr__", "__eq__", "__hash__", "__getitem__", "__len__", "__iter__", "__format__",
    "__bool__",
)  # fmt: skip


def trapped(base, *more):
    return type("Trapped", (base,), dict.fromkeys([*HOOKS, *more], trap))


ODD = {
    "text": (trapped(str, "encode", "startswith")("127.0.0.1"), 1),
    "bytes": (trapped(bytes, "decode")(b"127.0.0.1"), 1),
    "tuple": trapped(tuple)(("127.0.0.1", 1)),
    "bytearray": (bytearray(b"127.0.0.1"), 1),
    "host": (trapped(object, "__getattr__")(), 1),
    "address": trapped(object, "__getattr__")(),
    "list": ["127.0.0.1", 1],
    "path": "127.0.0.1",
    "number": (127, 1),
    "empty": (),
    "none": None,
}


@pytest.mark.parametrize("which", ODD)
def test_only_exact_built_in_types_are_read_and_no_code_of_others_runs(which):
    """C157: text that is shown as 127.0.0.1 could be another one for C."""
    address = ODD[which]
    assert host_of(address) is None
    assert not is_near(AF_INET, address)
    assert str(no_connection(address)) == ODD_ADDRESS


def test_a_refusal_is_one_short_line_whatever_it_is_about():
    assert str(no_connection(("203.0.113.7", trapped(int)(443)))) == connection("203.0.113.7:?")
    assert str(no_connection(("203.0.113.7",))) == connection("203.0.113.7:?")
    assert str(no_connection(("2001:db8::7", 443, 0, 2))) == connection("[2001:db8::7]:443")
    assert str(no_connection(("x" * 10_000, 1))) == connection("x" * 253 + ":1")
    assert str(no_lookup("two\nlines")) == lookup("two\\nlines")
    assert str(no_lookup(None)) == ODD_HOST


@pytest.mark.parametrize(
    ("event", "args", "refused"),
    [
        ("socket.connect", [("203.0.113.7", 443)], FAR),
        ("socket.sendto", [("203.0.113.7", 443)], FAR),
        ("socket.sendmsg", [("203.0.113.7", 443)], FAR),
        ("socket.sendmsg", [None], None),
        ("socket.connect", [("127.0.0.1", 443)], None),
        ("socket.bind", [("203.0.113.7", 443)], None),
    ],
)
def test_an_event_of_a_socket_is_judged_by_its_address(event, args, refused):
    """C157."""
    with socket.socket(AF_INET) as one:
        assert said_by_watch(event, one, *args) == refused


@pytest.mark.parametrize(
    ("event", "args", "refused"),
    [
        ("socket.getaddrinfo", ["name.example.com", 443, 0, 0, 0], lookup("name.example.com")),
        ("socket.getaddrinfo", ["203.0.113.7", 443, 0, 0, 0], None),
        ("socket.getaddrinfo", [None, 443, 0, 0, 0], None),
        ("socket.gethostbyname", ["name.example.com"], lookup("name.example.com")),
        ("socket.gethostbyaddr", ["203.0.113.7"], lookup("203.0.113.7")),
        ("socket.gethostbyaddr", ["127.0.0.1"], None),
        ("socket.getnameinfo", [("203.0.113.7", 443)], lookup("203.0.113.7")),
        ("socket.getnameinfo", [("::1", 443, 0, 0)], None),
        ("import", ["_interpreters"], "no _interpreters, whose"),
        ("import", ["json"], None),
        ("open", ["file"], None),
    ],
)
def test_an_event_of_a_name_is_judged_by_what_it_would_ask(event, args, refused):
    """C157."""
    answer = said_by_watch(event, *args)
    assert (answer is None) is (refused is None)
    assert answer is None or refused in answer


def said_by_watch(event, *args):
    try:
        watch(event, args)
    except (PermissionError, ImportError) as error:
        return str(error)
    return None


def test_without_a_hook_the_trial_says_so():
    """C157: this process is not sealed; where a family of sockets does not exist, nothing leaves by it."""
    assert not is_sealed()
    assert not is_refused(AF_INET, "192.0.2.1")
    assert is_refused(250, "192.0.2.1")
