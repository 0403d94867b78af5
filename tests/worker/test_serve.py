"""Jobs one after another in a real child."""

import subprocess
import sys

import pytest

from ipc.errors import AppError
from ipc.messages import Ack, Batch, Done, Failed, Ready, ResumePoint, Started, Stop
from ipc.sources import pack, read
from worker.registry import load_lanes

COUNT = """
    @app.lane("count")
    def count(job, ctx):
        for n in range(job.payload["n"]):
            yield n, f"row {n}"
        return {"rows": job.payload["n"], "attempt": job.attempt, "key": job.key}
"""


def test_a_job_goes_from_run_to_done(spawn, rows):
    """C124, C151: Started comes first, then batches in order, then Done with the last seq and the result."""
    said = spawn(COUNT).job("count", '{"n": 1000}', number=3, key="k")
    assert isinstance(said[0], Started)
    assert [one.seq for one in said if isinstance(one, Batch)] == list(range(1, len(said) - 1))
    assert rows(said) == [(n, f"row {n}") for n in range(1000)]
    assert said[-1] == Done(len(said) - 2, '{"attempt":3,"key":"k","rows":1000}')


def test_one_child_serves_several_jobs_and_kinds(spawn, rows):
    worker = spawn(
        COUNT
        + """
    @app.lane("fail")
    def fail(job, ctx):
        yield 1,
        raise RuntimeError("no")
    """
    )
    for n in (3, 0, 700):
        assert rows(worker.job("count", f'{{"n": {n}}}')) == [(i, f"row {i}") for i in range(n)]
        assert isinstance(worker.job("fail")[-1], Failed)
    worker.send(Ack(99))  # late news of a job that is over
    assert isinstance(worker.job("count", '{"n": 1}', landed_seq=41)[1], Batch)


def test_seq_goes_on_from_the_last_landed_batch(spawn):
    """K2: landed_seq is per job and never reset by a claim."""
    said = spawn(COUNT).job("count", '{"n": 300}', resume="restart", landed_seq=17)
    assert [one.seq for one in said if isinstance(one, Batch)] == list(range(18, 18 + len(said) - 2))
    assert said[-1].last_seq == 17 + len(said) - 2


def test_a_second_run_under_way_is_not_a_thing(spawn, run):
    """Nothing but Ack, ReadReply and Stop reaches a working child; it says so and lives."""
    worker = spawn("""
        @app.lane("endless")
        def endless(job, ctx):
            while True:
                yield 1,
    """)
    worker.send(run("endless"))
    worker.send(run("endless"))
    failed = worker.until(Failed)[-1]
    assert (failed.type, failed.message) == ("ProtocolError", "order: Run came while a job is under way")


def test_ready_names_all_kinds(start):
    worker = start(COUNT + "\n    @app.lane('also')\n    def also(job, ctx): ...\n")
    ready = worker.next()
    assert isinstance(ready, Ready)
    assert ready.kinds == ["also", "count"]


def test_ready_tells_what_the_application_was_loaded_from(start, tmp_path):
    """K13: its own file and its helpers, wherever it goes meanwhile; nothing of ours or of Python's."""
    helper = tmp_path / "helper_of_it.py"
    helper.write_text("x = 1\n")
    ready = start(COUNT + "\n    import json, os, msgspec, helper_of_it\n    os.chdir('/')\n").next()
    paths = [tmp_path.resolve() / "app_under_test.py", helper.resolve()]
    files = {str(path): read(str(path)) for path in paths}
    assert ready.sources == pack(files)
    helper.write_text("x = 22\n")
    assert start(COUNT + "\n    import helper_of_it\n").next().sources != pack(files)


def test_a_working_folder_that_is_gone_is_said(tmp_path, monkeypatch):
    """K13: in words, as all that keeps an application from being loaded."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(AppError, match="the working folder: No such file or directory"):
        load_lanes(["app_under_test.py"])


def test_an_idle_child_leaves_at_stop_and_at_the_end_of_the_stream(spawn):
    """C151, U41: a clean exit, with nothing on stderr."""
    stopped = spawn(COUNT)
    stopped.send(Stop("shutdown"))
    assert stopped.wait_exit() == 0
    assert stopped.output() == ""
    left = spawn(COUNT)
    left.channel.close()
    assert left.wait_exit() == 0


def test_an_unknown_kind_is_a_typed_failure_and_imports_nothing(spawn):
    """C158: a kind from the wire selects among registered lanes, it is never a path to import."""
    worker = spawn(COUNT + "\n    import sys\n")
    for kind in ("os.system", "count.compute", "app_under_test:count", ""):
        said = worker.job(kind)
        assert len(said) == 1
        assert (said[0].code, said[0].last_seq) == ("unknown_kind", 0)
        assert "count" in said[0].message
    assert isinstance(worker.job("count", '{"n": 1}')[-1], Done)


def test_a_payload_is_converted_to_the_declared_type(spawn, rows):
    worker = spawn("""
        import msgspec
        class Order(msgspec.Struct):
            name: str
            size: int = 7
        @app.lane("order", payload=Order)
        def order(job, ctx):
            yield type(job.payload).__name__, job.payload.name, job.payload.size
    """)
    assert rows(worker.job("order", '{"name": "x"}')) == [("Order", "x", 7)]
    refused = worker.job("order", '{"name": 3}')
    assert len(refused) == 1
    assert refused[0].code == "payload"
    assert "Expected `str`, got `int` - at `$.name`" in refused[0].message
    assert worker.job("order", '{"name": "y"}')[-1] == Done(1)


def test_what_is_no_rows_is_the_result(spawn, rows):
    """A half may be a plain function: None is nothing, an iterable is rows, anything else is the result."""
    worker = spawn("""
        @app.lane("none")
        def none(job, ctx): ctx.log("did it")
        @app.lane("list")
        def list_(job, ctx): return [(1,), (2,)]
        @app.lane("iterator")
        def iterator(job, ctx): return map(lambda n: (n,), range(3))
        @app.lane("dict")
        def dict_(job, ctx): return {"b": (1, 2), "a": None}
        @app.lane("text")
        def text(job, ctx): return "é"
        @app.lane("object")
        def object_(job, ctx): return app
        @app.lane("async")
        async def async_(job, ctx): return 1
        @app.lane("stream")
        async def stream(job, ctx): yield 1,
    """)
    assert worker.job("none") == [Started(), Done(0)]
    assert rows(worker.job("list")) == [(1,), (2,)]
    assert rows(worker.job("iterator")) == [(0,), (1,), (2,)]
    assert worker.job("dict")[-1] == Done(0, '{"a":null,"b":[1,2]}')
    assert worker.job("text")[-1] == Done(0, '"\\u00e9"')
    assert '"projection":"bounded"' in worker.job("object")[-1].result
    for kind in ("async", "stream"):
        assert worker.job(kind)[-1].code == "row_type"
        assert "async" in worker.job(kind)[-1].message
    worker.send(Stop(""))
    worker.wait_exit()
    assert worker.output() == "did it\n", "no complaint of a coroutine that nobody awaited"


def test_an_app_that_does_not_load_says_where(start, tmp_path):
    """K13: app_start_failed names file and line; the child leaves with exit code 1."""
    worker = start("import math\nmath.no_such_thing\n")
    failed = worker.next()
    assert isinstance(failed, Failed)
    assert (failed.code, failed.last_seq) == ("app_start_failed", 0)
    assert "app_under_test.py:4)" in failed.message
    assert "no_such_thing" in failed.message
    assert "\n" not in failed.message
    assert worker.wait_exit() == 1


def test_two_apps_may_not_share_a_kind(start, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}_app.py").write_text(
            f"from supervisor import App\nmine = App('{name}')\n@mine.lane('same')\ndef same(job, ctx): ...\n"
        )
    failed = start(specs=["one_app.py:mine", "two_app.py:mine"]).next()
    assert failed.code == "app_start_failed"
    assert "'same'" in failed.message
    both = start(specs=["one_app.py:mine"]).next()
    assert both.kinds == ["same"]


def test_what_is_no_app_is_refused(start):
    failed = start("app = 3\n").next()
    assert failed.code == "app_start_failed"
    assert "no App" in failed.message


def test_a_checkpoint_job_whose_rows_all_landed_is_done(spawn):
    """K4: only the end of the half leaves rows after the last mark, so nothing is yielded twice."""
    worker = spawn(COUNT)
    said = worker.job("count", '{"n": 5}', resume="checkpoint", point=ResumePoint("m", 2), landed_seq=4)
    assert said == [Started(), Done(4)]


def test_a_lane_that_became_checkpoint_between_two_marks_does_not_pass_for_done(spawn):
    """K4: rows that a replay landed after the last mark are not the last of the job."""
    worker = spawn(COUNT)
    point = ResumePoint("m", 2, b"x" * 16)
    started, failed = worker.job("count", '{"n": 5}', resume="checkpoint", point=point, landed_seq=4)
    assert started == Started()
    assert (failed.code, failed.last_seq) == ("resume_mismatch", 4)
    assert "laneway retry 1 --from-start" in failed.message


def test_a_bad_command_line_is_one_line_and_exit_2(start):
    argv = [sys.executable, "-P", "-m", "worker", "--channel", "x"]
    ended = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("usage:")
    assert ended.stderr.count("\n") == 1
