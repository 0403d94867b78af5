"""One store, round after round: start a supervisor, break it, look at what it left; at the end let it finish.

draw -> start -> [act ...] -> dead -> its children gone? -> what must hold, holds? -> draw ...
"""

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from random import Random

from landing.errors import InvalidTransition, JobNotFound, StoreError
from supervisor.client import Client
from supervisor.faults import MARKER
from tests.chaos.figures import FROM_OUTSIDE, Figures
from tests.chaos.invariants import last_settled, open_store, wrongs
from tests.chaos.lanes import app
from tests.chaos.processes import Supervisor, seconds_until_gone
from tests.chaos.schedule import Act, Round, Step, draw, draw_job

GONE_SECONDS = 2.0
TAKEN_OVER_SECONDS = 1.0
"""A supervisor ends what a dead guardian kept; one that dies so soon after it may not have done so."""
WHOLE_EVERY = 50
FIRST_ROW_SECONDS = 30.0
LAST_RUN_SECONDS = 120.0

KILLED = -signal.SIGKILL
FIRST = Round((), (Step(1.0, Act.KILL),))
LAST = Round((), ())


class Violation(Exception):
    """Something that must hold does not."""


class Chaos:
    """A seed's worth of trouble for one store.

    Args:
        folder: where the home and the supervisor's output are kept.
        seed: from which everything is drawn.
        say: told how it goes, in lines.
    """

    def __init__(self, folder: Path, seed: int, say: Callable[[str], object]) -> None:
        self.home = folder / "home"
        self._output = folder / "output.txt"
        self._dice = Random(seed)
        self._say = say
        self._client = Client(self.home, app)
        self._settled = 0
        self._boot = 0.0
        self._guardian_killed = float("-inf")
        self._unguarded = ""
        self.figures = Figures()

    def run(self, kills: int, *, max_seconds: float) -> Figures:
        """Kill a supervisor so often, then let one finish what is left.

        Raises:
            Violation: something was lost, repeated or left running, or it took longer than `max_seconds`.
        """
        began, reported = time.monotonic(), 0
        self._open()
        while (killed := self.figures.kills.total()) < kills:
            if (spent := time.monotonic() - began) > max_seconds:
                raise Violation(f"only {killed} kills in {max_seconds:g} s")
            if killed >= reported + WHOLE_EVERY:
                reported = killed
                self._say(self.figures.progress(spent))
            self._play(draw(self._dice, self._backlog()))
        self._finish()
        self.figures.seconds = time.monotonic() - began
        return self.figures

    def _open(self) -> None:
        """Make the store, mark it as a test's, and see how long a supervisor takes to its first row."""
        for step in [draw_job(self._dice) for _ in range(6)]:
            self._client.enqueue(step.kind, step.payload)
        (self.home / MARKER).touch()
        supervisor = Supervisor(self.home, "", self._output)
        until = supervisor.started + FIRST_ROW_SECONDS
        with closing(open_store(self.home)) as db:
            while not db.execute("SELECT MAX(landed_rows) FROM laneway_jobs").fetchone()[0]:
                if supervisor.wait(time.monotonic() + 0.005) or time.monotonic() > until:
                    break
        self._boot = time.monotonic() - supervisor.started
        code = supervisor.end()
        self._count_end(code, FROM_OUTSIDE)
        self._judge(FIRST, code)

    def _play(self, drawn: Round) -> None:
        """Play one round: take each step when it is due, unless the supervisor has ended by then."""
        supervisor = Supervisor(self.home, ",".join(drawn.faults), self._output)
        try:
            for step in drawn.steps:
                if by_itself := supervisor.wait(supervisor.started + step.at * self._boot):
                    break
                self._act(step, supervisor)
        except StoreError as error:
            raise Violation(f"{self._story(drawn)}: {step} was refused: {error}") from error
        finally:
            code = supervisor.end()
        if time.monotonic() - self._guardian_killed < TAKEN_OVER_SECONDS:
            self._unguarded = self._marker_of(supervisor)
        self._count_end(code, (by_itself and drawn.deadly_point) or FROM_OUTSIDE)
        self._judge(drawn, code, whole=self.figures.rounds % WHOLE_EVERY == 0)

    def _act(self, step: Step, supervisor: Supervisor) -> None:
        match step.act:
            case Act.ENQUEUE:
                self._client.enqueue(step.kind, step.payload)
            case Act.CANCEL:
                self._change(self._client.cancel, "state NOT IN ('done', 'cancelled')", step.pick)
            case Act.RETRY:
                self._change(self._client.retry, "state = 'cancelled'", step.pick)
            case Act.RETRY_FROM_START:
                anew = partial(self._client.retry, from_start=True)
                self._change(anew, "state = 'cancelled'", step.pick)
            case Act.KILL_GUARDIAN:
                self._guardian_killed = time.monotonic()
                kill_one(supervisor.guardians(), step.pick)
            case Act.KILL_TEMPLATE:
                kill_one(supervisor.templates(), step.pick)
            case Act.KILL_WORKER:
                kill_one(supervisor.workers(), step.pick)
            case Act.KILL_TOGETHER:
                self._guardian_killed = time.monotonic()
                supervisor.kill_together()
            case Act.TERM:
                supervisor.send(signal.SIGTERM)
            case Act.KILL:
                supervisor.send(signal.SIGKILL)
        self.figures.acts[step.act] += 1

    def _change(self, change: Callable[[int], object], which: str, pick: float) -> None:
        """Change one of the jobs that are `which`, if there is one; it may have ended meanwhile."""
        with closing(open_store(self.home)) as db:
            query = f"SELECT id FROM laneway_jobs WHERE id > ? AND {which} ORDER BY id"
            jobs = [row[0] for row in db.execute(query, (self._settled,))]
        with suppress(InvalidTransition, JobNotFound, IndexError):
            change(jobs[int(pick * len(jobs))])

    def _backlog(self) -> int:
        with closing(open_store(self.home)) as db:
            query = "SELECT COUNT(*) FROM laneway_jobs WHERE id > ? AND state NOT IN ('done', 'cancelled')"
            return int(db.execute(query, (self._settled,)).fetchone()[0])

    # --- judge

    def _judge(self, drawn: Round, code: int, *, whole: bool = False) -> None:
        """Look at what a supervisor left; `whole` reads each page and index of the store.

        Raises:
            Violation: the round, and what is wrong.
        """
        self.figures.rounds += 1
        wrong = [] if code in drawn.exits else [f"it ended with {code}, and nothing told it to"]
        if wrong := [*wrong, *self._left_running(), *self._wrong_store(whole=whole)]:
            output = self._output.read_text("utf-8", "replace")[-2000:]
            lines = "\n  ".join(wrong)
            raise Violation(f"{self._story(drawn)}:\n  {lines}\n{output}")

    def _story(self, drawn: Round) -> str:
        return f"round {self.figures.rounds} ({drawn})"

    def _count_end(self, code: int, where: str) -> None:
        if code == KILLED:
            self.figures.kills[where] += 1
        else:
            self.figures.ends[f"exit code {code}" if code >= 0 else f"signal {-code}"] += 1

    def _left_running(self) -> list[str]:
        """Say which processes outlive their run; if a guardian died with it, they may until the next."""
        with closing(open_store(self.home)) as db:
            runs = db.execute("SELECT marker FROM laneway_runs ORDER BY id DESC LIMIT 3").fetchall()
        markers = [row[0] for row in runs]
        if self._unguarded in markers[:1]:
            del markers[0]
        seconds, left = seconds_until_gone(markers, GONE_SECONDS)
        self.figures.slowest_gone = max(self.figures.slowest_gone, seconds)
        return [f"processes still there after {GONE_SECONDS:g} s: {left}"] if left else []

    def _marker_of(self, supervisor: Supervisor) -> str:
        """Return the marker of a supervisor's run, "" where it has died before that was opened."""
        with closing(open_store(self.home)) as db:
            query = "SELECT pid, marker FROM laneway_runs ORDER BY id DESC LIMIT 1"
            pid, marker = db.execute(query).fetchone() or (0, "")
        return str(marker) if pid == supervisor.pid else self._unguarded

    def _wrong_store(self, *, whole: bool) -> list[str]:
        began = time.monotonic()
        with closing(open_store(self.home)) as db:
            wrong = list(wrongs(db, self._settled, whole=whole))
            self._settled = last_settled(db, self._settled)
        self.figures.slowest_check = max(self.figures.slowest_check, time.monotonic() - began)
        return wrong

    # --- the end

    def _finish(self) -> None:
        """Let a supervisor do all that is left, with nothing in its way, and look at everything once more.

        Raises:
            Violation: a job has not ended, or something is wrong.
        """
        supervisor = Supervisor(self.home, "", self._output)
        ended = supervisor.wait(supervisor.started + LAST_RUN_SECONDS)
        code = supervisor.end()
        if not ended:
            raise Violation(f"the last supervisor was not done within {LAST_RUN_SECONDS:g} s")
        self._settled = 0
        self._judge(LAST, code, whole=True)
        with closing(open_store(self.home)) as db:
            self._count_store(db)
        if unended := set(self.figures.jobs) - {"done", "cancelled"}:
            raise Violation(f"jobs are left: {sorted(unended)}")

    def _count_store(self, db: sqlite3.Connection) -> None:
        self.figures.jobs.update(dict(db.execute("SELECT state, COUNT(*) FROM laneway_jobs GROUP BY state")))
        self.figures.attempts = db.execute("SELECT COUNT(*) FROM laneway_receipts").fetchone()[0]
        self.figures.rows = db.execute("SELECT COUNT(*) FROM chaos_rows").fetchone()[0]


def kill_one(pids: list[int], pick: float) -> None:
    """Kill one of some processes, if there is one; it may have ended meanwhile."""
    with suppress(ProcessLookupError, IndexError):
        os.kill(pids[int(pick * len(pids))], signal.SIGKILL)
