"""The egress seal of kinds with `network = false`: their children connect to this machine only.

    connect, bind, send to --> Careful, the address --> C, its names --> watch(), the audit event --> system
    lookups                ----------------------------------------- --> watch()
                               `-- PermissionError                       `-- PermissionError

A check that Python makes at run time, for code that does not set out to get around it. Not covered: C
libraries with sockets of their own (but for their lookups, where the C library is glibc), programs that a
job starts, and whoever connects from outside to a port that a job opens.
"""

import _socket
import builtins
import os
import sys
from _socket import AF_INET, AF_INET6, AF_UNIX, SOCK_DGRAM, inet_pton
from errno import EACCES, EAFNOSUPPORT, EPERM
from types import FunctionType
from typing import Any, Final

CSocket = _socket.socket

WATCHED: Final = frozenset(
    {
        "import",
        "socket.__new__",
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyaddr",
        "socket.gethostbyname",
        "socket.getnameinfo",
        "socket.sendmsg",
        "socket.sendto",
    }
)
"""Audit events. connect_ex raises that of connect, gethostbyname_ex that of gethostbyname."""

INTERNET: Final = (AF_INET, AF_INET6)
AF_PACKET: Final = getattr(_socket, "AF_PACKET", None)
FAMILY_OF: Final = vars(CSocket)["family"].__get__
"""Reads what C itself goes by; the attribute of a subclass may say anything."""

ANY_ADDRESS: Final = ("", "<broadcast>")
"""Names that stand for an address, so that a bind to them asks nobody."""

LOOPBACK_6: Final = bytes(15) + b"\1"
MAPPED_127: Final = bytes(10) + b"\xff\xff\x7f"
"""What ::ffff:127.0.0.0/104 begins with: IPv4's loopback, spoken to by an IPv6 socket."""

UNSEALED: Final = ("_interpreters", "_xxsubinterpreters")
"""Modules that make interpreters of their own, whose events no hook of this one sees."""

NAME_LIMIT: Final = 253
"""Characters of a host that are shown: no name in the DNS has more."""

PROBES: Final = ((AF_INET, "192.0.2.1"), (AF_INET6, "2001:db8::1"))
"""Addresses that documents use as examples. To connect a UDP socket sends nothing."""

PROBE_PORT: Final = 9

NO_SOCKETS: Final = (EACCES, EAFNOSUPPORT, EPERM)
"""Why the system makes none of a family: then nothing leaves by it."""

NOT_SEALED: Final = (
    b"network = false: this child cannot be sealed, so it ends; another audit hook may have been first\n"
)


def seal() -> None:
    """Let this process, and what it forks, connect to loopback and to unix sockets only.

    Refused are all other addresses and all questions to the DNS, with a PermissionError that names the
    address and the option. It cannot be undone. The seal is tried before this returns; a process that is
    not sealed ends here. To be called again in a fork: it then only tries.
    """
    if not is_sealed():
        ask_no_server()
        look_first()
        install()
        if not is_sealed():
            os.write(2, NOT_SEALED)
            os._exit(1)


def is_sealed() -> bool:
    """Tell whether our hook refuses a real attempt, by IPv4 and by IPv6."""
    return all(is_refused(family, host) for family, host in PROBES)


def is_refused(family: int, host: str) -> bool:
    """Try to connect a UDP socket, past all Python, and tell whether our hook was what refused."""
    try:
        probe = CSocket(family, SOCK_DGRAM)
    except OSError as error:
        return error.errno in NO_SOCKETS
    try:
        probe.connect((host, PROBE_PORT))
    except OSError as error:
        return error.args == no_connection((host, PROBE_PORT)).args
    finally:
        probe.close()
    return False


def install() -> None:
    """Add the hook, made of copies: what user code rebinds, here or in builtins, is not what it uses."""
    world: dict[str, Any] = {**globals(), "__builtins__": dict(vars(builtins))}
    for name, value in globals().items():
        if type(value) is FunctionType:
            world[name] = FunctionType(value.__code__, world, name)
    sys.addaudithook(world["watch"])


def ask_no_server() -> None:
    """Have glibc look names up in this machine's files only, for C libraries, too, and past all Python."""
    try:
        import ctypes  # noqa: PLC0415 - this process has it already, where it was guarded

        configure = ctypes.CDLL(None)["__nss_configure_lookup"]
    except (ImportError, AttributeError):  # Python without ctypes; another C library
        return
    configure(b"hosts", b"files myhostname")


def look_first() -> None:
    """Put Careful under Python's sockets; their own module takes some ms, so it need not be loaded yet."""
    if (loaded := sys.modules.get("socket")) is None:
        vars(_socket).update(socket=Careful, SocketType=Careful)
    else:
        for name in ("bind", "connect", "connect_ex", "sendmsg", "sendto"):
            setattr(loaded.socket, name, getattr(Careful, name))


class Careful(CSocket):
    """A socket that looks at an address first: C resolves a name in it before it raises the audit event."""

    __slots__ = ()

    def bind(self, address: Any, /) -> None:
        check_bind(self, address)
        CSocket.bind(self, address)

    def connect(self, address: Any, /) -> None:
        check_address(self, address)
        CSocket.connect(self, address)

    def connect_ex(self, address: Any, /) -> int:
        check_address(self, address)
        return CSocket.connect_ex(self, address)

    def sendmsg(self, *args: Any) -> int:
        if len(args) > 3:
            check_address(self, args[3])
        return CSocket.sendmsg(self, *args)

    def sendto(self, *args: Any) -> int:
        if len(args) > 1:
            check_address(self, args[-1])
        return CSocket.sendto(self, *args)


def watch(event: str, args: tuple[Any, ...]) -> None:
    """Refuse what would leave this machine; called by C for each audit event.

    Raises:
        PermissionError: an address, a name or a socket that is not of this machine.
        ImportError: a module that would make unsealed interpreters.
    """
    if event not in WATCHED:
        return
    if event == "import":
        if (name := str.__str__(args[0])) in UNSEALED:
            raise ImportError(sentence(f"no {name}, whose interpreters would not be sealed"))
    elif event == "socket.__new__":
        if args[1] == AF_PACKET:  # it sends without an address
            raise refusal("no packet socket")
    elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        check_name(args[0])
    elif event == "socket.gethostbyaddr":
        check_reverse(text_of(args[0]))
    elif event == "socket.getnameinfo":
        check_reverse(host_of(args[0]))
    else:
        check_address(args[0], args[1])


def check_address(sock: CSocket, address: object) -> None:
    """Refuse to connect or send to `address`; None is that of a socket which is connected already."""
    if address is not None and not is_near(FAMILY_OF(sock), address):
        raise no_connection(address)


def check_bind(sock: CSocket, address: object) -> None:
    """Refuse a name to bind to; addresses are free, since nothing leaves by them."""
    host = host_of(address)
    if FAMILY_OF(sock) in INTERNET and host not in ANY_ADDRESS and not is_literal(host):
        raise no_lookup(host)


def check_name(host: object) -> None:
    """Refuse to look up anything but localhost and literal addresses; None is nothing to look up."""
    if host is not None and not is_literal(text := text_of(host)):
        raise no_lookup(text)


def check_reverse(host: str | None) -> None:
    """Refuse to ask for the name of an address that is not loopback: that is a question to the DNS, too."""
    if not is_loopback(host):
        raise no_lookup(host)


def is_near(family: int, address: object) -> bool:
    """Tell whether what is sent from a socket of `family` to `address` stays on this machine.

    0.0.0.0 and :: are not near: systems differ in what they connect to.
    """
    return family == AF_UNIX or (family in INTERNET and is_loopback(host_of(address)))


def is_loopback(host: str | None) -> bool:
    """Tell whether a host is localhost or a literal of 127.0.0.0/8, ::1 or ::ffff:127.0.0.0/104."""
    number = packed(host)
    return (
        host == "localhost"
        or (len(number) == 4 and number[0] == 127)
        or number == LOOPBACK_6
        or number.startswith(MAPPED_127)
    )


def is_literal(host: str | None) -> bool:
    """Tell whether a host is localhost or an address in digits, so that nobody is asked for it."""
    return host == "localhost" or packed(host) != b""


def packed(host: str | None) -> bytes:
    """Return the 4 or 16 bytes of an address in the usual notation, none for any other text."""
    if host is None:
        return b""
    for family in INTERNET:
        try:
            return inet_pton(family, host)
        except (OSError, ValueError):  # ValueError: it holds a NUL or a lone surrogate
            continue
    return b""


def host_of(address: object) -> str | None:
    """Return the host of a plain (host, port, ...); None for anything else, whose code must not run."""
    return text_of(address[0]) if type(address) is tuple and address else None


def text_of(host: object) -> str | None:
    """Return a host that is exactly str or bytes; None for anything else: C might read another one in it."""
    if type(host) is bytes:
        return host.decode("latin-1")
    return host if type(host) is str else None


def no_connection(address: object) -> PermissionError:
    """Return the refusal of an address."""
    if (host := host_of(address)) is None:
        return refusal("no connection to an address that is no plain (host, port)")
    shown = f"[{show(host)}]" if ":" in host else show(host)
    return refusal(f"no connection to {shown}:{port_of(address)}")


def port_of(address: object) -> str:
    """Return the port of a (host, port, ...) as text, ? for anything but a plain number."""
    port = address[1] if type(address) is tuple and len(address) > 1 else None
    return str(port) if type(port) is int else "?"


def no_lookup(host: str | None) -> PermissionError:
    """Return the refusal of a name."""
    return refusal(f"no lookup of {'a host that is no plain text' if host is None else show(host)}")


def show(host: str) -> str:
    """Return a host in one short line."""
    return ascii(host[:NAME_LIMIT])[1:-1]


def refusal(what: str) -> PermissionError:
    """Return the error; it has a number, because callers of sockets look at that."""
    error = PermissionError(sentence(what))
    error.errno = EACCES
    return error


def sentence(what: str) -> str:
    """Say what is refused, and by which option."""
    return f"network = false: {what}; set network = true for this kind"
