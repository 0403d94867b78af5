"""A child whose application is another than the supervisor's is not used, and claiming stops (K13)."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor import events
from supervisor.application import load_application
from supervisor.told.status import status
from supervisor.told.story import story
from tests.supervisor.changing import NEWER, OLD, change, running, told, write_app
from tests.supervisor.serving import House, wait_for

COLD = 'spawn="cold"'
REMEDY = "start again, or run with --reload"


@contextmanager
def meanwhile(act: Callable[[], Any]) -> Iterator[None]:
    """Do something on another thread, as the run here needs this one."""
    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def unused(house: House, jobs: list[int]) -> list[int]:
    """Return which jobs still wait, all of them untouched."""
    left = [job for job in jobs if house.job(job)["state"] == "queued"]
    assert [house.job(job)["claims"] for job in left] == [0] * len(left)
    assert [house.attempts(job) for job in left] == [[]] * len(left)
    return left


def done(house: House, job: int) -> bool:
    return bool(house.job(job)["state"] == "done")


def texts(house: House, jobs: list[int]) -> set[str]:
    return {text for job in jobs for _, text in told(house, job)}


def test_an_application_that_changed_after_it_was_loaded_is_not_used(tmp_path: Path) -> None:
    """K13: no attempt is used, the run says which file and what to do."""
    source = write_app(tmp_path, "changed_early")
    house = House(tmp_path, app=str(source))
    job = house.enqueue("tell")
    change(source)
    served = house.serve()
    assert served.ended == "app_changed"
    assert served.detail == f"{source.resolve()} changed since this run loaded the application; {REMEDY}"
    assert unused(house, [job]) == [job]


def test_cold_children_see_new_code_and_what_runs_goes_on(tmp_path: Path) -> None:
    """K13: of the jobs that wait, the standby may still take one, with the old code like all others."""
    source = write_app(tmp_path, "changed_cold", options=COLD)
    house = House(tmp_path, workers=1, app=str(source))
    go = tmp_path / "go"
    under_way = house.enqueue("wait", {"until": str(go)})
    waiting = [house.enqueue("tell") for _ in range(4)]

    def edit() -> None:
        wait_for(lambda: house.job(under_way)["landed_rows"] == 1)
        change(source)
        go.touch()

    with meanwhile(edit):
        served = house.serve()
    assert served.ended == "app_changed"
    assert told(house, under_way) == [(0, OLD), (1, OLD)]
    assert done(house, under_way)
    assert len(unused(house, waiting)) >= 3
    assert texts(house, waiting) <= {OLD}


def test_copies_of_a_template_go_on_with_its_code_until_it_is_replaced(tmp_path: Path) -> None:
    """K13, DESIGN 5: what is written to the file changes nothing; a new template is a new child."""
    source = write_app(tmp_path, "changed_template")
    house = House(tmp_path, workers=1, app=str(source))
    go = tmp_path / "go"
    before = [house.enqueue("tell") for _ in range(6)]
    first = house.enqueue("wait", {"until": str(go)})
    after = [house.enqueue("tell") for _ in range(6)]
    orphan = house.enqueue("orphan")
    last = [house.enqueue("tell") for _ in range(4)]

    def edit() -> None:
        wait_for(lambda: house.job(first)["landed_rows"] == 1)
        guardians = {guardian for job in before for guardian, _ in told(house, job)}
        assert len(guardians) == 2, "each has a template that has made copies by now"
        change(source)
        go.touch()

    with meanwhile(edit):
        served = house.serve()
    assert all(done(house, job) for job in (*before, first, *after, orphan))
    assert texts(house, [*before, first, *after, orphan]) == {OLD}
    assert served.ended == "app_changed", "the job that ended its template has had a new one be started"
    assert unused(house, last)
    assert texts(house, last) <= {OLD}


def test_a_run_that_goes_on_says_so_once(tmp_path: Path) -> None:
    """K13: one warning; it holds no other application's jobs up, and a stop is a stop."""
    source = write_app(tmp_path, "changed_daemon", options=COLD)
    house = House(tmp_path, app=str(source))
    with running(house) as run:
        first = house.enqueue("tell")
        wait_for(lambda: done(house, first))
        change(source)
        jobs = [house.enqueue("tell") for _ in range(9)]
        wait_for(lambda: "changed since" in run.out_file.read_text())
        (tmp_path / "note.md").write_text("a note")
        notes = house.enqueue("vault_sync", {"root": str(tmp_path)})
        wait_for(lambda: done(house, notes))
        assert run.end() == 0
    assert unused(house, jobs)
    assert texts(house, jobs) <= {OLD}
    [warning] = [line for line in run.out if "changed since" in line]
    assert f"warning: {source.resolve()} changed since this run loaded the application; {REMEDY}" in warning


@pytest.mark.parametrize("breaks", [False, True])
def test_status_and_show_tell_why_the_jobs_of_a_held_application_wait(tmp_path: Path, breaks: bool) -> None:
    """K13, promise 7: not healthy, with the reason; the kind is one that the supervisor has loaded."""
    name = f"held_{breaks}".lower()
    source = write_app(tmp_path, name, options=COLD)
    house = House(tmp_path, app=str(source))
    with running(house) as run:
        first = house.enqueue("tell")
        wait_for(lambda: done(house, first))
        change(source)
        if breaks:
            source.write_text("raise RuntimeError('broken by the change')\n")
        jobs = [house.enqueue("tell") for _ in range(9)]
        facts = wait_for(lambda: (found := status(house.home))["claiming_stopped"] and found)
        last = story(house.home, jobs[-1])
        assert run.end() == 0
    code, words = ("app_start_failed", "broken by the change") if breaks else ("app_changed", REMEDY)
    assert not facts["healthy"]
    [reason] = facts["reasons"]
    assert words in reason
    [held] = facts["claiming_stopped"]
    assert (held["code"], held["text"]) == (code, reason)
    assert sorted(held["kinds"]) == ["count", "orphan", "tell", "wait"]
    assert last["waits"][0]["reason"] == code
    assert {group["reason"] for group in facts["waiting"]} <= {code, "queued", "others_run"}
    after = status(house.home)
    assert after["claiming_stopped"] == [], "it is the run that holds them, no more"
    assert story(house.home, jobs[-1])["waits"][0]["reason"] == "no_supervisor"


def test_a_run_until_idle_ends_with_code_2_and_what_to_do(tmp_path: Path) -> None:
    """K13, DESIGN 7: exit 2 is for the application, too; the next run takes the jobs, with the new code."""
    source = write_app(tmp_path, "changed_idle", options=COLD)
    house = House(tmp_path, workers=1, app=str(source))
    go = tmp_path / "go"
    under_way = house.enqueue("wait", {"until": str(go)})
    jobs = [house.enqueue("tell") for _ in range(4)]
    with running(house, "--until-idle") as run:
        wait_for(lambda: house.job(under_way)["landed_rows"] == 1)
        change(source)
        go.touch()
        assert run.process.wait(30) == 2
    left = unused(house, jobs)
    assert run.err == [f"error: {source.resolve()} changed since this run loaded the application; {REMEDY}"]
    assert any(line.startswith("app changed: ") and f"{len(left)} left" in line for line in run.out)
    with running(house, "--until-idle") as run:
        assert run.process.wait(30) == 0
    assert texts(house, left) == {NEWER}


@pytest.mark.parametrize("spawn", ["auto", "cold"])
def test_imports_that_only_one_side_makes_are_no_difference(tmp_path: Path, spawn: str) -> None:
    """K13: only what both have loaded is compared."""
    for name in ("child", "parent"):
        (tmp_path / f"only_{name}_{spawn}.py").write_text("x = 1\n")
    more = f"""
if "LANEWAY_MARKER" in os.environ:
    import only_child_{spawn}
else:
    import only_parent_{spawn}
"""
    source = write_app(tmp_path, f"conditional_{spawn}", options=f'spawn="{spawn}"', more=more)
    house = House(tmp_path, app=str(source))
    job = house.enqueue("tell")
    for name in ("child", "parent"):
        (tmp_path / f"only_{name}_{spawn}.py").write_text("x = 22\n")
    assert house.serve().ended == "idle"
    assert done(house, job)


def test_a_helper_counts_as_much_as_the_application_itself(tmp_path: Path) -> None:
    """K13: the modules of its folder, in packages too; the first is named, the others are counted."""
    (tmp_path / "parts_of_it").mkdir()
    for name in ("__init__", "one", "two"):
        (tmp_path / "parts_of_it" / f"{name}.py").write_text("x = 1\n")
    more = "\nfrom parts_of_it import one, two\n"
    house = House(tmp_path, app=str(write_app(tmp_path, "has_helpers", more=more)))
    house.enqueue("tell")
    for name in ("one", "two"):
        (tmp_path / "parts_of_it" / f"{name}.py").write_text("x = 22\n")
    served = house.serve()
    assert served.ended == "app_changed"
    assert f"{tmp_path.resolve()}/parts_of_it/one.py and 1 more changed since" in served.detail


def test_a_file_that_changed_while_it_was_loaded_is_not_trusted(tmp_path: Path) -> None:
    """K13: the supervisor cannot know which of the two it has loaded, children have loaded the newer."""
    helper = tmp_path / "helps_and_changes.py"
    helper.write_text("x = 1\n")
    more = f"""
import helps_and_changes
if "LANEWAY_MARKER" not in os.environ:
    time.sleep(0.02)  # longer than a tick of the clock that files are stamped by
    with open({str(helper)!r}, "w") as file:
        file.write("x = 22\\n")
"""
    house = House(tmp_path, app=str(write_app(tmp_path, "changes_its_helper", more=more)))
    job = house.enqueue("tell")
    served = house.serve()
    assert served.ended == "app_changed"
    assert str(helper.resolve()) in served.detail
    assert unused(house, [job]) == [job]


def test_a_file_that_was_only_touched_is_the_same(tmp_path: Path) -> None:
    """K13: its bytes count."""
    source = write_app(tmp_path, "touched_only", options=COLD)
    house = House(tmp_path, app=str(source))
    job = house.enqueue("tell")
    text = source.read_text()
    source.unlink()
    source.write_text(text)
    assert house.serve().ended == "idle"
    assert done(house, job)


@pytest.mark.parametrize("changes", [False, True])
def test_a_folder_that_is_reached_by_a_link_makes_no_difference(tmp_path: Path, changes: bool) -> None:
    """K13: children work where the link leads, their supervisor may name the link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write_app(tmp_path / "real", f"linked_{changes}".lower())
    source = tmp_path / "link" / f"linked_{changes}.py".lower()
    house = House(tmp_path, app=str(source))
    house.settings = replace(house.settings, folder=tmp_path / "link")
    house.application = load_application(house.settings)
    job = house.enqueue("tell")
    if changes:
        change(source)
    assert house.serve().ended == ("app_changed" if changes else "idle")
    assert done(house, job) is not changes


BREAKS = {
    "raises": ("raise RuntimeError('not in a child')", "RuntimeError: not in a child", ".py:"),
    "exits": ("os._exit(9)", "exit code 9", ""),
    "dies": ("os.kill(os.getpid(), 11)", "killed by signal 11 (SIGSEGV)", ""),
}


@pytest.mark.parametrize("spawn", ["auto", "cold"])
@pytest.mark.parametrize("how", BREAKS)
def test_why_an_application_does_not_start_is_told_whichever_way_children_come(
    tmp_path: Path, spawn: str, how: str
) -> None:
    """K13: file and line where it is an exception, else how the process ended; no attempt is used."""
    breaks, said, where = BREAKS[how]
    more = f"\nif 'LANEWAY_MARKER' in os.environ:\n    {breaks}\n"
    source = write_app(tmp_path, f"{how}_{spawn}", options=f'spawn="{spawn}"', more=more)
    house = House(tmp_path, app=str(source))
    job = house.enqueue("tell")
    served = house.serve()
    assert served.ended == "app_start_failed"
    assert said in served.detail
    if where:
        line = source.read_text().count("\n")
        assert f"({source}:{line})" in served.detail
    assert unused(house, [job]) == [job]


@pytest.mark.parametrize("spawn", ["auto", "cold"])
def test_an_import_that_hangs_is_told_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spawn: str
) -> None:
    """K13: a person hears of it once; a model that takes long to load is none that failed."""
    monkeypatch.setattr("supervisor.children.roll.SLOW_START", 0.2)
    go = tmp_path / "go"
    more = f"""
while "LANEWAY_MARKER" in os.environ and not os.path.exists({str(go)!r}):
    time.sleep(0.005)
"""
    source = write_app(tmp_path, f"hangs_{spawn}", options=f'spawn="{spawn}"', more=more)
    house = House(tmp_path, app=str(source))
    job = house.enqueue("tell")

    def slow() -> list[str]:
        return [one.text for one in house.of(events.Warned) if one.code == "child_start_slow"]

    with meanwhile(lambda: (wait_for(slow), go.touch())):
        assert house.serve().ended == "idle"
    assert len(slow()) == 1
    assert f"importing {source}" in slow()[0]
    assert done(house, job)


def test_json_tells_it_with_a_code(tmp_path: Path) -> None:
    """K13: what a program reads."""
    source = write_app(tmp_path, "changed_json", options=COLD)
    house = House(tmp_path, workers=1, app=str(source))
    go = tmp_path / "go"
    under_way = house.enqueue("wait", {"until": str(go)})
    for _ in range(4):
        house.enqueue("tell")
    with running(house, "--until-idle", "--json") as run:
        wait_for(lambda: house.job(under_way)["landed_rows"] == 1)
        change(source)
        go.touch()
        assert run.process.wait(30) == 2
    ended = json.loads(run.out[-1])
    assert (ended["event"], ended["ended"]) == ("RunEnded", "app_changed")
    assert str(source.resolve()) in ended["detail"]
