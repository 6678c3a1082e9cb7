"""How many processes read for a rank."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tests.tables import each_row
from trainer.common.validation import SettingsError
from trainer.pytorch.data import worker_count as counting
from trainer.pytorch.data.dataset import Batch, DataConfig
from trainer.pytorch.data.digits import DigitsConfig
from trainer.pytorch.data.image_folder import ImageFolderConfig
from trainer.pytorch.data.tokens import TokensConfig
from trainer.pytorch.data.worker_count import worker_count
from trainer.training.digits import DataError

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
MB = 10**6


class Images:
    """Images of 1 MB as bytes, or a damaged one."""

    sample_shape = (1, 1000, 1000)

    def __init__(self, *, damaged: bool = False) -> None:
        self._damaged = damaged

    def batch(self, _indices) -> Batch:
        if self._damaged:
            raise DataError("damaged")
        return Batch(
            inputs=torch.zeros(1, *self.sample_shape, dtype=torch.uint8), targets=torch.zeros(1, 0, dtype=torch.int64)
        )


@pytest.fixture
def count(monkeypatch, tmp_path):
    """Count for a rank with batches of 20 MB."""

    def of(kind: type[DataConfig] = ImageFolderConfig, *, cores=32, ranks=2, free_mb=4000, device=GPU, **options):
        monkeypatch.setattr(counting, "usable_cores", lambda: cores)
        monkeypatch.setattr(counting.shutil, "disk_usage", lambda _path: SimpleNamespace(free=free_mb * MB))
        images = Images(damaged=options.pop("damaged", False))
        config = kind(data_dir=tmp_path, **options)
        return worker_count(config, images, batch_size=20, device=device, ranks=ranks)  # pyright: ignore[reportArgumentType]

    return of


@each_row(
    ("options", "expected"),
    [
        ({}, 8),
        ({"cores": 12}, 5),
        ({"cores": 2}, 1),
        ({"device": CPU}, 0),
        ({"device": CPU, "data_workers": 3}, 3),
        ({"data_workers": 0}, 0),
        ({"data_workers": 12}, 12),
        ({"kind": TokensConfig}, 0),
        ({"kind": DigitsConfig}, 0),
    ],
)
def test_the_cores_of_a_rank_decide(count, options, expected):
    assert count(**options) == (expected, [])


def test_as_many_as_shared_memory_has_room_for(count):
    reduced, notes = count(free_mb=560)  # 140 for a rank's batches: 7, two of which are on their way
    assert reduced == 5
    free = "280 MB are free for each rank, 140 MB of them for NCCL"
    limit = f"batches of 20 MB need 200 MB of /dev/shm for 8 processes, and {free}"
    fix = "Fix: more shared memory (Resources(shared_memory=…) of a job)"
    assert notes == [f"data_workers: 5 instead of 8: {limit}. {fix}"]
    with pytest.raises(SettingsError) as refusal:
        count(free_mb=560, data_workers=6)
    limit = f"batches of 20 MB need 160 MB of /dev/shm for 6 processes, and {free}"
    assert str(refusal.value) == f"data_workers=6: {limit}. {fix}, --data_workers 5, or a lower --batch_size"


@each_row(
    ("options", "expected"),
    [
        ({"free_mb": 3000, "data_workers": 39}, None),  # 1500 for a rank, 671 of them for NCCL
        ({"free_mb": 3000, "data_workers": 40}, 39),
        ({"free_mb": 160, "ranks": 1, "data_workers": 6}, None),  # NCCL connects nothing
        ({"free_mb": 160, "ranks": 1, "data_workers": 7}, 6),
        ({"free_mb": 320, "device": CPU, "data_workers": 2}, None),  # batches wait there for their steps
        ({"free_mb": 320, "device": CPU, "data_workers": 3}, 2),
    ],
)
def test_what_else_is_in_shared_memory_is_left_to_it(count, options, expected):
    if expected is None:
        assert count(**options) == (options["data_workers"], [])
        return
    with pytest.raises(SettingsError, match=rf"--data_workers {expected}, or a lower --batch_size$"):
        count(**options)


def test_without_room_for_any_the_rank_reads_by_itself(count):
    assert count(free_mb=40)[0] == 0
    with pytest.raises(SettingsError, match=r"of a job\), or a lower --batch_size$"):
        count(free_mb=40, data_workers=1)


def test_a_damaged_first_sample_counts_as_numbers_of_four_bytes(count):
    assert count(damaged=True, free_mb=1200)[0] == 1  # 300 for a rank, 80 for a batch


def test_small_batches_need_no_shared_memory(count, monkeypatch):
    monkeypatch.setattr(counting, "PIPE_BYTES", 20 * MB)
    assert count(free_mb=0) == (8, [])
