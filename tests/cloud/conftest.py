"""What the tests against a pretended account share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures.cloud import load_mirrored_volcano
from tests.fixtures.local_cluster import quiet_progress
from tools.api_double.double import ApiDouble
from tools.local_cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def behind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The cluster behind the account; a module names it in CLUSTER, for several may run at once, and its STACK."""
    home = tmp_path_factory.mktemp("behind")
    cluster = LocalCluster(request.module.CLUSTER, home=home)
    try:
        cluster.up(quiet_progress(home))
        load_mirrored_volcano(cluster, request.module.STACK, quiet_progress(home))
        yield cluster
    finally:
        cluster.down(quiet_progress(home))


@pytest.fixture(scope="module")
def account(behind: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiDouble]:
    folder = tmp_path_factory.mktemp("account")
    with ApiDouble(folder, kubeconfig=behind.kubeconfig.read_text(encoding="utf-8")) as double:
        yield double
