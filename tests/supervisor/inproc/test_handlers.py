"""Handlers: short trusted work in the supervisor, one at a time, beside the slots."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor import App
from supervisor.application import load_application
from tests.supervisor.serving import House

APP = str(Path(__file__).with_name("both_app.py"))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, workers=1, app=APP)


@pytest.mark.parametrize(
    ("answer", "outcome", "result"),
    [
        ("text", "done", '"done well"'),
        ("list", "done", "[1,2.5,null]"),
        ("none", "done", None),
        ("other", "done", '{"status":"fine"}'),
        ("skip", "skipped", None),
    ],
)
def test_what_a_handler_returns_is_its_jobs_result(
    house: House, answer: str, outcome: str, result: str | None
) -> None:
    """C122, U21, U24: an exact dict whose status is "skipped" is no result."""
    job = house.enqueue("answer", {"with": answer})
    assert house.serve().ended == "idle"
    (attempt,) = house.attempts(job)
    assert (attempt["outcome"], house.job(job)["result"]) == (outcome, result)
    assert (house.job(job)["state"], house.job(job)["landed_rows"]) == ("done", 0)


def test_a_subclass_of_dict_is_never_asked_whether_it_skips(house: House) -> None:
    """U24, B36."""
    job = house.enqueue("answer", {"with": "odd"})
    house.serve()
    (attempt,) = house.attempts(job)
    assert attempt["outcome"] == "done"
    assert "Odd" in house.job(job)["result"], "the result is an envelope about it"


@pytest.mark.parametrize(
    ("what", "state", "outcomes", "code"),
    [
        ("retry", "failed", ["failed", "failed"], "retry"),
        ("fail", "failed", ["failed"], "raised"),
        ("skip", "done", ["skipped"], "raised"),
        ("error", "failed", ["failed"], "raised"),
        ("exit", "failed", ["failed"], "raised"),
    ],
)
def test_a_handler_that_raises_ends_its_job_and_the_loop_goes_on(
    house: House, what: str, state: str, outcomes: list[str], code: str
) -> None:
    """C123, U24."""
    job, after = house.enqueue("raises", {"what": what}), house.enqueue("answer", {"with": "text"})
    assert house.serve().ended == "idle"
    attempts = house.attempts(job)
    assert house.job(job)["state"] == state
    assert [one["outcome"] for one in attempts] == outcomes
    assert {one["error_code"] for one in attempts} == {code}
    assert house.job(after)["state"] == "done"


def test_handlers_run_one_at_a_time(house: House) -> None:
    """C122."""
    jobs = [house.enqueue("alone") for _ in range(10)]
    house.serve()
    assert {house.job(job)["state"] for job in jobs} == {"done"}
    assert set(sys.modules["both_app"].met) == {1}


@pytest.mark.parametrize("mode", ["inproc", "subprocess"])
def test_a_handler_uses_no_slot(house: House, tmp_path: Path, mode: str) -> None:
    """K12: it cancels the job that holds the only one; a thread that hangs is left, a process is killed."""
    house.settings = replace(house.settings, kinds={"deaf": {"mode": mode, "batch_deadline": 0.0}})
    house.application = load_application(house.settings)
    holder = house.enqueue("deaf", {"file": str(tmp_path / "there")})
    job = house.enqueue("cancels", {"home": str(house.home), "job": holder})
    assert house.serve().ended == "idle"
    (tmp_path / "there").touch()
    assert (house.job(job)["state"], house.job(holder)["state"]) == ("done", "cancelled")
    (attempt,) = house.attempts(holder)
    assert attempt["outcome"] == "cancelled"
    assert attempt["kill"].get("abandoned", False) is (mode == "inproc")


def test_a_handler_may_not_have_what_only_lanes_have() -> None:
    """K16: and it is not run again by itself once it has begun, unless it says that it may."""
    app = App("a")
    with pytest.raises(
        ValueError, match="unknown option 'batch_rows'; a handler takes payload, job_deadline"
    ):
        app.handler("h", batch_rows=3)
    app.handler("h")(lambda job, ctx: None)
    app.handler("again", retry_safe=True)(lambda job, ctx: None)
    assert [one.declared["retry_safe"] for one in app.handlers.values()] == [False, True]
    with pytest.raises(ValueError, match="registered twice"):
        app.lane("h")
    with pytest.raises(ValueError, match=r"must take \(job, ctx\)"):
        app.handler("g")(lambda job: None)
