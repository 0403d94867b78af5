"""A sealed child connects to its own machine only, and says which option would let it go further."""

import json
import os
import shutil
import subprocess
import sys
from textwrap import dedent

import pytest

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

SEAL = """
import worker.seal
C = worker.seal.CSocket  # C's own, which Python's is made from
worker.seal.seal()
"""
PASSED = {"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "PYTHONPYCACHEPREFIX"}


def python(*codes, before="", measured=True):
    """Run a Python that seals itself after `before` and then runs `codes`; it gets no proxies from us.

    A measured child has loaded `socket` before, as the measuring tool needs it; another one has not.
    """
    kept = {name: value for name, value in os.environ.items() if name in PASSED}
    if measured:
        kept |= {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
    return subprocess.run(
        [sys.executable, "-c", "".join(map(dedent, (before, SEAL, *codes)))],
        env=kept,
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
    )


def answers(*codes, **options):
    """Return the JSON that a sealed Python prints."""
    done = python(*codes, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def connection(where):
    return f"network = false: no connection to {where}; set network = true for this kind"


def lookup(name):
    return f"network = false: no lookup of {name}; set network = true for this kind"


FAR = connection("203.0.113.7:443")
ODD_ADDRESS = connection("an address that is no plain (host, port)")
ODD_HOST = lookup("a host that is no plain text")

TRY = """
import errno, json, socket
UDP, TCP = socket.SOCK_DGRAM, socket.SOCK_STREAM

def tried(routes):
    return {route.__name__: said(route) for route in routes}

def said(route):
    try:
        return f"no refusal: {route()!r}"
    except PermissionError as error:
        assert error.errno == errno.EACCES
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""

ROUTES = """
FAR = ("203.0.113.7", 443)
def udp(): return socket.socket(type=UDP)
def tcp(): return socket.socket(type=TCP)

def connect(): tcp().connect(FAR)
def connect_udp(): udp().connect(FAR)
def connect_ex(): return tcp().connect_ex(FAR)
def send_to(): udp().sendto(b"x", FAR)
def send_to_with_flags(): udp().sendto(b"x", 0, FAR)
def send_message(): udp().sendmsg([b"x"], [], 0, FAR)
def create_connection(): socket.create_connection(FAR, timeout=1)
def c_connect(): C.connect(tcp(), FAR)
def c_connect_ex(): return C.connect_ex(tcp(), FAR)
def c_send_to(): C.sendto(udp(), b"x", FAR)
def c_send_message(): C.sendmsg(udp(), [b"x"], [], 0, FAR)
def c_socket(): C(socket.AF_INET, UDP).connect(FAR)
print(json.dumps(tried([connect, connect_udp, connect_ex, send_to, send_to_with_flags, send_message,
    create_connection, c_connect, c_connect_ex, c_send_to, c_send_message, c_socket])))
"""
EARLY = pytest.mark.parametrize("before", ["", "import socket\n"], ids=["socket is new", "socket is loaded"])


@EARLY
def test_every_way_to_an_address_elsewhere_is_refused_with_the_option_named(before):
    """C157: Python's sockets and C's own, whether their module was loaded before or not."""
    seen = answers(TRY, ROUTES, before=before, measured=bool(before))
    assert seen == dict.fromkeys(seen, FAR)
    assert len(seen) == 12


NAMES = """
def connect(): socket.socket().connect(("name.example.com", 443))
def connect_ex(): return socket.socket().connect_ex(("name.example.com", 443))
def send_to(): socket.socket(type=UDP).sendto(b"x", ("name.example.com", 443))
def send_message(): socket.socket(type=UDP).sendmsg([b"x"], [], 0, ("name.example.com", 443))
def create_connection(): socket.create_connection(("name.example.com", 443), timeout=1)
def bind(): socket.socket().bind(("name.example.com", 0))
def getaddrinfo(): return socket.getaddrinfo("name.example.com", 443)
def getaddrinfo_of_bytes(): return socket.getaddrinfo(b"name.example.com", 443)
def gethostbyname(): return socket.gethostbyname("name.example.com")
def gethostbyname_ex(): return socket.gethostbyname_ex("name.example.com")
def gethostbyaddr(): return socket.gethostbyaddr("203.0.113.7")
def gethostbyaddr_of_a_name(): return socket.gethostbyaddr("name.example.com")
def getnameinfo(): return socket.getnameinfo(("203.0.113.7", 443), 0)
print(json.dumps(tried([connect, connect_ex, send_to, send_message, create_connection,
    bind, getaddrinfo, getaddrinfo_of_bytes, gethostbyname, gethostbyname_ex,
    gethostbyaddr, gethostbyaddr_of_a_name, getnameinfo])))
"""


@EARLY
def test_a_question_to_the_dns_is_refused_as_well(before):
    """C157: the name would leave the machine, whoever answers."""
    seen = answers(TRY, NAMES, before=before, measured=bool(before))
    direct = ("connect", "connect_ex", "send_to", "send_message")
    reverse = ("gethostbyaddr", "getnameinfo")
    assert len(seen) == 13
    assert seen == (
        dict.fromkeys(seen, lookup("name.example.com"))
        | dict.fromkeys(direct, connection("name.example.com:443"))
        | dict.fromkeys(reverse, lookup("203.0.113.7"))
    )


def test_what_libraries_do_with_an_address_elsewhere_says_the_same():
    """C157."""
    seen = answers(
        TRY,
        """
        import asyncio, http.client, urllib.request
        def urlopen():
            urllib.request.urlopen("http://203.0.113.1", timeout=1)
        def http_client():
            http.client.HTTPConnection("203.0.113.1", timeout=1).request("GET", "/")
        def asyncio_streams():
            asyncio.run(asyncio.open_connection("203.0.113.1", 80))
        def asyncio_datagrams():
            async def send():
                loop = asyncio.get_running_loop()
                await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("203.0.113.1", 80))
            asyncio.run(send())
        def asyncio_name():
            asyncio.run(asyncio.open_connection("name.example.com", 80))
        print(json.dumps(tried([urlopen, http_client, asyncio_streams, asyncio_datagrams, asyncio_name])))
        """,
    )
    text = connection("203.0.113.1:80")
    assert seen == {
        "urlopen": f"URLError: <urlopen error {text}>",
        "http_client": text,
        "asyncio_streams": text,
        "asyncio_datagrams": text,
        "asyncio_name": lookup("name.example.com"),
    }


@EARLY
def test_servers_on_this_machine_are_reached(before):
    """C157: by HTTP, asyncio and plain sockets, by IPv4, IPv6 and the name localhost."""
    seen = answers(
        """
        import asyncio, http.client, http.server, json, socket, threading, urllib.request

        class Hello(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"hello")
            def log_message(self, *args): ...

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
        port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def by_http_client():
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/")
            return connection.getresponse().read().decode()

        async def by_asyncio():
            async def answer(reader, writer):
                writer.write((await reader.readline()).upper())
                writer.close()
            async with await asyncio.start_server(answer, "127.0.0.1", 0) as served:
                host, port = served.sockets[0].getsockname()
                reader, writer = await asyncio.open_connection("localhost", port)
                writer.write(b"hello\\n")
                said = (await reader.read()).decode()
                writer.close()
                return said

        def mapped():
            if not socket.has_ipv6:
                return "none here"
            with socket.socket(socket.AF_INET6) as six:
                six.connect(("::ffff:127.0.0.1", port))
                return six.getpeername()[0]

        print(json.dumps([
            by_http_client(),
            urllib.request.urlopen(f"http://localhost:{port}").read().decode(),
            asyncio.run(by_asyncio()),
            socket.create_connection(("127.0.0.1", port)).getpeername()[0],
            socket.socket().connect_ex(("localhost", port)),
            socket.gethostbyname("localhost"),
            socket.getaddrinfo(None, port, socket.AF_INET)[0][4][0],
            mapped(),
        ]))
        """,
        before=before,
        measured=bool(before),
    )
    assert seen[-1] in {"::ffff:127.0.0.1", "none here"}
    assert seen[:-1] == ["hello", "hello", "HELLO\n", "127.0.0.1", 0, "127.0.0.1", "127.0.0.1"]


def test_unix_sockets_and_sockets_already_connected_are_free(tmp_path):
    """C157."""
    seen = answers(
        f"""
        import json, os, socket
        os.chdir({str(tmp_path)!r})
        stream, datagram = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        stream.bind("stream"), stream.listen(), datagram.bind("datagram")
        caller = socket.socket(socket.AF_UNIX)
        caller.connect("stream")
        caller.sendmsg([b"by message"])
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.sendto(b"by address", "datagram")
        sender.sendmsg([b"by both"], [], 0, b"datagram")
        left, right = socket.socketpair()
        left.send(b"by pair")
        print(json.dumps([
            stream.accept()[0].recv(99).decode(),
            datagram.recv(99).decode(),
            datagram.recv(99).decode(),
            right.recv(99).decode(),
        ]))
        """
    )
    assert seen == ["by message", "by address", "by both", "by pair"]


def test_a_bind_to_any_address_is_free():
    """C157: nothing leaves by it; what is sent afterwards still needs an address."""
    seen = answers(
        TRY,
        """
        ports = []
        for host in ("", "0.0.0.0", "127.0.0.1"):
            one = socket.socket(type=UDP)
            one.bind((host, 0))
            ports.append(one.getsockname()[1] > 0)
        print(json.dumps([ports, said(lambda: one.sendto(b"x", ("203.0.113.7", 443)))]))
        """,
    )
    assert seen == [[True, True, True], FAR]


HOSTILE = """
class Text(str):
    "Is one text and shows another."
    def __str__(self): return "127.0.0.1"
    __repr__ = __str__
    def __eq__(self, other): return True
    def __hash__(self): return hash("127.0.0.1")
    def encode(self, *_): return b"203.0.113.7"
class Tuple(tuple):
    def __getitem__(self, at): return ("127.0.0.1", 443)[at]
    def __iter__(self): return iter(("127.0.0.1", 443))
class Unix(socket.socket):
    family = socket.AF_UNIX
    def __getattribute__(self, name):
        return socket.AF_UNIX if name == "family" else super().__getattribute__(name)
class Port:
    def __index__(self): return 443
    def __eq__(self, other): return True

def c(address, family=socket.AF_INET, kind=socket.socket):
    return said(lambda: C.connect(kind(family, UDP), address))

print(json.dumps({
    "text": c((Text("203.0.113.7"), 443)),
    "text of 127": c((Text("127.0.0.1"), 443)),
    "lookup": said(lambda: socket.getaddrinfo(Text("localhost"), 443)),
    "tuple": c(Tuple(("203.0.113.7", 443))),
    "bytearray": c((bytearray(b"127.0.0.1"), 443)),
    "bytes": c((b"203.0.113.7", 443)),
    "port": c(("203.0.113.7", Port())),
    "family": c(("203.0.113.7", 443), kind=Unix),
    "zero": c(("0.0.0.0", 443)),
    "nothing": c(("", 443)),
    "broadcast": c(("<broadcast>", 443)),
    "digits": c(("127.1", 443)),
    "scope": c(("2001:db8::7", 443, 0, 1), socket.AF_INET6),
    "zero of IPv6": c(("::", 443), socket.AF_INET6),
}))
"""


def test_hostile_arguments_do_not_slip_through():
    """C157: given to C's own methods, where only the hook stands between them and the system."""
    seen = answers(TRY, HOSTILE)
    assert seen == {
        "text": ODD_ADDRESS,
        "text of 127": ODD_ADDRESS,
        "lookup": ODD_HOST,
        "tuple": ODD_ADDRESS,
        "bytearray": ODD_ADDRESS,
        "bytes": FAR,
        "port": connection("203.0.113.7:?"),
        "family": FAR,
        "zero": connection("0.0.0.0:443"),
        "nothing": connection(":443"),
        "broadcast": connection("<broadcast>:443"),
        "digits": connection("127.1:443"),
        "scope": connection("[2001:db8::7]:443"),
        "zero of IPv6": connection("[::]:443"),
    }


PATCHES = """
import _socket, builtins, importlib, sys, threading, os
probe = C(_socket.AF_INET, UDP)
far = ("203.0.113.7", 443)
seen = []
def again(): seen.append(said(lambda: C.connect(probe, far)))

socket.socket.connect = C.connect
seen.append(said(lambda: socket.socket(type=UDP).connect(far)))
class Mine(C): __slots__ = ()
socket.socket = _socket.socket = Mine
seen.append(said(lambda: socket.socket(_socket.AF_INET, UDP).connect(far)))
_socket.inet_pton = socket.inet_pton = lambda family, host: b"\\x7f\\0\\0\\1"
for name, value in list(vars(worker.seal).items()):
    if callable(value):
        setattr(worker.seal, name, lambda *args: None)
again()
kept = builtins.type, builtins.len
builtins.type = builtins.len = lambda *args: None
again()
builtins.type, builtins.len = kept
importlib.reload(socket)
again()
sys.addaudithook(lambda event, args: None)
again()
thread = threading.Thread(target=again)
thread.start()
thread.join()
assert len(seen) == 7, seen
print(json.dumps(seen))
"""


def test_the_hook_survives_what_user_code_patches():
    """C157: sockets, the functions that the seal is written with, even builtins; in threads, too."""
    seen = answers(TRY, PATCHES)
    assert seen == [FAR] * 7


def test_a_fork_is_sealed_and_sealing_it_again_adds_no_second_hook():
    """C157: asserted in the child, never inherited unseen."""
    seen = answers(
        TRY,
        """
        import os, sys
        read, write = os.pipe()
        if os.fork() == 0:
            hooks = []
            sys.addaudithook(lambda event, args: hooks.append(event) if event == "sys.addaudithook" else None)
            worker.seal.seal()
            text = said(lambda: socket.socket(type=UDP).connect(("203.0.113.7", 443)))
            os.write(write, json.dumps([hooks, text]).encode())
            os._exit(0)
        os.close(write)
        print(os.read(read, 999).decode())
        """,
    )
    assert seen == [[], FAR]


def test_a_program_that_a_job_starts_is_not_sealed():
    """C157: the seal is of one process; what this does not cover is pinned here."""
    seen = answers(
        """
        import json, subprocess, sys
        connect = "import socket; socket.socket(type=socket.SOCK_DGRAM).connect(('203.0.113.7', 443))"
        done = subprocess.run([sys.executable, "-c", connect], capture_output=True, text=True)
        print(json.dumps(done.stderr))
        """
    )
    assert "network = false" not in seen


def test_a_python_without_ctypes_is_sealed_as_well():
    """C157: only the lookups of C libraries stay possible."""
    seen = answers(TRY, ROUTES, before="import sys\nsys.modules['ctypes'] = None\n")
    assert seen == dict.fromkeys(seen, FAR)


def test_a_process_that_cannot_be_sealed_ends_at_once():
    """C157: an earlier hook may refuse ours without a word, so the seal is tried."""
    done = python(
        "print('went on')",
        before="""
        import sys
        def first(event, args):
            if event == "sys.addaudithook":
                raise RuntimeError("no second hook")
        sys.addaudithook(first)
        """,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("network = false: this child cannot be sealed")


def test_a_refusal_by_another_hook_is_no_seal():
    """C157: it may be lifted again; only our own words count."""
    done = python(
        "print('went on')",
        before="""
        import sys
        def first(event, args):
            if event == "sys.addaudithook":
                raise RuntimeError("no second hook")
            if event == "socket.connect":
                raise PermissionError("not today")
        sys.addaudithook(first)
        """,
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_no_interpreter_is_made_that_the_hook_would_not_see():
    """C157: hooks belong to one interpreter; what only offers them still loads."""
    seen = answers(
        """
        import json
        said = []
        class Name(str):
            def __hash__(self): return 0
            def __eq__(self, other): return False
        for name in ("_interpreters", "_xxsubinterpreters", Name("_interpreters")):
            try:
                __import__(name)
            except ImportError as error:
                said.append(str(error))
        import concurrent.futures
        print(json.dumps(said))
        """
    )
    assert len(seen) == 3
    assert seen[0].startswith(
        "network = false: no _interpreters, whose interpreters would not be sealed; set"
    )


@LINUX
def test_a_packet_socket_is_refused():
    """C157: it sends without an address."""
    seen = answers(TRY, "print(json.dumps(said(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))))")
    assert seen == "network = false: no packet socket; set network = true for this kind"


QUERIES = """
import ctypes, fcntl, json, os, socket, struct, sys, threading
import worker.seal
up = struct.pack("16sH14x", b"lo", 1)
fcntl.ioctl(socket.socket(type=socket.SOCK_DGRAM), 0x8914, up)  # SIOCSIFFLAGS
server = socket.socket(type=socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
asked = []

def serve():
    while True:
        question, sender = server.recvfrom(512)
        asked.append(question[13 : 13 + question[12]].decode())
        server.sendto(question[:2] + b"\\x81\\x83" + question[4:], sender)  # no such name

threading.Thread(target=serve, daemon=True).start()
C = worker.seal.CSocket
libc = ctypes.CDLL(None)

def ask(name):
    for call in (C.connect, C.bind):
        try:
            call(C(socket.AF_INET, socket.SOCK_DGRAM), (name, 9))
        except OSError:
            pass
    libc.gethostbyname(name.encode())

ask("before.example.com")
worker.seal.seal()
ask("after.example.com")
print(json.dumps(sorted(set(asked))))
"""


@LINUX
def test_no_question_leaves_where_no_audit_event_tells_of_it(tmp_path):
    """C157: C resolves the name in an address before it says so; glibc asks nobody, for C libraries too."""
    unshare = [shutil.which("unshare") or "", "-rmn"]
    if not unshare[0] or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a network of its own")
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    (tmp_path / "nsswitch.conf").write_text("hosts: files dns\n")
    script = """
        mount --bind "$0/resolv.conf" /etc/resolv.conf &&
        mount --bind "$0/nsswitch.conf" /etc/nsswitch.conf || exit 77
        exec "$1" -c "$2"
    """
    done = subprocess.run(
        [*unshare, "sh", "-c", script, tmp_path, sys.executable, QUERIES],
        capture_output=True,
        check=False,
        text=True,
        timeout=50,
    )
    if done.returncode == 77:
        pytest.skip(f"needs files of its own in /etc: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    asked = json.loads(done.stdout)
    if "before" not in asked:
        pytest.skip("this C library does not ask the server that /etc/resolv.conf names")
    assert asked == ["before"]
