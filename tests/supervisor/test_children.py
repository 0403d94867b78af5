"""What children do to themselves and to the wire: each attempt ends with its reason, the supervisor lives."""

import pytest

from tests.supervisor.serving import House


def test_a_job_travels_from_the_queue_to_landed_rows(house: House) -> None:
    """C120, C124, A20, A21, C83, C86."""
    job = house.enqueue("quick", {"rows": 700})
    assert house.serve().ended == "idle"
    assert house.items(job) == [(n, "quick") for n in range(700)]
    row = house.job(job)
    assert (row["state"], row["reason"]) == ("done", "done")
    assert row["landed_rows"] == 700
    assert row["created_at"] <= row["started_at"] <= row["finished_at"]
    assert [one["outcome"] for one in house.attempts(job)] == ["done"]


@pytest.mark.parametrize(
    ("kind", "reason", "ended"),
    [
        ("exits", "exit code 3", {"code": 3, "signal": None}),
        ("segfaults", "killed by signal 11 (SIGSEGV)", {"code": None, "signal": 11}),
    ],
)
def test_a_death_is_told_apart_and_what_came_before_has_landed(
    house: House, kind: str, reason: str, ended: dict[str, int]
) -> None:
    """C125, C155, FIELD H9."""
    job = house.enqueue(kind)
    house.serve()
    (attempt,) = house.attempts(job)
    assert attempt["outcome"] == "died"
    assert attempt["exit"] == ended
    assert reason in house.job(job)["reason"]
    assert house.items(job) == [(0, "before")]


def test_a_crash_leaves_the_python_stack(house: House) -> None:
    job = house.enqueue("segfaults")
    house.serve()
    (attempt,) = house.attempts(job)
    assert "gallery.py" in attempt["error"]["traceback"]
    assert "segfaults" in attempt["error"]["traceback"]


def test_an_exception_is_terminal_unless_the_lane_retries_on_it(house: House) -> None:
    """C123, C155, U6."""
    once, again = house.enqueue("raises"), house.enqueue("raises", {"retry": True})
    house.serve()
    (attempt,) = house.attempts(once)
    assert attempt["outcome"] == "failed"
    assert attempt["error"]["type"] == "ValueError"
    assert attempt["error"]["message"] == "on purpose"
    assert "gallery.py" in attempt["error"]["traceback"]
    assert house.job(once)["reason"] == "ValueError: on purpose"
    assert [one["outcome"] for one in house.attempts(again)] == ["failed", "failed"]
    assert house.items(once) == [(0, "before")]


def test_a_worker_that_dies_twice_is_tried_again_and_its_rows_land_once(house: House) -> None:
    """U5, U6, FIELD C11."""
    job = house.enqueue("dies_twice")
    house.serve()
    assert [one["outcome"] for one in house.attempts(job)] == ["died", "died", "done"]
    assert house.items(job) == [(0, "first"), (1, "second")]
    assert house.job(job)["failures"] == 2


def test_replay_lands_every_row_once_wherever_attempts_died(house: House) -> None:
    """K2, K3, K4."""
    job = house.enqueue("replayed", {"rows": 200, "stops": [3, 120]})
    house.serve()
    assert [one["outcome"] for one in house.attempts(job)] == ["died", "died", "done"]
    assert [n for n, _ in house.items(job)] == list(range(200))


def test_a_restart_lane_starts_over_and_its_lander_makes_that_harmless(house: House) -> None:
    """K4."""
    job = house.enqueue("restarts")
    house.serve()
    assert sorted(n for n, _ in house.items(job)) == list(range(10))
    assert house.job(job)["state"] == "done"


def test_a_payload_has_its_declared_type_in_both_halves_or_the_job_fails_before_it_starts(
    house: House,
) -> None:
    """C155: refused by the worker in words, never started, not tried again."""
    good, bad = house.enqueue("typed", {"size": 7}), house.enqueue("typed", {"size": "seven"})
    house.serve()
    assert house.items(good) == [(7, "typed")]
    (attempt,) = house.attempts(bad)
    assert (attempt["outcome"], attempt["error_code"]) == ("failed", "payload")
    assert "size" in attempt["error"]["message"]
    assert house.job(bad)["started_at"] is None


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        ("wrong_cell", "row_type", "list"),
        ("large_row", "row_too_large", "row"),
    ],
)
def test_a_bad_row_fails_the_attempt_for_good_and_names_itself(
    house: House, kind: str, code: str, words: str
) -> None:
    """K3: what landed before stays."""
    job = house.enqueue(kind)
    house.serve()
    (attempt,) = house.attempts(job)
    assert (attempt["outcome"], attempt["error_code"]) == ("failed", code)
    assert words in attempt["error"]["message"]
    assert house.items(job) == [(0, "before")]


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("negative", "frame_length"),
        ("oversized", "frame_length"),
        ("zero", "frame_length"),
        ("unknown", "message"),
        ("garbage", "message"),
    ],
)
def test_a_frame_that_is_none_ends_the_worker_and_nothing_else(house: House, frame: str, code: str) -> None:
    """C150, C151: the attempt fails with the reason, earlier rows stay, the next job runs."""
    job, after = house.enqueue("hostile", {"frame": frame}), house.enqueue("quick")
    assert house.serve().ended == "idle"
    (attempt,) = house.attempts(job)
    assert (attempt["outcome"], attempt["error_code"]) == ("failed", code)
    assert house.items(job) == [(0, "before")]
    assert house.job(after)["state"] == "done"


def test_a_torn_frame_at_the_end_is_dropped_and_the_death_is_what_counts(house: House) -> None:
    """C155, FIELD D1."""
    job = house.enqueue("hostile", {"frame": "torn"}, max_attempts=1)
    house.serve()
    (attempt,) = house.attempts(job)
    assert (attempt["outcome"], attempt["exit"]) == ("died", {"code": 0, "signal": None})
    assert house.items(job) == [(0, "before")]


def test_noise_on_stdout_and_stderr_harms_no_batch_and_leaves_a_capped_tail(house: House) -> None:
    """C161, FIELD D7, LESSONS 18, 19."""
    job = house.enqueue("noisy")
    house.serve()
    assert [n for n, _ in house.items(job)] == list(range(50))
    (attempt,) = house.attempts(job)
    assert attempt["outcome"] == "done"
    assert len(attempt["log"]) < 9 << 10
    assert "the end" in attempt["log"], "what Python printed last"
    assert "c 49" in attempt["log"], "what C printed last"
    assert "bytes before this are not kept" in attempt["log"]


def test_a_child_can_ask_a_registered_read_and_no_other(house: House) -> None:
    """C127, C151: reads see landed rows; an unknown verb is a refusal, not an empty answer."""
    job = house.enqueue("asks")
    house.serve()
    rows = dict(house.items(job))
    assert rows[1] == "[[0, 'landed first']]"
    assert "nowhere" in rows[2]
    assert "texts" in rows[2]


def test_nothing_in_a_real_child_leads_to_the_store(house: House) -> None:
    """A23, C127, C156, C159: no module, no descriptor, no variable."""
    job = house.enqueue("looks_around")
    house.serve()
    seen = dict(house.items(job))
    assert seen[0] == "[]"
    home = str(house.home)
    assert home not in seen[1]
    assert home not in seen[2]
    assert "LANEWAY_HOME" not in seen[2]
    names = {line.partition("=")[0] for line in seen[2].splitlines()}
    allowed = {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV"}
    assert names <= allowed | {"PYTHONHASHSEED", "LANEWAY_MARKER"}
