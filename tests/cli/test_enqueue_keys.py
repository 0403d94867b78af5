"""Keys and tiers on the command line: what is met instead of made, and what is refused."""

import pytest

from tests.cli.shell import Shell

QUEUED = "hint: queued; no supervisor runs here, start one: supervisor run"
KINDS = """
from supervisor import App

app = App("kinds")


@app.lane("digest", unique="waiting")
def digest(job, ctx):
    yield 1


@app.lane("ingest", unique="forever")
def ingest(job, ctx):
    yield 1


@app.lane("plain")
def plain(job, ctx):
    yield 1


for lane in (digest, ingest, plain):
    lane.lander(lambda db, job, rows: None)
"""


@pytest.fixture
def kinds(shell: Shell) -> Shell:
    shell.write("kinds.py", KINDS)
    shell.write("supervisor.toml", 'app = "kinds.py"\n[tiers.minilm]\nwindow = 512\n')
    return shell


def test_the_same_with_a_key_is_queued_once_and_said(kinds: Shell) -> None:
    """U2, C74, K15: stdout has the id either way."""
    assert kinds("enqueue", "plain", "--key", "k", "--json").json == {"id": 1, "outcome": "created"}
    again = kinds("enqueue", "plain", "--key", "k")
    assert (again.code, again.out) == (0, "1\n")
    assert again.lines == ["hint: #1 waits already; no job was added for the same again"]
    again = kinds("enqueue", "plain", "--key", "k", "--json")
    assert (again.json, again.lines) == ({"id": 1, "outcome": "coalesced"}, [])
    assert len(kinds("jobs", "--json").json) == 1


ROUTER = """

@app.router
def choose(kind, payload):
    print("asked about", kind)
    return {1: "minilm", 2: "minlm"}[payload]
"""


def test_a_router_is_asked_where_the_application_is_loaded_and_what_it_cannot_say_is_a_warning(
    kinds: Shell,
) -> None:
    """C110, K15: what it prints is no answer."""
    kinds.write("kinds.py", KINDS + ROUTER)
    done = kinds("enqueue", "plain", "--lines", "-", "--json", "--app", "kinds.py", stdin=b"1\n2\n3\n3\n")
    assert [one["outcome"] for one in done.json] == ["created"] * 4
    assert done.lines == [
        *["asked about plain"] * 4,
        "warning: the router said 'minlm', which is no tier; the rules decided instead",
        "warning: the router raised KeyError; the rules decided instead",
        f"{QUEUED} --app kinds.py",
    ]
    assert kinds("enqueue", "plain", "1").lines == ["asked about plain", QUEUED]
    tiers = [kinds("show", str(job), "--json").json["tier"] for job in (1, 2, 3, 5)]
    assert tiers == ["minilm", "", "", "minilm"]


def test_a_router_of_the_settings_is_asked_each_time_and_nobody_else_loads_the_application(
    kinds: Shell,
) -> None:
    """C110: the same request has the same result, whether the store knows the kind or not."""
    kinds.write("kinds.py", f'{KINDS}{ROUTER}\nprint("loaded")\n')
    for job in ("1", "2"):
        assert kinds("enqueue", "plain", "1").lines == ["loaded", "asked about plain", QUEUED]
        assert kinds("show", job, "--json").json["tier"] == "minilm"
    assert kinds("enqueue", "plain", "1", "--tier", "routine").lines == [QUEUED]
    kinds.write("kinds.py", "import nowhere_to_be_found")
    warned, queued = kinds("enqueue", "plain", "1").lines
    assert warned.startswith("warning: the router was not asked, for the application does not load: ")
    assert queued == QUEUED
    assert kinds("show", "4", "--json").json["tier"] == ""


def test_lines_meet_each_other_and_what_is_there(kinds: Shell) -> None:
    """U2: in one transaction; a dozen are counted and not all named."""
    lines = b"".join(b"%d\n" % n for n in range(12))
    kinds("enqueue", "digest", "--lines", "-", stdin=lines)
    done = kinds("enqueue", "digest", "--lines", "-", stdin=lines + b"99\n3\n")
    assert done.out.split() == [str(n) for n in (*range(1, 14), 4)]
    names = " ".join(f"#{n}" for n in range(1, 11))
    assert done.lines[0] == f"hint: {names} and 2 more wait already; no job was added for the same again"
    told = kinds("enqueue", "digest", "--lines", "-", "--json", stdin=b"0\n100\n").json
    assert [one["outcome"] for one in told] == ["coalesced", "created"]


def test_a_kind_that_does_the_same_only_once_says_that_it_is_there(kinds: Shell) -> None:
    """A9, U2: whatever has become of it, so nobody is told to start a supervisor for it."""
    kinds("enqueue", "ingest")
    kinds("cancel", "1")
    done = kinds("enqueue", "ingest")
    assert (done.code, done.out) == (0, "1\n")
    assert done.lines == ["hint: #1 is there already; no job was added for the same again"]
    assert kinds("enqueue", "ingest", "--json").json == {"id": 1, "outcome": "existing"}


def test_a_key_in_use_is_refused_in_one_line(kinds: Shell) -> None:
    """U2: exit 2, nothing is written."""
    kinds("enqueue", "plain", "--key", "k")
    line = kinds.refused("enqueue", "plain", '{"n": 1}', "--key", "k", code=2)
    assert line.startswith("key 'k' belongs to job #1, which waits with another payload; cancel it")
    line = kinds.refused("enqueue", "plain", "--lines", "-", "--key", "new", stdin=b"1\n2\n", code=2)
    assert line == "key 'new' stands for one waiting job, not for 2 payloads; nothing was queued"
    assert kinds.refused("enqueue", "plain", "--key", "", code=2).startswith("key must be 1 to 1000")
    assert len(kinds("jobs", "--json").json) == 1


def test_a_limit_that_nothing_holds_a_thread_to_is_told(kinds: Shell) -> None:
    """U20, C121: the job is queued all the same."""
    kinds.write("supervisor.toml", 'app = "kinds.py"\n[kinds.plain]\nmode = "inproc"\n')
    done = kinds("enqueue", "plain", "--memory-limit", "1GB")
    told = "hint: plain runs on a thread, which nothing holds to --memory-limit: it has no effect"
    assert (done.out, done.lines) == ("1\n", [told, QUEUED])
    assert kinds("enqueue", "digest", "--memory-limit", "1GB").lines == [QUEUED]


def test_a_payload_that_lacks_its_quotes_is_shown_with_them(kinds: Shell) -> None:
    """C72, K15."""
    line = kinds.refused("enqueue", "plain", "docs", code=2)
    assert line.endswith("""; JSON is, for example, '"docs"'""")
    line = kinds.refused("enqueue", "plain", "{root: docs}", code=2)
    assert line.endswith("""; JSON is, for example, '{"root": "docs"}'""")


def test_jobs_of_a_kind_that_nobody_knows_are_not_listed(kinds: Shell) -> None:
    """K15: as with hold."""
    kinds("enqueue", "plain")
    assert kinds.refused("jobs", "--kind", "plian", code=2).startswith(
        'unknown kind "plian" (did you mean "plain"?)'
    )
    assert kinds("jobs", "--kind", "digest").out == "no jobs\n"


def test_a_tier_is_one_of_the_settings(kinds: Shell) -> None:
    """C112: also before any run has written them down; exit 2 for one that nobody has defined."""
    line = kinds.refused("enqueue", "plain", "--tier", "minlm", code=2)
    assert line.startswith("unknown tier 'minlm'; tiers here: minilm, pinned, routine")
    assert line.endswith('(did you mean "minilm"?)')
    assert kinds("jobs", "--json").json == []
    assert kinds("enqueue", "plain", "--tier", "minilm", "--key", "k").code == 0
    job = kinds("show", "1", "--json").json
    assert (job["tier"], job["key"]) == ("minilm", "k")
    assert kinds("show", "1").out.splitlines()[1] == "queue    tier minilm, key k"


@pytest.mark.parametrize("priority", ["soon", "1.5", "", "0x10"])
def test_a_priority_that_is_no_whole_number_is_refused_in_one_line(priority: str, kinds: Shell) -> None:
    """C72."""
    assert "is not a valid integer" in kinds.refused("enqueue", "plain", "--priority", priority, code=2)
    assert not kinds.home.exists()


def test_a_priority_that_no_queue_could_hold_is_refused(kinds: Shell) -> None:
    """C72: any whole number up to a thousand million, either way."""
    line = kinds.refused("enqueue", "plain", "--priority", str(10**30), code=2)
    assert line.startswith("priority must be a whole number from -1000000000 to 1000000000")
    assert kinds("enqueue", "plain", "--priority", "-7").code == 0
    assert kinds("show", "1", "--json").json["priority"] == -7
