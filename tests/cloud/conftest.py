"""What the tests against a pretended account share: the cluster that stands behind it, one for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api_double.double import ApiDouble
from tests.fixtures.cloud import load_mirrored_volcano
from tests.fixtures.local_cluster import quiet_progress
from tools.local_cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

STACK = "dev"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The cluster behind the account; each file leaves it as it was."""
    home = tmp_path_factory.mktemp("behind")
    cluster = LocalCluster("behind", home=home)
    try:
        cluster.up(quiet_progress(home))
        load_mirrored_volcano(cluster, STACK, quiet_progress(home))
        yield cluster
    finally:
        cluster.down(quiet_progress(home))
    assert cluster.leftovers() == []


@pytest.fixture(scope="module")
def account(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiDouble]:
    folder = tmp_path_factory.mktemp("account")
    # Each passing state costs the provider seconds; tests/engine shows it all of them.
    with ApiDouble(folder, settling_reads=0, kubeconfig=cluster.kubeconfig.read_text(encoding="utf-8")) as double:
        yield double
