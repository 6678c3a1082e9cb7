from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from trainer.pytorch import distributed
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


def test_all_groups_are_aborted_at_once_from_the_latest_on_the_gpu_of_the_rank(alone, monkeypatch):
    of_thread, begun = threading.local(), []
    all_have_begun = threading.Barrier(4)

    def group(name):
        def abort() -> None:
            begun.append((name, of_thread.device))
            all_have_begun.wait(60)  # each waits for a kernel of the others, as NCCL may

        return SimpleNamespace(abort=abort)

    monkeypatch.setattr(torch.cuda, "set_device", lambda device: setattr(of_thread, "device", device))
    monkeypatch.setattr(alone, "_dump_collectives", lambda: begun.append("dump"))
    monkeypatch.setattr(alone, "device", torch.device("cuda", 3))
    default = group("default")
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_group", lambda: default)
    alone.abort_with([group("shard"), group("tensor")])
    alone._abort()
    all_have_begun.wait(60)
    assert begun[0] == "dump"
    assert sorted(begun[1:]) == [(name, torch.device("cuda", 3)) for name in ("default", "shard", "tensor")]


def test_a_volume_that_hangs_does_not_keep_an_abort(alone, monkeypatch):
    answers, aborted = threading.Event(), threading.Event()
    monkeypatch.setattr(distributed, "_DUMP_SECONDS", 0.01)
    monkeypatch.setattr(alone, "_dump_collectives", lambda: answers.wait(60))
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_group", lambda: SimpleNamespace(abort=aborted.set))
    alone._abort()
    assert aborted.wait(60)
    assert not answers.is_set()
    answers.set()
