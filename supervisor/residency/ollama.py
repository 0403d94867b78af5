"""A model server that speaks Ollama's HTTP API: it says what is resident, loads and unloads.

Only the address that the settings name is asked; no proxy is used and no redirect followed. Every answer
is bounded in time and in bytes, and what is no sense in it is an error in one line, never a guess.
"""

import http.client
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from landing.text import clean
from policies.residency import Model, Resident
from supervisor.residency.loader import LoaderError
from supervisor.sensors import monotonic

BASE_URL: Final = "http://127.0.0.1:11434"
LOOK_SECONDS: Final = 5.0
LOAD_SECONDS: Final = 600.0
UNLOAD_SECONDS: Final = 30.0
UNLOAD_LOOK: Final = 0.05
ANSWER_LIMIT: Final = 1 << 20
ERROR_LIMIT: Final = 200
HEADERS: Final = {"Content-Type": "application/json", "Connection": "close"}
PATH: Final = re.compile(r"[!-~]*")

Shape = TypeVar("Shape", bound=msgspec.Struct)


class Running(msgspec.Struct):
    """One line of `GET /api/ps`; what is no size is no reason to disbelieve the name."""

    name: str = ""
    model: str = ""
    size: Any = None
    size_vram: Any = None
    context_length: Any = None


class Listing(msgspec.Struct):
    """The answer to `GET /api/ps`."""

    models: list[Running] | None


class Answer(msgspec.Struct):
    """The answer to `POST /api/generate`, as far as a load needs it."""

    done: bool = False
    error: str = ""


class OllamaLoader:
    """Asks a model server; see `Loader`.

    Args:
        base_url: where it listens.
        names: how the settings write the models, with or without ":latest"; residents are called so.
        look_seconds: limit of a look at what is resident.
        load_seconds: limit of a load.
        unload_seconds: how long an unloaded model may still be there.

    Raises:
        ValueError: the address is none.
    """

    def __init__(
        self,
        base_url: str = BASE_URL,
        names: Iterable[str] = (),
        *,
        look_seconds: float = LOOK_SECONDS,
        load_seconds: float = LOAD_SECONDS,
        unload_seconds: float = UNLOAD_SECONDS,
    ) -> None:
        self._scheme, self._host, self._port, self._path = parsed(base_url)
        self._spelling = {plain(name): name for name in names}
        self._look_seconds = look_seconds
        self._load_seconds = load_seconds
        self._unload_seconds = unload_seconds

    def residents(self) -> tuple[Resident, ...]:
        body = self._ask("GET", "/api/ps", None, self._look_seconds)
        listing = decoded(body, Listing, self._place)
        return tuple(self._resident(one) for one in listing.models or ())

    def load(self, model: Model) -> None:
        """Without a prompt the server loads and answers; -1 keeps the model until it is told otherwise."""
        order: dict[str, Any] = {"model": model.name, "keep_alive": -1, "stream": False}
        if model.window:
            order["options"] = {"num_ctx": model.window}
        self._generate(order, self._load_seconds)

    def unload(self, name: str) -> None:
        """The server says yes before the memory is free: look until the model has gone."""
        self._generate({"model": name, "keep_alive": 0, "stream": False}, self._look_seconds)
        until = monotonic() + self._unload_seconds
        pause = threading.Event()
        while any(plain(one.name) == plain(name) for one in self.residents()):
            if monotonic() >= until:
                raise LoaderError(f'{self._place} still holds "{name}" after {self._unload_seconds:g} s')
            pause.wait(UNLOAD_LOOK)

    @property
    def _place(self) -> str:
        return f"the model server at {self._host}:{self._port}"

    def _resident(self, one: Running) -> Resident:
        called = clean(one.name or one.model)
        if not called:
            raise LoaderError(f"{self._place} lists a model without a name")
        size = max(whole(one.size), whole(one.size_vram)) or None
        return Resident(
            self._spelling.get(plain(called), called), size, window=whole(one.context_length) or None
        )

    def _generate(self, order: dict[str, Any], seconds: float) -> None:
        answer = decoded(self._ask("POST", "/api/generate", order, seconds), Answer, self._place)
        if answer.error or not answer.done:
            raise LoaderError(f"{self._place} did not finish: {one_line(answer.error) or 'it is not done'}")

    def _ask(self, method: str, route: str, order: dict[str, Any] | None, seconds: float) -> bytes:
        """Return the body of an answer with status 200, whole and within its limits."""
        kind = http.client.HTTPSConnection if self._scheme == "https" else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=min(seconds, self._look_seconds))
        late = threading.Event()
        try:
            connection.connect()
            connection.sock.settimeout(seconds)
            with limited(connection.sock, seconds, late):
                body = None if order is None else msgspec.json.encode(order)
                connection.request(method, self._path + route, body, HEADERS)
                response = connection.getresponse()
                text = response.read(ANSWER_LIMIT + 1)
                if response.length and len(text) <= ANSWER_LIMIT:
                    raise http.client.IncompleteRead(text, response.length)
        except (OSError, http.client.HTTPException) as error:
            reason = f"nothing whole in {seconds:g} s" if late.is_set() else said(error)
            raise LoaderError(f"{self._place} does not answer: {reason}") from error
        finally:
            connection.close()
        if len(text) > ANSWER_LIMIT:
            raise LoaderError(f"{self._place} answers with more than {ANSWER_LIMIT:,} bytes")
        if response.status != http.client.OK:
            raise LoaderError(f"{self._place} answers {response.status}{complaint(text, response.status)}")
        return text


@contextmanager
def limited(sock: socket.socket, seconds: float, late: threading.Event) -> Iterator[None]:
    """End a conversation as a whole: a socket's own limit starts anew with each byte that drips in."""

    def end() -> None:
        late.set()
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
        if late.is_set():
            raise TimeoutError
    except TimeoutError:
        late.set()
        raise
    finally:
        timer.cancel()


def parsed(base_url: str) -> tuple[str, str, int, str]:
    """Return scheme, host, port and path of an address, or raise ValueError in one line."""
    try:
        parts = urlsplit(base_url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        parts, port = urlsplit(""), 0
    plainly = not (parts.query or parts.fragment or parts.username or parts.password)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not plainly
        or not PATH.fullmatch(parts.path)
    ):
        raise ValueError(f'{base_url!r} is no address of a model server; write "{BASE_URL}"')
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/")


def plain(name: str) -> str:
    """Return a model's name as the server compares it."""
    return name.casefold().removesuffix(":latest")


def whole(value: object) -> int:
    """Return a number of bytes or tokens, 0 for anything else."""
    return value if type(value) is int and value > 0 else 0


def decoded(text: bytes, shape: type[Shape], place: str) -> Shape:
    """Return an answer in its shape."""
    try:
        return msgspec.json.decode(text, type=shape)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise LoaderError(f"{place} answers nonsense: {one_line(str(error))}") from error


def complaint(text: bytes, status: int) -> str:
    """Return what the server says about an error of its own, and what to do about it."""
    try:
        told = one_line(msgspec.json.decode(text, type=Answer).error)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        told = ""
    if 300 <= status < 400:
        return "; redirects are not followed"
    hint = "; ollama pull fetches a model" if status == http.client.NOT_FOUND else ""
    return f": {told}{hint}" if told else hint


def said(error: BaseException) -> str:
    """Return an error of the connection in a few words."""
    if isinstance(error, http.client.IncompleteRead):
        return "it broke off in the middle of its answer"
    told = error.strerror if isinstance(error, OSError) else None
    return one_line(told or str(error)) or type(error).__name__


def one_line(text: str) -> str:
    """Return text from outside as one line of bounded length."""
    return clean(" ".join(text[:ERROR_LIMIT].split()))
