from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from trainer import prepare_data
from trainer.training import digits

# Moving a sample from training to the held-out set would make accuracies of old and new models incomparable.
MANIFEST_SHA256 = "dc05c7badf0627b8122cd6d56a8dc6de522f8367fd9e56b2c4bf39c4706dee2c"


def test_split_is_the_one_that_published_accuracies_refer_to(data_dir):
    assert digits.fingerprint(data_dir) == MANIFEST_SHA256


def test_every_image_is_in_exactly_one_split_and_every_class_in_both():
    train, held_out = digits.from_source("train"), digits.from_source("held_out")
    assert (len(train), len(held_out)) == (1433, 364)
    in_both = {image.tobytes() for image in train.images} & {image.tobytes() for image in held_out.images}
    assert not in_both
    shares = np.bincount(held_out.labels) / np.bincount(np.concatenate((train.labels, held_out.labels)))
    assert shares.min() > 0.19
    assert shares.max() < 0.21


def test_prepared_files_hold_what_the_source_holds(data_dir):
    prepared, source = digits.load(data_dir, "held_out"), digits.from_source("held_out")
    np.testing.assert_array_equal(prepared.images, source.images)
    np.testing.assert_array_equal(prepared.labels, source.labels)
    assert prepared.images.shape[1:] == digits.IMAGE_SHAPE
    assert prepared.images.dtype == np.float32
    assert (prepared.images.min(), prepared.images.max()) == (0.0, 1.0)


def test_preparing_again_touches_nothing(tmp_path):
    folder = digits.prepare(tmp_path)
    before = {file: file.stat().st_ino for file in folder.iterdir()}
    digits.prepare(tmp_path)
    assert {file: file.stat().st_ino for file in folder.iterdir()} == before


def test_many_at_once_leave_one_intact_set_and_no_leftovers(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(digits.prepare, [tmp_path] * 4))
    assert digits.find_damage(tmp_path / "digits") == ""
    assert len(list((tmp_path / "digits").iterdir())) == 5


@pytest.mark.parametrize("name", ["train_images.npy", "held_out_labels.npy", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_damage_is_refused_when_loading_and_repaired_when_preparing(tmp_path, name, damage):
    file = digits.prepare(tmp_path) / name
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-1] if name != "manifest.json" else b"{")
    else:
        file.unlink()
    with pytest.raises(digits.DataError, match=rf"(?s){name}.*Fix: run `python -m trainer.prepare_data"):
        digits.load(tmp_path, "train")
    digits.prepare(tmp_path)
    assert len(digits.load(tmp_path, "train")) == 1433


def test_command_says_where_the_data_is(tmp_path, capsys):
    assert prepare_data.main(["--data_dir", str(tmp_path)]) == 0
    assert "1433 training and 364 held-out digits" in capsys.readouterr().out


def test_command_fails_with_the_fix_when_the_volume_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert prepare_data.main(["--data_dir", str(tmp_path / "file")]) == 1
    error = capsys.readouterr().err
    assert f"data_dir={tmp_path / 'file'}" in error
    assert "Fix:" in error


def test_importing_needs_no_torch():
    code = "import sys, trainer.training.digits; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(digits.__file__).parents[2])
