"""Random steps on a real store and on plain dicts must agree; `tests/landing/model` takes more by hand."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.landing.model.jobs import Jobs

TEN_THOUSAND_STEPS = settings(
    max_examples=100, stateful_step_count=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.timeout(240)
def test_random_steps_agree_with_a_plain_model() -> None:
    """A2, A35, B25, B26, C75-C79, C87, U2, U9, U10, U11, U16, U27, U29, U37, U39, K1, K2, K4, K6, K9, K14.

    After each step every row, what it has landed, its attempts, receipts and events are as the model
    says: one receipt for each ended attempt, a token for each row in flight and for no other, and
    nothing but a prune has removed anything. Nothing waits without a named reason, and when at the end of
    a life the gates are open, nothing is held and time has passed, nothing waits at all.
    """
    run_state_machine_as_test(Jobs, settings=TEN_THOUSAND_STEPS)
