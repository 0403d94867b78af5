"""Children that do not start, or not yet: whom that holds, whom it keeps waiting, and whom not."""

from errno import EAGAIN, EMFILE, ENFILE, ENOENT, ENOMEM
from pathlib import Path

import pytest

from supervisor import events
from supervisor.application import Profile
from supervisor.children.starts import LONGEST_WAIT, STARTS, Starts
from tests.supervisor.serving import House, wait_for
from tests.supervisor.test_app_changed import meanwhile

APP = """
import os, resource, sys, time
from supervisor import App

app = App({name!r})
app.migration(1, "CREATE TABLE t (n INT)")
IN_CHILD = "LANEWAY_MARKER" in os.environ


def lane(**options):
    def register(half):
        made = app.lane(half.__name__, env=["COVERAGE_PROCESS_CONFIG"], **options)(half)
        made.lander(lambda db, job, rows: None)
        return made
    return register


def until(path):
    while IN_CHILD and not os.path.exists(path):
        time.sleep(0.005)

{more}

@lane({options})
def fine(job, ctx):
    yield (1,)
"""
HANGING = """
if os.nice(0) in (17, 18):
    until({go!r})

@lane(nice=17)
def hangs(job, ctx):
    yield (1,)

@lane(nice=18)
def hangs_too(job, ctx):
    yield (1,)
"""
JAILING = """
@lane(spawn="cold")
def jails(job, ctx):
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3))
    yield (1,)
"""
P = Profile(("app",))


class Clock:
    """Seconds that pass when they are told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def write(folder: Path, name: str, more: str, options: str = "") -> str:
    source = folder / f"{name}.py"
    source.write_text(APP.format(name=name, more=more, options=options))
    return str(source)


def states(house: House, jobs: list[int]) -> set[str]:
    return {house.job(job)["state"] for job in jobs}


def warnings(house: House, code: str) -> list[str]:
    return [one.text for one in house.of(events.Warned) if one.code == code]


# --- what counts


def test_starts_that_fail_together_count_as_one() -> None:
    """K13."""
    starts = Starts(clock := Clock())
    for _ in range(STARTS - 1):
        began = clock.now
        clock.now += 1.0
        for _ in range(4):
            starts.failed(P, "the licence server is busy", began)
        assert not starts.may_start(P)
        clock.now = starts.next_try()
        assert starts.may_start(P)
    starts.failed(P, "the licence server is busy", clock.now)
    assert starts.held[P].code == "app_start_failed"


def test_a_start_that_got_work_makes_the_count_begin_anew() -> None:
    """K13."""
    starts = Starts(clock := Clock())
    for _ in range(STARTS):
        starts.failed(P, "no", clock.now)
        starts.held_up(P)
    assert starts.held == {}
    assert starts.may_start(P)


@pytest.mark.parametrize("number", [EAGAIN, ENOMEM, EMFILE, ENFILE])
def test_a_system_without_room_holds_no_application_however_long_that_lasts(number: int) -> None:
    """FIELD: EMFILE, EAGAIN."""
    starts, waits = Starts(clock := Clock()), []
    for count in range(50):
        starts.failed(P, f"no room, {count}", clock.now, number)
        waits.append(round(starts.next_try() - clock.now, 3))
        clock.now = starts.next_try()
    assert starts.held == {}
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT
    assert starts.lack == "no room, 0"


def test_any_other_error_of_the_system_is_a_failure() -> None:
    """K13."""
    starts = Starts(clock := Clock())
    for _ in range(STARTS):
        starts.failed(P, "no such folder", clock.now, ENOENT)
        clock.now += 100.0
    assert (starts.held[P].code, starts.lack) == ("app_start_failed", "")


def test_a_start_that_was_put_off_may_take_longer_the_next_time() -> None:
    """K13: an import that takes its time comes to its end."""
    starts = Starts(clock := Clock())
    first = starts.patience(P)
    starts.put_off(P)
    assert starts.next_try() == clock.now + first
    assert starts.patience(P) == 2 * first
    starts.began_well(P)
    assert starts.patience(P) == first


# --- in a run


def test_until_one_has_started_well_there_is_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K13: an import that fails for a moment fails once in it, not in each slot."""
    monkeypatch.setattr("supervisor.children.roll.SLOW_START", 0.5)
    go, tries = tmp_path / "go", tmp_path / "tries"
    tries.mkdir()
    more = f"""
if IN_CHILD:
    open({str(tries)!r} + f"/{{os.getpid()}}", "w").close()
    until({str(go)!r})
"""
    house = House(tmp_path, workers=4, app=write(tmp_path, "one_at_a_time", more, 'spawn="cold"'))
    jobs = [house.enqueue("fine") for _ in range(8)]
    seen: list[int] = []

    def look() -> None:
        wait_for(lambda: warnings(house, "child_start_slow"))
        seen.append(len(list(tries.iterdir())))
        go.touch()

    with meanwhile(look):
        assert house.serve().ended == "idle"
    assert seen == [1]
    assert states(house, jobs) == {"done"}


def test_an_import_that_hangs_keeps_no_other_kind_from_its_work(tmp_path: Path) -> None:
    """K13, K12."""
    go = tmp_path / "go"
    house = House(tmp_path, app=write(tmp_path, "one_hangs", HANGING.format(go=str(go))))
    hanging = [house.enqueue("hangs") for _ in range(3)]
    fine = [house.enqueue("fine") for _ in range(6)]
    seen: list[set[str]] = []

    def look() -> None:
        wait_for(lambda: states(house, fine) == {"done"})
        seen.append(states(house, hanging))
        go.touch()

    with meanwhile(look):
        assert house.serve().ended == "idle"
    assert seen == [{"queued"}]
    assert states(house, hanging) == {"done"}


def test_where_every_place_hangs_one_is_tried_instead_and_none_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K13, K12: one slot, two imports that hang, and a third kind."""
    monkeypatch.setattr("supervisor.children.starts.SLOW_START", 0.5)
    go = tmp_path / "go"
    house = House(tmp_path, workers=1, app=write(tmp_path, "all_hang", HANGING.format(go=str(go))))
    hanging = [house.enqueue("hangs"), house.enqueue("hangs_too")]
    fine = [house.enqueue("fine") for _ in range(4)]

    def look() -> None:
        wait_for(lambda: states(house, fine) == {"done"})
        go.touch()

    with meanwhile(look):
        assert house.serve().ended == "idle"
    assert states(house, hanging) == {"done"}
    assert [house.job(job)["claims"] for job in hanging] == [1, 1]


def test_a_guardian_that_a_job_left_without_descriptors_is_replaced(tmp_path: Path) -> None:
    """FIELD: EMFILE."""
    app = write(tmp_path, "jails", JAILING, 'spawn="cold"')
    house = House(tmp_path, workers=1, app=app)
    jobs = [house.enqueue("jails"), house.enqueue("jails")]
    jobs += [house.enqueue("fine") for _ in range(3)]
    assert house.serve().ended == "idle"
    assert states(house, jobs) == {"done"}
    assert len(warnings(house, "child_start_waits")) <= 1
