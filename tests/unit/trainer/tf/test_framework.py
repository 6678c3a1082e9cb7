"""GPUs of a TensorFlow process: all that it sees, unless an option names a number. TensorFlow itself is a stand-in."""

from __future__ import annotations

import os
from unittest.mock import MagicMock

import pytest

from trainer.tf import framework
from trainer.tf.framework import DeviceError
from trainer.training import nvidia_driver

pytestmark = pytest.mark.long


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Make this a machine with so many GPU files, of which TensorFlow finds so many."""

    def of(files: int, counted: int | None = None) -> None:
        for number in range(files):
            (tmp_path / f"nvidia{number}").touch()
        present = [f"GPU:{number}" for number in range(files if counted is None else counted)]
        visible = []
        tf = MagicMock()
        tf.config.list_physical_devices = lambda _kind: present
        tf.config.set_visible_devices = lambda devices, _kind: visible.extend(devices)
        tf.config.get_visible_devices = lambda _kind: visible
        monkeypatch.setattr(framework.importlib, "import_module", lambda _name: tf)
        monkeypatch.setattr(nvidia_driver, "DEVICES", tmp_path)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "all")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")

    return of


@pytest.mark.parametrize(("files", "num_gpu", "used"), [(8, None, 8), (0, None, 0), (8, 1, 1), (8, 0, 0)])
def test_a_process_uses_all_gpus_unless_an_option_names_a_number(machine, files, num_gpu, used):
    machine(files)
    assert framework.gpus(framework.load(num_gpu=num_gpu)) == used
    assert (os.environ.get("CUDA_VISIBLE_DEVICES") == "-1") is (used == 0), "without GPUs CUDA is not looked for"


@pytest.mark.parametrize(
    ("files", "counted", "options", "words"),
    [
        (8, 0, {"num_gpu": None}, "shows GPUs, but TensorFlow can use none .* --num_gpu 0 to compute on the CPU"),
        (8, 8, {"num_gpu": None, "one_gpu": True}, "8 usable GPUs, of which this process uses one.* --num_gpu 1 "),
        (8, 8, {"num_gpu": 9}, "num_gpu=9: TensorFlow finds 8 usable GPUs"),
    ],
)
def test_gpus_that_would_be_unused_or_are_missing_are_refused(machine, files, counted, options, words):
    machine(files, counted)
    with pytest.raises(DeviceError, match=words):
        framework.load(**options)


def test_one_gpu_for_a_process_that_has_no_use_for_more(machine):
    machine(1)
    assert framework.gpus(framework.load(num_gpu=None, one_gpu=True)) == 1
