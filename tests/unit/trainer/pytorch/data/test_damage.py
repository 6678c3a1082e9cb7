"""Damaged samples: which of them a run goes on without, how they are reported, and how they are named beyond that."""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from PIL import Image

from tests.tables import each_row
from tests.unit.trainer.pytorch.small_runs import GO_ON, events, metric
from trainer.pytorch.data import samples, token_files
from trainer.pytorch.data.batches import Batches
from trainer.pytorch.data.damage import UndamagedDataset
from trainer.pytorch.data.dataset import Batch, DamagedSampleError, Dataset, InMemoryDataset
from trainer.pytorch.data.image_folder import ImageFolderConfig
from trainer.pytorch.data.sampler import IndexSampler
from trainer.pytorch.data.tokens import TokensConfig
from trainer.pytorch.export_config import ExportConfig
from trainer.pytorch.loop import Trainer
from trainer.pytorch.task import Task
from trainer.training import digits
from trainer.training.digits import DataError

if TYPE_CHECKING:
    from pathlib import Path


class Numbers(Dataset):
    """Samples that are their numbers, some of them damaged."""

    sample_shape, classes = (1,), 10

    def __init__(self, *damaged: int) -> None:
        self._damaged = damaged

    def __len__(self) -> int:
        return 10

    def batch(self, indices: torch.Tensor) -> Batch:
        for number in indices.tolist():
            if number in self._damaged:
                raise DamagedSampleError(number, f"file {number}: damaged. Fix: replace it")
        return Batch(inputs=indices[:, None].float(), targets=indices)


def test_the_next_usable_sample_takes_the_place_of_a_damaged_one_which_is_reported_once():
    reported = []
    dataset = UndamagedDataset(Numbers(3, 4, 9), most=3, report=reported.append)
    for _ in range(2):
        assert dataset.batch(torch.tensor([9, 3, 0, 4, 7])).targets.tolist() == [0, 5, 0, 5, 7]
    assert sorted(each.number for each in reported) == [3, 4, 9]
    assert dataset.name(3) == "sample 5"
    elsewhere = pickle.loads(pickle.dumps(UndamagedDataset(Numbers(3), most=1, report=print)))
    batch = pickle.loads(pickle.dumps(elsewhere.batch(torch.tensor([3]))))
    assert [(each.number, str(each)) for each in batch.damaged] == [(3, "file 3: damaged. Fix: replace it")]
    assert elsewhere.batch(torch.tensor([3])).damaged == ()


def test_more_damaged_samples_than_allowed_are_named_with_the_fix():
    everything = torch.arange(10)
    with pytest.raises(
        DataError, match=r"^file 3: damaged\. Fix: replace it, or --skip_damaged 1 to leave out up to 1$"
    ):
        UndamagedDataset(Numbers(3, 4), most=0, report=None).batch(everything)
    message = r"^2 damaged samples, skip_damaged=1: file 3: .*, file 4: .* Fix: replace them, or --skip_damaged 2 to"
    with pytest.raises(DataError, match=message):
        UndamagedDataset(Numbers(3, 4), most=1, report=None).batch(everything)
    with pytest.raises(DataError, match=r"^10 damaged samples, .* and 5 more\. Fix: "):
        UndamagedDataset(Numbers(*range(10)), most=99, report=None).batch(everything)


def test_what_a_worker_has_left_out_is_reported_by_the_rank():
    reported = []
    sampler = IndexSampler(num_samples=10, batch_size=10, rank=0, world_size=1, seed=0)
    dataset = UndamagedDataset(Numbers(3), most=1, report=reported.append)
    source = Batches(dataset, sampler, workers=1, device=torch.device("cpu"), report=reported.append)
    for _ in range(3):
        assert sorted(next(source).targets.tolist()) == [0, 1, 2, 4, 4, 5, 6, 7, 8, 9]
    source.close()
    assert [str(each) for each in reported] == ["file 3: damaged. Fix: replace it"]


def test_a_run_goes_on_without_damaged_images_and_says_so(small, tmp_path):
    samples.prepare_images(tmp_path / "images")
    damaged = [tmp_path / "images" / name for name in ("train/3/0003.png", "val/5/0005.png")]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:60])

    def config(skip_damaged: int):
        data = ImageFolderConfig(data_dir=tmp_path / "images", batch_size=128, skip_damaged=skip_damaged)
        return small(data=data, export=ExportConfig(model_name="folder"))

    trainer = Trainer(config(1))
    with pytest.raises(DataError, match=r"2 damaged samples, skip_damaged=1: .*train/3/0003\.png: .*val/5/0005\.png: "):
        trainer.train(GO_ON)
    trainer.close()
    trainer = Trainer(config(2))  # which resumes after the epoch
    trainer.train(GO_ON)
    trainer.close()
    left_out = [(event["left_out"], event["most"], event["problem"]) for event in events(config(2), "sample_left_out")]
    assert [each[:2] for each in left_out] == [(1, 1), (1, 2)]
    assert left_out[0][2].startswith(f"{damaged[0]}: cannot be read as an image: ")
    assert left_out[1][2].startswith(f"{damaged[1]}: cannot be read as an image: ")
    assert metric(trainer, "damaged_samples_total") == 1


def images(data_dir: Path) -> Path:
    """Write one image of each of two classes and splits; return that of class a for training."""
    for place in ("train/a", "train/b", "val/a", "val/b"):
        (data_dir / place).mkdir(parents=True)
        Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(data_dir / place / "0.png")
    return data_dir / "train/a/0.png"


def test_whatever_pillow_raises_for_a_damaged_file_names_it(tmp_path, monkeypatch):
    path = images(tmp_path)
    dataset = ImageFolderConfig(data_dir=tmp_path).open("train", (1, 8, 8))
    content = path.read_bytes()
    for size in (0, 8, 30, 45):
        path.write_bytes(content[:size])
        with pytest.raises(DamagedSampleError, match=r"train/a/0\.png: cannot be read as an image: ") as refused:
            dataset.batch(torch.tensor([0]))
        assert refused.value.number == 0
    # as for a TIFF file with values of another type
    monkeypatch.setattr(Image, "open", lambda _: int(None))
    with pytest.raises(DamagedSampleError, match=r"cannot be read as an image: int\(\) argument must be"):
        dataset.batch(torch.tensor([0]))


def test_a_file_that_its_volume_does_not_give_is_not_damaged(tmp_path):
    """A volume that fails for a moment must not change which samples a run sees."""
    path = images(tmp_path)
    dataset = ImageFolderConfig(data_dir=tmp_path).open("train", (1, 8, 8))
    path.unlink()
    with pytest.raises(DataError, match=r"0\.png: cannot be read: No such file or directory\. Fix: ") as refused:
        dataset.batch(torch.tensor([0]))
    assert not isinstance(refused.value, DamagedSampleError)


def test_a_token_outside_the_vocabulary_is_named_with_its_place(tmp_path):
    token_files.write(tmp_path, {"train": np.arange(20), "held_out": np.arange(9)}, vocabulary=20)
    with (tmp_path / "train.bin").open("r+b") as file:
        file.seek(2 * 13)
        file.write((300).to_bytes(2, "little"))
    dataset = TokensConfig(data_dir=tmp_path).open("train", (4,))
    with pytest.raises(
        DamagedSampleError, match=r"train\.bin: token 300 at 13, tokens\.json says 0 to 19\."
    ) as refused:
        dataset.batch(torch.tensor([0, 3]))
    assert refused.value.number == 3
    assert dataset.name(3) == f"{tmp_path / 'train.bin'}: tokens 12 to 16"


@each_row(
    ("targets", "refusal"),
    [
        (torch.zeros(4), r"^targets are torch\.float32; must be torch\.int64\. Fix: "),
        (torch.zeros(4, dtype=torch.uint8), r"^targets are torch\.uint8; "),
        (torch.zeros(3).long(), r"^inputs \[4, 1\] and targets \[3\]; must have a target for each sample\. Fix: "),
        (torch.tensor(0), r"^inputs \[4, 1\] and targets \[\]; "),
        (np.zeros(4, np.int64), r"^inputs and targets are Tensor and ndarray; must be tensors\. Fix: "),
    ],
)
@pytest.mark.parametrize("use", [Batch, partial(InMemoryDataset, classes=1)])
def test_targets_that_are_not_one_number_for_each_sample_are_refused(use, targets, refusal):
    with pytest.raises(DataError, match=refusal):
        use(inputs=torch.zeros(4, 1), targets=targets)


@each_row("shape", [(4, 1), (1,), (4, 10)])
@pytest.mark.parametrize("use", [Task.CLASSIFICATION.loss_sum, Task.CLASSIFICATION.score])
def test_targets_of_another_shape_than_the_predictions_are_refused_instead_of_broadcast(use, shape):
    with pytest.raises(DataError, match=r"shape \[.*; must be \[4\] for a model that returns \[4, 10\]\. Fix: "):
        use(torch.zeros(4, 10), torch.zeros(shape).long())


def test_labels_outside_the_classes_are_refused_when_they_are_loaded(tmp_path):
    inputs = torch.zeros(4, 1)
    with pytest.raises(DataError, match=r"^label 3 of sample 2, one of 2 that are not 0 to 2\. Fix: "):
        InMemoryDataset(inputs, torch.tensor([0, 2, 3, -1]), classes=3)
    InMemoryDataset(inputs, torch.tensor([0, 2, 2, 1]), classes=3)
    folder = digits.prepare(tmp_path)
    labels = folder / "train_labels.npy"
    changed = np.load(labels)
    changed[7] = 10
    np.save(labels, changed)
    manifest = digits.read_json(folder / digits.MANIFEST)
    manifest["files"][labels.name]["sha256"] = digits.sha256_of(labels)
    digits.write_json_atomically(folder / digits.MANIFEST, manifest)
    with pytest.raises(DataError, match=r"train_labels\.npy: label 10 of sample 7, one of 1 that are not 0 to 9"):
        digits.load(tmp_path, "train")
    assert len(digits.load(tmp_path, "held_out"))


def test_samples_whose_values_are_not_finite_are_named():
    inputs = torch.zeros(6, 2)
    inputs[4, 1] = torch.nan
    sampler = IndexSampler(num_samples=6, batch_size=6, rank=0, world_size=1, seed=0)
    source = Batches(
        InMemoryDataset(inputs, torch.zeros(6).long(), classes=1), sampler, workers=0, device=torch.device("cpu")
    )
    batch = next(source)
    assert source.suspects(batch.inputs) == "sample 4, which have values that are not finite"
    assert source.suspects(batch.inputs.nan_to_num()).endswith(" and 1 more")
