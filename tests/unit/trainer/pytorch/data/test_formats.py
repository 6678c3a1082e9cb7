"""What each data set reads, and what it refuses."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from trainer import prepare_data
from trainer.pytorch.data import describe_tokens, samples, token_files
from trainer.pytorch.data.cifar10 import Cifar10Config
from trainer.pytorch.data.digits import DigitsConfig
from trainer.pytorch.data.image_folder import ImageFolderConfig
from trainer.pytorch.data.registry import DATASETS, dataset_of
from trainer.pytorch.data.tokens import TokensConfig
from trainer.training import cifar, cifar_digits, digits
from trainer.training.digits import DataError

pytestmark = pytest.mark.long

FIRST = torch.tensor([0, 1])
CPU = torch.device("cpu")
SHAPES = {"digits": (1, 8, 8), "cifar10": (3, 32, 32), "image_folder": (1, 8, 8), "tokens": (64,)}


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_is_registered_by_its_own_name_and_reads_what_prepare_data_writes(name, tmp_path, capsys):
    for _ in range(2):  # the second time it is there already
        assert prepare_data.main(["--data_dir", str(tmp_path), "--dataset", name]) == 0
    assert "held-out" in capsys.readouterr().out.replace("test images", "held-out")
    config = DATASETS[name](data_dir=tmp_path)
    assert config.dataset == name
    identity = config.fingerprint()
    for split in digits.SPLITS:
        dataset = config.open(split, SHAPES[name])
        assert dataset.sample_shape == SHAPES[name]
        batch = dataset.batch(FIRST)
        assert batch.inputs.shape == (2, *SHAPES[name])
        assert batch.targets.dtype == torch.int64
        assert batch.targets.max() < dataset.classes
        last = dataset.batch(torch.tensor([len(dataset) - 1]))
        assert last.inputs.shape == (1, *SHAPES[name])
    assert dataset_of({**config.settings(), "epochs": 3}, tmp_path) == config
    assert config.fingerprint() == identity
    assert len(identity) == 64


def test_the_digits_are_the_same_in_every_format_of_images(tmp_path, data_dir):
    for name in ("cifar10", "image_folder"):
        prepare_data.main(["--data_dir", str(tmp_path), "--dataset", name])
    known = DigitsConfig(data_dir=data_dir).open("held_out", (1, 8, 8))
    images = known.batch(torch.arange(len(known)))
    large = Cifar10Config(data_dir=tmp_path).open("held_out", (3, 32, 32)).batch(torch.arange(len(known)))
    torch.testing.assert_close(large.inputs[:, :1, ::4, ::4], images.inputs, rtol=0, atol=0.51 / 255)
    assert torch.equal(large.targets, images.targets)
    folder = ImageFolderConfig(data_dir=tmp_path).open("held_out", (1, 8, 8))
    in_folders = folder.batch(torch.arange(len(folder))).to(CPU)
    assert in_folders.targets.tolist() == sorted(images.targets.tolist())
    by_label = images.inputs[images.targets.argsort(stable=True)]
    torch.testing.assert_close(in_folders.inputs, by_label, rtol=0, atol=0.51 / 255)


def test_cifar10_has_the_names_of_its_classes_where_their_file_is(tmp_path):
    cifar_digits.prepare(tmp_path)
    config = Cifar10Config(data_dir=tmp_path)
    opened = config.open("held_out", cifar.IMAGE_SHAPE)
    assert opened.on(torch.device("cpu")).class_names == cifar.load_names(tmp_path)
    (tmp_path / cifar.FOLDER / cifar.NAMES_FILE).unlink()
    assert config.open("held_out", cifar.IMAGE_SHAPE).class_names == ()


def test_cifar10_reads_bytes_as_values_from_0_to_1(tmp_path):
    folder = tmp_path / cifar.FOLDER
    folder.mkdir()
    image = np.zeros((1, *cifar.IMAGE_SHAPE), dtype=np.uint8)
    image[0, 2, 5, 7] = 255
    content = cifar.encode(cifar.Samples(images=image, labels=np.array([9], dtype=np.uint8)))
    for name in (*cifar.TRAIN_FILES, cifar.TEST_FILE):
        (folder / name).write_bytes(content)
    batch = Cifar10Config(data_dir=tmp_path).open("train", cifar.IMAGE_SHAPE).batch(torch.tensor([4]))
    assert batch.inputs[0, 2, 5, 7] == batch.inputs.sum() == 1.0
    assert batch.targets.tolist() == [9]
    (folder / cifar.TEST_FILE).write_bytes(content[:-1])
    with pytest.raises(DataError, match=r"test_batch\.bin: size is 3072 bytes.* Fix: .*--dataset cifar10"):
        Cifar10Config(data_dir=tmp_path).open("held_out", cifar.IMAGE_SHAPE)


def folder_of_images(data_dir, image: Image.Image, *, classes=("a", "b"), suffix="png") -> None:
    for split in ("train", "val"):
        for name in classes:
            (data_dir / split / name).mkdir(parents=True)
            image.save(data_dir / split / name / f"0.{suffix}")


def test_images_of_any_size_and_kind_are_scaled_and_their_middle_is_kept(tmp_path):
    wide = Image.new("RGBA", (64, 16), (255, 0, 0, 255))
    wide.paste((0, 0, 255, 255), (24, 0, 40, 16))  # a blue square in the middle of red
    folder_of_images(tmp_path, wide, suffix="PNG")
    (tmp_path / "train/a/notes.txt").write_text("not an image")
    dataset = ImageFolderConfig(data_dir=tmp_path).open("train", (3, 8, 8))
    assert (len(dataset), dataset.classes) == (2, 2)
    blue = dataset.batch(FIRST).to(CPU)
    assert blue.targets.tolist() == [0, 1]
    # without the edges, which the filter mixes with their neighbours
    assert torch.equal(blue.inputs[..., 1:-1], torch.tensor([0.0, 0.0, 1.0]).view(1, 3, 1, 1).expand(2, 3, 8, 6))
    grey = ImageFolderConfig(data_dir=tmp_path).open("train", (1, 4, 16)).batch(FIRST)
    assert grey.inputs.shape == (2, 1, 4, 16)


def remove_a_class(data_dir):
    (data_dir / "val/b/0.png").unlink()
    (data_dir / "val/b").rmdir()
    (data_dir / "val/c").mkdir()


def remove_an_image(data_dir):
    (data_dir / "train/b/0.png").unlink()


def remove_a_split(data_dir):
    remove_a_class(data_dir)
    (data_dir / "val/a/0.png").unlink()
    for name in ("val/a", "val/c", "val"):
        (data_dir / name).rmdir()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_a_class, r"b, c: in one of train and val only\. Fix: a folder for the same classes"),
        (remove_an_image, r"train/b: has no images \(\.bmp, .*\)\. Fix: "),
        (remove_a_split, r"val: cannot be listed: No such file or directory\. Fix: <data_dir>/train/<class>/"),
    ],
)
def test_folders_that_are_not_classes_of_images_are_refused(tmp_path, damage, message):
    folder_of_images(tmp_path, Image.new("L", (8, 8)))
    damage(tmp_path)
    with pytest.raises(DataError, match=message):
        ImageFolderConfig(data_dir=tmp_path).fingerprint()


def test_hidden_files_and_folders_of_operating_systems_are_left_out_and_said(tmp_path):
    folder_of_images(tmp_path, Image.new("L", (8, 8)))
    fingerprint = ImageFolderConfig(data_dir=tmp_path).fingerprint()
    for folder in ("__MACOSX", ".thumbnails"):
        (tmp_path / "train" / folder).mkdir()
    for name in ("train/a/._0.png", "train/__MACOSX/._0.png", "train/.DS_Store"):
        (tmp_path / name).write_bytes(b"\0\5\x16\7")
    config = ImageFolderConfig(data_dir=tmp_path)
    dataset = config.open("train", (1, 8, 8))
    assert (len(dataset), dataset.class_names, config.fingerprint()) == (2, ("a", "b"), fingerprint)
    left_out = "3 hidden or of an operating system, and left out: .thumbnails, __MACOSX, a/._0.png"
    assert dataset.notes == (f"{tmp_path / 'train'}: {left_out}",)
    assert config.open("held_out", (1, 8, 8)).notes == ()
    (tmp_path / "train/a/0.png").unlink()
    with pytest.raises(DataError, match=r"train/a: has no images"):
        config.open("train", (1, 8, 8))


@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_16_bits_keep_their_greys(tmp_path, channels):
    values = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)
    folder_of_images(tmp_path, Image.fromarray(values))
    dataset = ImageFolderConfig(data_dir=tmp_path).open("train", (channels, 8, 8))
    assert dataset.batch(FIRST).to(CPU).inputs[0, 0].numpy() == pytest.approx(values / 65535, abs=1 / 255)


def test_an_image_whose_values_have_no_range_is_refused(tmp_path):
    folder_of_images(tmp_path, Image.new("L", (8, 8)))
    Image.new("F", (8, 8)).save(tmp_path / "train/a/0.png", format="TIFF")
    dataset = ImageFolderConfig(data_dir=tmp_path).open("train", (1, 8, 8))
    with pytest.raises(DataError, match=r"0\.png: .*values are of Pillow's mode F; must be of 8 or 16 bits\. Fix: "):
        dataset.batch(FIRST)


def test_a_damaged_palette_is_named_with_its_file(tmp_path):
    folder_of_images(tmp_path, Image.new("L", (8, 8)))
    Image.new("P", (8, 8)).save(tmp_path / "train/a/0.png", format="BMP")
    content = bytearray((tmp_path / "train/a/0.png").read_bytes())
    content[46:50] = (300).to_bytes(4, "little")  # colours of the palette, in the header
    (tmp_path / "train/a/0.png").write_bytes(content)
    dataset = ImageFolderConfig(data_dir=tmp_path).open("train", (1, 8, 8))
    with pytest.raises(DataError, match=r"0\.png: cannot be read as an image: "):
        dataset.batch(FIRST)


def test_a_damaged_image_and_a_shape_that_no_image_has_are_refused(tmp_path):
    folder_of_images(tmp_path, Image.new("L", (8, 8)))
    (tmp_path / "train/a/0.png").write_bytes(b"\x89PNG")
    dataset = ImageFolderConfig(data_dir=tmp_path).open("train", (1, 8, 8))
    with pytest.raises(DataError, match=r"train/a/0\.png: cannot be read as an image: .* Fix: replace it"):
        dataset.batch(FIRST)
    with pytest.raises(DataError, match=r"the model reads inputs \(2, 8, 8\).* Fix: a model of such images"):
        ImageFolderConfig(data_dir=tmp_path).open("train", (2, 8, 8))


@pytest.mark.parametrize(("vocabulary", "dtype"), [(256, "uint16"), (1 << 16, "uint16"), (70_000, "uint32")])
def test_tokens_are_windows_of_the_file_and_targets_the_next_ones(tmp_path, vocabulary, dtype):
    train = np.arange(13) + vocabulary - 13
    token_files.write(tmp_path, {"train": train, "held_out": train[:9]}, vocabulary=vocabulary)
    assert json.loads((tmp_path / "tokens.json").read_text())["dtype"] == dtype
    dataset = TokensConfig(data_dir=tmp_path).open("train", (4,))
    assert (len(dataset), dataset.classes, dataset.tokens_per_sample) == (3, vocabulary, 4)
    batch = dataset.batch(torch.tensor([2, 0]))
    assert (batch.inputs - train[0]).tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert torch.equal(batch.targets, batch.inputs + 1)


def test_tokens_of_32_bits_are_not_read_as_twice_as_many(tmp_path, capsys):
    for name in ("train.bin", "val.bin"):
        (tmp_path / name).write_bytes(np.arange(1, 9, dtype="<u4").tobytes())
    words = [f"--data_dir={tmp_path}", "--vocabulary"]
    assert describe_tokens.main([*words, "9"]) == 1
    assert "every second token is 0, as where uint32 is read as uint16. Fix: --dtype uint32" in capsys.readouterr().err
    assert describe_tokens.main([*words, "65537"]) == 1
    assert "vocabulary = 65537: uint16 holds up to 65536. Fix: --dtype uint32" in capsys.readouterr().err
    assert not (tmp_path / "tokens.json").exists()
    assert describe_tokens.main([*words, "65537", "--dtype=uint32"]) == 0


def test_tokens_of_another_program_need_only_the_description(tmp_path, capsys):
    for name in ("train.bin", "val.bin"):
        np.array([1, 2, 499], dtype="<u2").tofile(tmp_path / name)
    words = ["--data_dir", str(tmp_path), "--vocabulary"]
    assert describe_tokens.main([*words, "499"]) == 1
    assert "train.bin: token 499, must be 0 to 498. Fix: the vocabulary of the tokenizer, at least 500" in (
        capsys.readouterr().err
    )
    assert describe_tokens.main([*words, "500"]) == 0
    assert "val.bin: 3 tokens" in capsys.readouterr().out
    dataset = TokensConfig(data_dir=tmp_path).open("held_out", (2,))
    assert dataset.batch(torch.tensor([0])).targets.tolist() == [[2, 499]]
    assert describe_tokens.main([*words, "500", "--dtype=uint32"]) == 1
    assert "size is 6 bytes, must be a multiple of 4 (uint32)" in capsys.readouterr().err


@pytest.fixture
def described(tmp_path):
    samples.prepare_tokens(tmp_path)

    def change(**changes) -> TokensConfig:
        description = json.loads((tmp_path / "tokens.json").read_text())
        (tmp_path / "tokens.json").write_text(json.dumps(description | changes))
        return TokensConfig(data_dir=tmp_path)

    return change


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 2}, r"format_version 2 and dtype 'uint16', must be 1 and one of uint16, uint32"),
        ({"dtype": "int8"}, r"dtype 'int8', must be"),
        ({"vocabulary": "many"}, r"needs a vocabulary of at least 2"),
        ({"files": {}}, r"train\.bin: missing, or not in tokens\.json\. Fix: .*describe_tokens"),
        ({"dtype": "uint32"}, r"train\.bin: has \d+ bytes, tokens\.json says \d+ tokens of uint32, \d+ bytes"),
    ],
)
def test_tokens_that_do_not_fit_their_description_are_refused(described, changes, message):
    with pytest.raises(DataError, match=message):
        described(**changes).open("train", (64,))


def test_tokens_without_a_description_or_fewer_than_a_sample_are_refused(described, tmp_path):
    with pytest.raises(DataError, match=r"has \d+ tokens, a sample is 900000 and one more\. Fix: .*--context \d+"):
        described().open("train", (900_000,))
    (tmp_path / "tokens.json").unlink()
    with pytest.raises(DataError, match=r"tokens\.json is missing or not JSON\. Fix: put train\.bin"):
        TokensConfig(data_dir=tmp_path).fingerprint()


@pytest.mark.parametrize("present", [("train.bin", "val.bin"), ("train.bin",), ("val.bin",)])
def test_tokens_of_another_program_are_not_replaced(tmp_path, capsys, present):
    for name in present:
        np.array([1, 2, 499], dtype="<u2").tofile(tmp_path / name)
    assert prepare_data.main(["--data_dir", str(tmp_path), "--dataset", "tokens"]) == 1
    said = capsys.readouterr().err
    assert f"{present[0]}: has tokens of another origin and no tokens.json; they are not replaced. Fix: " in said
    assert "trainer.pytorch.data.describe_tokens" in said
    assert {path.name for path in tmp_path.iterdir()} == set(present)
    assert all((tmp_path / name).stat().st_size == 6 for name in present)


def test_tokens_of_a_killed_attempt_are_completed(tmp_path):
    numbers = samples.prepare_tokens(tmp_path)
    (tmp_path / "tokens.json").unlink()
    (tmp_path / "val.bin").unlink()
    assert samples.prepare_tokens(tmp_path) == numbers


@pytest.mark.parametrize("name", ["train/a/0.png", "train/0/0000.png", "train/notes.txt"])
def test_images_without_held_out_ones_are_not_added_to(tmp_path, capsys, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    Image.new("L", (8, 8)).save(path, format="PNG")
    assert prepare_data.main(["--data_dir", str(tmp_path), "--dataset", "image_folder"]) == 1
    said = capsys.readouterr().err
    assert f"{name}: is a file of another origin, and {tmp_path / 'val'} is missing; nothing is added. Fix: " in said
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]


def test_images_of_a_killed_attempt_are_completed(tmp_path):
    numbers = samples.prepare_images(tmp_path)
    shutil.rmtree(tmp_path / "val")
    shutil.rmtree(tmp_path / "train/7")
    (tmp_path / "train/3/.0003.png.1234.tmp").touch()
    assert samples.prepare_images(tmp_path) == numbers


def test_held_out_images_are_there_all_or_none(tmp_path, monkeypatch):
    """A part of them, of an attempt that was killed or had no space, would pass for all."""
    numbers = samples.prepare_images(tmp_path / "whole")
    write, written = samples.write_atomically, []

    def write_until_the_disk_is_full(path, content):
        written.append(path)
        if len(written) > numbers[0] + 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    monkeypatch.setattr(samples, "write_atomically", write_until_the_disk_is_full)
    with pytest.raises(DataError, match="No space left on device"):
        samples.prepare_images(tmp_path / "cut")
    assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == ["train"]
    monkeypatch.undo()
    assert samples.prepare_images(tmp_path / "cut") == numbers


def test_an_attempt_that_another_one_overtakes_is_content_with_its_images(tmp_path, monkeypatch):
    rename = Path.rename

    def overtaken(path, target):
        monkeypatch.undo()
        samples.prepare_images(tmp_path)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", overtaken)
    samples.prepare_images(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train", "val"]


def test_a_folder_that_cannot_be_written_is_reported(tmp_path, capsys):
    (tmp_path / "file").touch()
    for name in ("tokens", "image_folder"):
        assert prepare_data.main(["--data_dir", str(tmp_path / "file"), "--dataset", name]) == 1
        assert "cannot write the data set: " in capsys.readouterr().err
