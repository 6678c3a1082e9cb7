from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.tf import prepare_data
from trainer.training import cifar, cifar_digits, digits

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[4]

# Other files would make accuracies of old and new models incomparable.
FINGERPRINT = "0ef4c9ad2f30f2811665aab81db528bb2fc8bc73f228f9616e060fc2295983aa"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cifar")
    cifar_digits.prepare(folder)
    return folder


def random_samples(count: int, seed: int) -> cifar.Samples:
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (count, *cifar.IMAGE_SHAPE), dtype=np.uint8)
    return cifar.Samples(images=images, labels=generator.integers(0, 10, count, dtype=np.uint8))


def write_set(data_dir: Path, samples: cifar.Samples) -> Path:
    folder = data_dir / cifar.FOLDER
    folder.mkdir(parents=True)
    for name in (*cifar.TRAIN_FILES, cifar.TEST_FILE):
        (folder / name).write_bytes(cifar.encode(samples))
    (folder / cifar.NAMES_FILE).write_text("\n".join(f"class {number}" for number in range(10)))
    return folder


@given(st.integers(1, 20), st.integers(0, 2**32))
def test_what_is_written_is_read(tmp_path_factory, count, seed):
    data_dir = tmp_path_factory.mktemp("set")
    samples = random_samples(count, seed)
    write_set(data_dir, samples)
    test, train = cifar.load(data_dir, "test"), cifar.load(data_dir, "train")
    np.testing.assert_array_equal(test.images, samples.images)
    np.testing.assert_array_equal(test.labels, samples.labels)
    np.testing.assert_array_equal(train.images, np.concatenate([samples.images] * 5))


def test_a_record_lies_as_the_page_of_the_data_set_says():
    """One label byte, then the red plane, the green one, the blue one, each row by row."""
    image = np.zeros((1, *cifar.IMAGE_SHAPE), dtype=np.uint8)
    image[0, 0, 0, 1], image[0, 1, 31, 31], image[0, 2, 1, 0] = 1, 2, 3
    record = cifar.encode(cifar.Samples(images=image, labels=np.array([7], dtype=np.uint8)))
    assert len(record) == 3073
    assert {place: value for place, value in enumerate(record) if value} == {0: 7, 2: 1, 2048: 2, 2048 + 1 + 32: 3}


@given(
    # strings of any length, and whole records of which some have a label without a class
    st.binary(max_size=3074)
    | st.lists(st.integers(0, 12), min_size=1, max_size=3).map(
        lambda labels: b"".join(bytes([n] * 3073) for n in labels)
    )
)
def test_any_bytes_are_read_or_refused_by_a_message(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("file") / "test_batch.bin"
    path.write_bytes(content)
    fits = len(content) > 0 and len(content) % 3073 == 0
    if fits and max(content[::3073]) < 10:
        assert cifar.read_records(path).tobytes() == content
    else:
        with pytest.raises(digits.DataError, match=r"test_batch\.bin: .*Fix: "):
            cifar.read_records(path)


@pytest.mark.parametrize("size", [0, 1, 3072, 3074, 2 * 3073 - 1])
def test_a_file_that_ends_within_a_record_is_refused(tmp_path, size):
    path = write_set(tmp_path, random_samples(2, 0)) / "data_batch_3.bin"
    path.write_bytes(bytes(size))
    message = rf"data_batch_3\.bin: size is {size} bytes, must be a multiple of 3073 .* and not 0\. Fix: "
    with pytest.raises(digits.DataError, match=message):
        cifar.load(tmp_path, "train")
    assert "data_batch_3" in cifar.find_damage(tmp_path)


@pytest.mark.parametrize("label", [10, 255])
def test_a_label_without_a_class_is_refused(tmp_path, label):
    path = write_set(tmp_path, random_samples(3, 0)) / cifar.TEST_FILE
    content = bytearray(path.read_bytes())
    content[2 * 3073] = label
    path.write_bytes(content)
    with pytest.raises(digits.DataError, match=f"label {label} of sample 2, one of 1 that are not 0 to 9. Fix: "):
        cifar.load(tmp_path, "test")


@pytest.mark.parametrize("name", [*cifar.TRAIN_FILES, cifar.TEST_FILE, cifar.NAMES_FILE])
def test_a_missing_file_is_named_and_written_again(tmp_path, name):
    cifar_digits.prepare(tmp_path)
    (tmp_path / cifar.FOLDER / name).unlink()
    damage = cifar.find_damage(tmp_path)
    assert f"{name}: cannot be read: No such file or directory. Fix: " in damage
    cifar_digits.prepare(tmp_path)
    assert cifar.find_damage(tmp_path) == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"one\ntwo\n", "names 2 classes, must be 10"), (b"\xff", "byte 0 is not UTF-8")],
)
def test_wrong_names_are_refused(tmp_path, content, message):
    (write_set(tmp_path, random_samples(1, 0)) / cifar.NAMES_FILE).write_bytes(content)
    with pytest.raises(digits.DataError, match=message):
        cifar.load_names(tmp_path)


def test_a_real_data_set_is_left_alone(tmp_path):
    folder = write_set(tmp_path, random_samples(4, 1))
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert cifar_digits.prepare(tmp_path) == folder
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def cut_a_file(folder: Path) -> None:
    path = folder / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-1])


def remove_the_names(folder: Path) -> None:
    (folder / cifar.NAMES_FILE).unlink()


def leave_half_a_file(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    (folder / "data_batch_1.bin").write_bytes(bytes(5000))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (cut_a_file, "data_batch_2.bin: size is "),
        (remove_the_names, "batches.meta.txt: cannot be read"),
        (leave_half_a_file, "data_batch_1.bin: size is "),
    ],
)
def test_a_damaged_real_data_set_is_not_replaced(tmp_path, capsys, damage, named):
    folder = write_set(tmp_path, random_samples(4, 1))
    damage(folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert prepare_data.main(["--data_dir", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "there are files of another data set, of which none is replaced" in said
    assert named in said
    assert "Fix: copy that file there again" in said
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_damaged_file_of_the_small_set_is_written_again(tmp_path):
    cut_a_file(cifar_digits.prepare(tmp_path))
    cifar_digits.prepare(tmp_path)
    assert cifar.fingerprint(tmp_path) == FINGERPRINT


def test_the_made_set_holds_the_digits_enlarged(data_dir):
    train, test = cifar.load(data_dir, "train"), cifar.load(data_dir, "test")
    source = digits.from_source("held_out")
    assert (len(train), len(test)) == (1433, 364)
    np.testing.assert_array_equal(test.labels, source.labels)
    assert np.abs(test.images[:, 2, ::4, ::4] / 255 - source.images[:, 0]).max() <= 0.5 / 255
    assert (test.images[:, :, 1::4, 3::4] == test.images[:, :, ::4, ::4]).all()
    for path in cifar.files_of(data_dir, "train"):
        assert set(cifar.read_records(path)[:, 0]) == set(range(10)), path
    assert cifar.load_names(data_dir)[7] == "seven"


def test_the_made_set_is_the_same_everywhere(data_dir):
    assert cifar.fingerprint(data_dir) == FINGERPRINT


def test_many_makers_at_once_leave_one_intact_set_and_no_leftovers(tmp_path):
    def make(_number: int) -> int:
        command = [sys.executable, "-m", "trainer.tf.prepare_data", "--data_dir", str(tmp_path)]
        return subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True).returncode

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(make, range(2))) == [0, 0]
    assert cifar.fingerprint(tmp_path) == FINGERPRINT
    assert len(list((tmp_path / cifar.FOLDER).iterdir())) == 7


def test_a_folder_that_cannot_be_written_is_reported(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert prepare_data.main(["--data_dir", str(tmp_path / "file")]) == 1
    assert "cannot write the data set: " in capsys.readouterr().err
