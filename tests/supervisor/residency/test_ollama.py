"""A model server is asked over real HTTP, and whatever it answers is a fact or an error in one line."""

import json
import socket

import pytest

from policies.residency import Model, Resident
from supervisor.residency.loader import LoaderError
from supervisor.residency.ollama import OllamaLoader
from tests.supervisor.residency.model_server import GB, Misbehaviour, ModelServer, drips, hangs, says, sends

SMALL = Model("small", 8 * GB, window=8192)


def complaint(loader: OllamaLoader) -> str:
    with pytest.raises(LoaderError) as caught:
        loader.residents()
    assert "\n" not in str(caught.value)
    return str(caught.value).split(" ", 3)[3].split(" ", 2)[2]


def test_what_is_resident_is_measured_from_the_server(server: ModelServer) -> None:
    """C139."""
    assert OllamaLoader(server.url).residents() == ()
    server.hold("small", size=9 * GB, context_length=8192)
    assert OllamaLoader(server.url, ["small"]).residents() == (Resident("small", 9 * GB, window=8192),)


@pytest.mark.parametrize("written", ["small", "small:latest", "Small"])
def test_a_resident_is_called_as_the_settings_write_it(server: ModelServer, written: str) -> None:
    server.hold("small")
    assert [one.name for one in OllamaLoader(server.url, [written]).residents()] == [written]


def test_a_resident_that_the_settings_do_not_name_is_told_by_the_name_it_has(server: ModelServer) -> None:
    """C139."""
    server.hold("stranger", size=GB)
    assert OllamaLoader(server.url, ["small"]).residents() == (Resident("stranger:latest", GB, window=4096),)


@pytest.mark.parametrize("size", [None, 0, -1, True, "8 GB", 1.5, [1]])
def test_a_size_that_is_none_is_unknown_never_nothing(server: ModelServer, size: object) -> None:
    """C139, U28."""
    server.hold("small", size=size, size_vram=size)
    assert [one.memory for one in OllamaLoader(server.url, ["small"]).residents()] == [None]


def test_a_load_has_no_prompt_its_window_and_no_end(server: ModelServer) -> None:
    """C113, C135."""
    OllamaLoader(server.url).load(SMALL)
    OllamaLoader(server.url).load(Model("large", 20 * GB))
    assert server.orders == [
        {"model": "small", "keep_alive": -1, "stream": False, "options": {"num_ctx": 8192}},
        {"model": "large", "keep_alive": -1, "stream": False},
    ]
    assert [(one.name, one.window) for one in OllamaLoader(server.url).residents()] == [
        ("small:latest", 8192),
        ("large:latest", 2048),
    ]


def test_an_unload_returns_when_the_model_has_gone(server: ModelServer) -> None:
    """The server says yes at once and frees the memory later (C136)."""
    server.hold("small")
    server.lingers = 3
    OllamaLoader(server.url, ["small"]).unload("small")
    assert server.orders == [{"model": "small", "keep_alive": 0, "stream": False}]
    assert server.resident == {}
    assert server.paths.count("/api/ps") == 4


def test_an_unload_after_which_the_model_stays_has_failed(server: ModelServer) -> None:
    server.hold("small")
    server.lingers = 10**6
    with pytest.raises(LoaderError, match=r'still holds "small" after 0\.05 s$'):
        OllamaLoader(server.url, unload_seconds=0.05).unload("small")


def test_a_model_that_the_server_does_not_have_is_said_with_its_remedy(server: ModelServer) -> None:
    with pytest.raises(
        LoaderError, match=r"answers 404: model 'none' not found; ollama pull fetches a model$"
    ):
        OllamaLoader(server.url).load(Model("none", GB))


@pytest.mark.parametrize("answer", [{"done": False}, {"error": "out of memory"}, {}, {"done": "yes"}])
def test_a_load_counts_only_when_the_server_says_that_it_is_done(
    server: ModelServer, answer: dict[str, object]
) -> None:
    server.misbehave["/api/generate"] = says(200, json.dumps(answer).encode())
    with pytest.raises(LoaderError):
        OllamaLoader(server.url).load(SMALL)


def test_nobody_listening_is_an_error_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(LoaderError) as caught:
        OllamaLoader(f"http://127.0.0.1:{port}").residents()
    assert str(caught.value) == f"the model server at 127.0.0.1:{port} does not answer: Connection refused"


@pytest.mark.parametrize("misbehaviour", [hangs, drips])
def test_a_server_that_does_not_come_to_an_end_is_left_after_its_limit(
    server: ModelServer, misbehaviour: Misbehaviour
) -> None:
    """A byte now and then does not buy more time."""
    server.misbehave["/api/ps"] = misbehaviour
    loader = OllamaLoader(server.url, look_seconds=0.2)
    assert complaint(loader) == "does not answer: nothing whole in 0.2 s"


HALF = b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"models": [{"name"'
CHUNK = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{"models"'
DEEP = b'{"models": [{"name": "a", "size": ' + b"[" * 200_000


NONSENSE = "answers nonsense: "
ANSWERS: dict[str, tuple[Misbehaviour, str]] = {
    "an error of its own": (
        says(500, b'{"error": "the runner\\n has crashed"}'),
        "answers 500: the runner has crashed",
    ),
    "an error page": (says(500, b"<html>"), "answers 500"),
    "another server": (says(404, b"404 page not found"), "answers 404; ollama pull fetches a model"),
    "a page": (says(200, b"<html>hello</html>"), NONSENSE),
    "nothing": (says(200, b""), NONSENSE),
    "a list": (says(200, b"[]"), NONSENSE),
    "an empty object": (says(200, b"{}"), NONSENSE),
    "an object for a list": (says(200, b'{"models": {"name": 1}}'), NONSENSE),
    "a name for a model": (says(200, b'{"models": ["small"]}'), NONSENSE),
    "no text": (says(200, b'{"models": [{"name": "\xff"}]}'), NONSENSE),
    "an abyss": (says(200, DEEP), NONSENSE),
    "no name": (says(200, b'{"models": [{"size": 1}]}'), "lists a model without a name"),
    "half a body": (sends(HALF), "does not answer: it broke off in the middle of its answer"),
    "half a chunk": (sends(CHUNK), "does not answer: it broke off in the middle of its answer"),
    "no answer": (sends(b""), "does not answer: "),
    "no HTTP": (sends(b"\x16\x03\x01 this is no HTTP\r\n\r\n"), "does not answer: "),
    "too much": (says(200, b" " * ((1 << 20) + 1)), "answers with more than 1,048,576 bytes"),
}


@pytest.mark.parametrize(("misbehaviour", "said"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_is_no_sense_is_an_error_in_one_line(
    server: ModelServer, misbehaviour: Misbehaviour, said: str
) -> None:
    server.misbehave["/api/ps"] = misbehaviour
    told = complaint(OllamaLoader(server.url))
    assert told.startswith(said)
    assert len(told) < 300


def test_an_answer_without_a_length_ends_where_the_server_hangs_up(server: ModelServer) -> None:
    server.misbehave["/api/ps"] = sends(b'HTTP/1.0 200 OK\r\n\r\n{"models": null}')
    assert OllamaLoader(server.url).residents() == ()


def test_a_redirect_is_not_followed(server: ModelServer) -> None:
    server.misbehave["/api/ps"] = says(302, b"", Location=f"{server.url}/elsewhere")
    assert complaint(OllamaLoader(server.url)) == "answers 302; redirects are not followed"
    assert server.paths == ["/api/ps"]


def test_no_proxy_of_the_environment_is_asked(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert OllamaLoader(server.url).residents() == ()


def test_a_server_may_live_below_a_path(server: ModelServer) -> None:
    server.misbehave["/models/api/ps"] = says(200, b'{"models": []}')
    assert OllamaLoader(f"{server.url}/models/").residents() == ()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:11434",
        "ftp://127.0.0.1",
        "http://",
        "http://host:99999",
        "http://user:secret@host",
        "http://host/?a=b",
        "http://host/a b",
        "unix:/tmp/models.sock",
    ],
)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"is no address of a model server; write"):
        OllamaLoader(url)
