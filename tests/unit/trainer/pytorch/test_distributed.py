from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from trainer.pytorch.distributed import MainRankError


def test_failure_of_rank_0_is_raised_by_the_others_instead_of_waiting(alone, monkeypatch):
    def broadcast(answer, **_):
        answer[0] = (None, "OSError: disk full")

    monkeypatch.setattr(dist, "broadcast_object_list", broadcast)
    alone.rank = 1
    with pytest.raises(MainRankError, match="OSError: disk full"):
        alone.on_main(lambda: pytest.fail("only rank 0 does the work"))


def test_failure_of_rank_0_is_its_own_exception_there(alone):
    with pytest.raises(ZeroDivisionError):
        alone.on_main(lambda: 1 / 0)
    assert alone.on_main(lambda: 7) == 7


def test_the_thread_that_aborts_uses_the_gpu_of_its_rank(alone, monkeypatch):
    done = []
    monkeypatch.setattr(torch.cuda, "set_device", done.append)
    monkeypatch.setattr(alone, "_dump_collectives", lambda: done.append("dump"))
    monkeypatch.setattr(alone, "device", torch.device("cuda", 3))
    group = SimpleNamespace(abort=lambda: done.append("abort"))
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_group", lambda: group)
    alone._abort()
    assert done == [torch.device("cuda", 3), "dump", "abort"]
