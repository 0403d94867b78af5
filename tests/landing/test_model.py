"""Random steps on a real store and on plain dicts must agree.

A2, A35, B25, B26, U9, U10, U11, K1, K2, K4, K6, K9: after each step every job's row, rows that it has
landed, attempts, receipts and events are what the model says; only a prune removes a receipt.
`python -m tests.landing.model 10000` takes so many steps from a seed of its own.
"""

from hypothesis import HealthCheck, settings

from tests.landing.model.jobs import Jobs

Jobs.TestCase.settings = settings(
    max_examples=50, stateful_step_count=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_random_steps_agree_with_a_plain_model = Jobs.TestCase
