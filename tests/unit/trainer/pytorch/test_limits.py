from __future__ import annotations

import os
import resource
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from trainer.pytorch.distributed import Distributed, DistributedConfig
from trainer.pytorch.limits import LimitError, check_locked_memory, raise_open_files


@pytest.fixture
def limits(monkeypatch) -> dict:
    """Limits of a process that is not root: soft and hard, as the kernel would give them and take them."""
    held = {resource.RLIMIT_NOFILE: (1024, 1048576), resource.RLIMIT_MEMLOCK: (65536, 65536)}
    monkeypatch.setattr(resource, "getrlimit", held.__getitem__)
    monkeypatch.setattr(resource, "setrlimit", held.__setitem__)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    monkeypatch.delenv("NCCL_NET", raising=False)
    return held


def test_every_rank_may_open_as_many_files_as_its_container(limits):
    assert raise_open_files() == 1048576
    assert limits[resource.RLIMIT_NOFILE] == (1048576, 1048576)

    limits[resource.RLIMIT_NOFILE] = (1024, 4096)
    Distributed(DistributedConfig()).close()
    assert limits[resource.RLIMIT_NOFILE] == (4096, 4096)


@pytest.mark.usefixtures("limits")
def test_rdma_without_locked_memory_is_refused_at_the_start(monkeypatch):
    check_locked_memory()  # nobody asks for RDMA
    monkeypatch.setenv("NCCL_NET", "IB")
    message = r"RLIMIT_MEMLOCK=65536 bytes \(hard limit 65536\) for user 10001: .* unlimited.* Fix: raise memlock"
    with pytest.raises(LimitError, match=message):
        Distributed(DistributedConfig())


def test_rdma_continues_where_memory_can_be_locked(limits, monkeypatch):
    monkeypatch.setenv("NCCL_NET", "IB")
    limits[resource.RLIMIT_MEMLOCK] = (65536, resource.RLIM_INFINITY)
    check_locked_memory()
    assert limits[resource.RLIMIT_MEMLOCK] == (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    limits[resource.RLIMIT_MEMLOCK] = (65536, 65536)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    check_locked_memory()  # root has the capability in effect


def _sockets() -> int:
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            targets.append(str(descriptor.readlink()))
        except FileNotFoundError:  # the listing's own
            continue
    return sum(target.startswith("socket:") for target in targets)


def test_gloo_connects_to_the_ranks_it_talks_to_and_not_to_all():
    Distributed(DistributedConfig()).close()
    ranks, store, before = 6, dist.HashStore(), _sockets()

    def join(rank: int) -> dist.ProcessGroup:
        return dist.ProcessGroupGloo(store, rank, ranks, timedelta(seconds=30))

    with ThreadPoolExecutor(ranks) as threads:
        groups = list(threads.map(join, range(ranks)))
    assert len(groups) == ranks
    # a full mesh would be two for each of the 15 pairs; each rank listens
    assert _sockets() - before < ranks * (ranks - 1)
