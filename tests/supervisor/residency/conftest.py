from collections.abc import Iterator

import pytest

from tests.supervisor.residency.model_server import ModelServer, serving


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving() as running:
        yield running
