"""Random steps on a real store and on plain dicts must agree; `tests/landing/model` takes more by hand."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.landing.model.jobs import Jobs

FIVE_THOUSAND_STEPS = settings(
    max_examples=50, stateful_step_count=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_random_steps_agree_with_a_plain_model() -> None:
    """A2, A35, B25, B26, U9, U10, U11, K1, K2, K4, K6, K9.

    After each step every row, what it has landed, its attempts, receipts and events are as the model
    says: one receipt for each ended attempt, a token for each row in flight and for no other, and
    nothing but a prune has removed anything.
    """
    run_state_machine_as_test(Jobs, settings=FIVE_THOUSAND_STEPS)
