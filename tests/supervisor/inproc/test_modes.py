"""The same job as a process and on a thread: the same rows, marks and digests, also half and half."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from policies.job import Mode
from supervisor.application import load_application
from supervisor.client import Client
from supervisor.errors import ApplicationRefused
from supervisor.settings.values import Flags, Settings, load_settings
from tests.supervisor.serving import House

APP = str(Path(__file__).with_name("both_app.py"))
KINDS = ("tuples", "dicts", "structs", "reused")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, workers=1, app=APP)


def choose(house: House, **modes: str) -> None:
    """Let kinds run in these modes from now on."""
    house.settings = replace(house.settings, modes=modes)
    house.application = load_application(house.settings)


def landed(house: House, job: int) -> tuple[Any, ...]:
    """Return what a job has landed and where it stands, but for where its batches were cut."""
    row = house.job(job)
    assert row["state"] == "done", row["reason"]
    [point] = house.query("SELECT landed_rows, mark, skip, digest FROM laneway_jobs WHERE id = ?", job)
    return house.items(job), *point


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("payload", [{"count": 1050}, {"count": 700, "marks": False}])
def test_both_modes_land_the_same(house: House, kind: str, payload: dict[str, Any]) -> None:
    """C143, U20, K3: a row is encoded when it is yielded, so a list that is used again does no harm."""
    came = []
    for mode in Mode:
        choose(house, **{kind: mode})
        job = house.enqueue(kind, payload)
        assert house.serve().ended == "idle"
        came.append(landed(house, job))
    assert came[0] == came[1]
    assert [n for n, _ in came[0][0]] == list(range(payload["count"]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("modes", [("subprocess", "inproc"), ("inproc", "subprocess")])
def test_a_job_goes_on_in_the_other_mode_where_it_was(
    house: House, kind: str, modes: tuple[str, str]
) -> None:
    """U20, K4: reversible at any time, in the middle of a job too."""
    choose(house, **{kind: modes[0]})
    whole = house.enqueue(kind, {"count": 1050})
    broken = house.enqueue(kind, {"count": 1050, "breaks_at": 777})
    house.serve()
    assert house.job(broken)["state"] == "failed"
    assert house.job(broken)["landed_rows"] >= 700
    choose(house, **{kind: modes[1]})
    Client(house.home).retry(broken)
    house.serve()
    assert landed(house, broken) == landed(house, whole)
    assert [one["world"]["spawn"].split()[0] == "inproc" for one in house.attempts(broken)] == [
        mode == "inproc" for mode in modes
    ]


def test_a_thread_asks_and_logs_like_a_child(house: House) -> None:
    """C121."""
    choose(house, asks="inproc")
    job = house.enqueue("asks")
    house.serve()
    (attempt,) = house.attempts(job)
    assert (house.job(job)["result"], attempt["log"]) == ('{"rows":0}', "about to ask\n")
    assert attempt["exit"] is None, "no process has ended"


def test_compute_runs_in_a_process_unless_somebody_chose_otherwise(house: House) -> None:
    """C121, U20."""
    first = house.enqueue("pids")
    house.serve()
    choose(house, pids="inproc")
    second = house.enqueue("pids")
    house.serve()
    assert {text for _, text in house.items(first)}.isdisjoint({str(os.getpid())})
    assert {text for _, text in house.items(second)} == {str(os.getpid())}


def chosen(settings: Settings) -> dict[str, tuple[str, str]]:
    kinds = load_application(settings).kinds
    return {kind: (str(one.choice.mode), one.choice.why) for kind, one in kinds.items()}


def test_the_command_line_comes_first_then_the_kinds_section_the_decorator_and_the_default(
    tmp_path: Path,
) -> None:
    """U20: `default_mode` moves all that can be moved; what is sealed stays a process."""
    (tmp_path / "supervisor.toml").write_text(
        'default_mode = "inproc"\n[kinds.deaf]\nmode = "subprocess"\n[kinds.dicts]\nmode = "subprocess"\n'
    )
    settings = load_settings(Flags(app=APP, modes=("dicts=inproc",)), tmp_path, {})
    modes = chosen(settings)
    assert modes["tuples"] == ("inproc", "settings")
    assert modes["deaf"] == ("subprocess", "settings")
    assert modes["slow"] == ("inproc", "decorator")
    assert modes["dicts"] == ("inproc", "command line")
    assert modes["answer"] == ("inproc", "handler")
    assert modes["vault_sync"] == ("subprocess", "sealed or shielded")
    (tmp_path / "supervisor.toml").unlink()
    assert chosen(load_settings(Flags(app=APP), tmp_path, {}))["tuples"] == ("subprocess", "default")


def test_what_is_to_be_kept_from_the_network_is_refused_on_a_thread(house: House) -> None:
    """U20: a thread has no walls of its own."""
    house.settings = replace(house.settings, kinds={"tuples": {"network": False, "mode": "inproc"}})
    with pytest.raises(ApplicationRefused, match="network = false, which only a process can have"):
        load_application(house.settings)


@pytest.mark.parametrize(
    ("modes", "why"),
    [
        ({"tupels": "inproc"}, "unknown kind 'tupels' .did you mean \"tuples\""),
        ({"answer": "subprocess"}, "'answer' is a handler, which always runs inproc"),
    ],
)
def test_a_mode_for_nobody_is_refused(house: House, modes: dict[str, str], why: str) -> None:
    """U20."""
    with pytest.raises(ApplicationRefused, match=why):
        choose(house, **modes)
