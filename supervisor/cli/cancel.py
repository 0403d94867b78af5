"""`supervisor cancel`: says what was verified, not what was asked for."""

from landing.errors import InvalidTransition, JobNotFound
from supervisor.cli import hints
from supervisor.cli.output import complain, print_json
from supervisor.client import Client
from supervisor.errors import WaitedTooLong
from supervisor.settings.place import find_home
from supervisor.told.kills import survivors

SETTLE_SECONDS = 15.0
"""How long a running job may take to end: the default grace, and what a large process needs to go."""


def cancel_command(*, home: str | None, as_json: bool, ids: tuple[int, ...]) -> int:
    """Cancel each job; 1 says that one was not there, or had ended before."""
    client = Client(find_home(home))
    states: dict[int, str] = {}
    failed = False
    for job in ids:
        try:
            states[job] = client.cancel(job).state
        except (JobNotFound, InvalidTransition) as error:
            complain(str(error))
            failed = True
    settle(client, states)
    if as_json:
        print_json([{"id": job, "state": state} for job, state in states.items()])
    else:
        for job, state in states.items():
            print(f"#{job} {verified(client, job, state)}")
    return 1 if failed else 0


def settle(client: Client, states: dict[int, str]) -> None:
    """Wait until the supervisor has ended the children of jobs that were running."""
    under_way = [job for job, state in states.items() if state == "cancelling"]
    try:
        for row in client.wait(under_way, SETTLE_SECONDS):
            states[row["id"]] = row["state"]
    except WaitedTooLong as error:
        for job in set(under_way) - set(error.ids):
            states[job] = client.job(job)["state"]


def verified(client: Client, job: int, state: str) -> str:
    """Say what is known now."""
    if state == "cancelling":
        look = hints.command(f"show {job}")
        return f"cancelling: its batches are refused, its process has not ended yet ({look})"
    attempts = client.attempts(job)
    if not attempts:
        return f"{state}; it had not started"
    if left := survivors(attempts[-1]["kill"]):
        return f"{state}, but not all could be killed; survivors: {left}"
    return f"{state}, its process is gone"
