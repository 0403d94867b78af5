"""A real HTTP server with the routes of a model server, which can be told to misbehave."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GB = 10**9
Misbehaviour = Callable[["Conversation"], None]


class ModelServer(ThreadingHTTPServer):
    """Holds models as the real one does.

    Attributes:
        installed: what can be loaded, with its bytes.
        resident: what is loaded, as `GET /api/ps` lists it.
        orders: the bodies of every `POST /api/generate`.
        paths: every path that was asked for.
        lingers: how many looks an unloaded model can still be seen.
        misbehave: per path, what to do instead of answering.
        released: set when whoever hangs may go on.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Conversation)
        self.installed = {"router": 4 * GB, "small": 8 * GB, "large": 20 * GB}
        self.resident: dict[str, dict[str, Any]] = {}
        self.orders: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.lingers = 0
        self.leaving: dict[str, int] = {}
        self.misbehave: dict[str, Misbehaviour] = {}
        self.hanging = threading.Event()
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def hold(self, name: str, **facts: Any) -> None:
        """Have a model resident, as another client may have it loaded."""
        known = {"size": self.installed.get(name), "size_vram": 0, "context_length": 4096}
        line = {"name": f"{name}:latest", "model": f"{name}:latest", "expires_at": "2318-10-31T00:00:00Z"}
        self.resident[name] = line | known | facts

    def generate(self, order: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.orders.append(order)
        name = order["model"].removesuffix(":latest")
        if name not in self.installed and name not in self.resident:
            return 404, {"error": f"model '{name}' not found"}
        if order["keep_alive"] == 0:
            self.leaving[name] = self.lingers
            return 200, {"model": name, "response": "", "done": True, "done_reason": "unload"}
        self.hold(name, context_length=order.get("options", {}).get("num_ctx", 2048))
        return 200, {"model": name, "response": "", "done": True, "done_reason": "load"}

    def listing(self) -> dict[str, Any]:
        for name in [name for name, looks in self.leaving.items() if looks <= 0]:
            del self.leaving[name]
            self.resident.pop(name, None)
        self.leaving = {name: looks - 1 for name, looks in self.leaving.items()}
        return {"models": list(self.resident.values())}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left early is what some tests want."""


class Conversation(BaseHTTPRequestHandler):
    server: ModelServer

    def do_GET(self) -> None:
        self._serve(lambda: (200, self.server.listing()))

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._serve(lambda: self.server.generate(order))

    def _serve(self, answer: Callable[[], tuple[int, dict[str, Any]]]) -> None:
        self.server.paths.append(self.path)
        misbehaviour = self.server.misbehave.get(self.path)
        if misbehaviour is not None:
            misbehaviour(self)
            return
        status, body = answer()
        self.say(status, json.dumps(body).encode())

    def say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content_Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Says nothing."""


def hangs(conversation: Conversation) -> None:
    """Say nothing until it is released, then hang up."""
    conversation.server.hanging.set()
    conversation.server.released.wait(60)
    conversation.close_connection = True


def drips(conversation: Conversation) -> None:
    """Send a header that never ends, a byte at a time."""
    conversation.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not conversation.server.released.wait(0.02):
        conversation.wfile.write(b"a")
    conversation.close_connection = True


def says(status: int, body: bytes, **headers: str) -> Misbehaviour:
    """Answer with this, whatever was asked."""
    return lambda conversation: conversation.say(status, body, **headers)


def sends(raw: bytes) -> Misbehaviour:
    """Send these bytes, and hang up."""

    def misbehave(conversation: Conversation) -> None:
        conversation.wfile.write(raw)
        conversation.close_connection = True

    return misbehave


@contextmanager
def serving() -> Iterator[ModelServer]:
    """Run a model server in a thread."""
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
