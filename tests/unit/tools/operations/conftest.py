"""A log store that answers what a test has put into it, and its client."""

import pytest

from athanor.inspection.log_store import LogStore
from tests.unit.tools.operations.stored_logs import StoredLogs


@pytest.fixture
def logs() -> StoredLogs:
    return StoredLogs()


@pytest.fixture
def store(logs):
    with logs.serve() as address:
        client = LogStore(address)
        yield client
        client.close()
