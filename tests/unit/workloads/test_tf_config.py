"""TF_CONFIG: every process finds itself in it, under the name that DNS knows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row
from workloads.tensorflow import CLUSTER_ROLES, cluster_spec, tf_config

REPLICAS = st.dictionaries(st.sampled_from(CLUSTER_ROLES), st.integers(0, 20), min_size=1)


def test_it_is_what_volcanos_plugin_writes():
    """Its own text for two workers and a parameter server, byte for byte."""
    cluster = cluster_spec("job-0123abcd", {"worker": 2, "ps": 1}, 2222)
    assert tf_config(cluster, "worker", 1) == (
        '{"cluster":{"ps":["job-0123abcd-ps-0.job-0123abcd:2222"],'
        '"worker":["job-0123abcd-worker-0.job-0123abcd:2222","job-0123abcd-worker-1.job-0123abcd:2222"]},'
        '"task":{"type":"worker","index":1}}'
    )


@given(REPLICAS, st.integers(1, 65535))
def test_every_process_finds_its_own_address(replicas, port):
    cluster = cluster_spec("job", replicas, port)
    assert {role: len(hosts) for role, hosts in cluster.items()} == {role: n for role, n in replicas.items() if n}
    everyone = [address for hosts in cluster.values() for address in hosts]
    assert len(set(everyone)) == len(everyone)
    for role, hosts in cluster.items():
        for index, address in enumerate(hosts):
            config = json.loads(tf_config(cluster, role, index))
            assert config["cluster"][config["task"]["type"]][config["task"]["index"]] == address
            assert address == f"job-{role}-{index}.job:{port}"


@each_row(("role", "index"), [("worker", 2), ("worker", -1), ("chief", 0)])
def test_a_process_that_is_not_there_has_none(role, index):
    with pytest.raises(ValueError, match=f"{role} {index}"):
        tf_config(cluster_spec("job", {"worker": 2}, 2222), role, index)
