"""Take many random steps by hand: python -m tests.landing.model [STEPS [SEED]]."""

import random
import sys

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.landing.model.jobs import Jobs

STEPS_OF_A_LIFE = 100


def main(steps: int = 10_000, start: int | None = None) -> None:
    """Say what is taken, then take it; a step at which store and model differ is shown with all before it."""
    start = random.randrange(1 << 32) if start is None else start
    print(f"{steps} steps, seed {start}", flush=True)
    lives = settings(
        max_examples=max(1, steps // STEPS_OF_A_LIFE),
        stateful_step_count=STEPS_OF_A_LIFE,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(start)(Jobs), settings=lives)
    print("store and model agree")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
