"""A seeded part of the damaged requests of mutations.py: no crash, no hang, no 5xx for what the client did wrong."""

from collections import Counter

import pytest

from tests.unit.trainer.serve import mutations


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with mutations.own_server(tmp_path_factory.mktemp("mutations")) as server:
        yield server


def test_damaged_http_requests(server):
    statuses = mutations.attack_http(server, 1500, seed=7)
    mutations.check(server, statuses, Counter())
    assert {"200", "400", "404"} <= statuses.keys()


def test_damaged_grpc_messages(server):
    codes = mutations.attack_grpc_messages(server, 700, seed=7)
    mutations.check(server, Counter(), codes)
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND"} <= codes.keys()


def test_damaged_http2_frames(server):
    mutations.attack_grpc_frames(server, 300, seed=7)
    mutations.check(server, Counter(), Counter())
