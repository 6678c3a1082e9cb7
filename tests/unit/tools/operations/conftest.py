"""A log store that answers what a test has put into it, and its client."""

from __future__ import annotations

import pytest

from tests.unit.tools.operations.stored_logs import StoredLogs
from tools.operations.log_store import LogStore


@pytest.fixture
def logs() -> StoredLogs:
    return StoredLogs()


@pytest.fixture
def store(logs):
    with logs.serve() as address:
        client = LogStore(address)
        yield client
        client.close()
