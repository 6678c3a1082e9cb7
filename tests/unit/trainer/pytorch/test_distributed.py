from __future__ import annotations

import pytest
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
