"""Served answers against those of the network in memory, with and without torch's optimisation for CPUs."""

from __future__ import annotations

import json
import logging
import re

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.unit.trainer.serve.conftest import CONFIG, Scaled
from trainer.model_repository import model_file, torchscript
from trainer.model_repository.model_file import Program
from trainer.pytorch import measurement, model_files
from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.export import publish
from trainer.pytorch.export_config import ExportConfig
from trainer.pytorch.trained_model import TensorSpec, TrainedModel
from trainer.serve import model, model_config
from trainer.serve.loader import ModelLoader
from trainer.serve.local_models import LocalModels

PIXELS = 7


class AddScaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 2, 3, padding=1)
        self.second = nn.Conv2d(1, 2, 3, padding=1)

    def forward(self, x):
        a = self.first(x)
        return torch.cat([torch.add(a, self.second(x), alpha=2), a], dim=1)


class ClampMin(nn.Module):
    def forward(self, a):
        return a.clamp(min=0.0)


class Clamp(nn.Module):
    def forward(self, a):
        return a.clamp(-0.5, 0.5)


class BatchStatistics(nn.Module):
    def forward(self, a):
        return functional.batch_norm(a, None, None, training=True)


class Indexed(nn.Module):
    """Takes numbers from 0 to 1 alone, as an index."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2, 4)

    def forward(self, a):
        return self.table((a > 0.5).long() - (a < 0).long())


def convolution(*, same: bool = False) -> nn.Module:
    return nn.Conv2d(1, 4, 3, padding="same" if same else 1)


FAILS, DIFFERS = "the optimised program fails: ", "the optimised program differs by "
USED = "the optimised program takes "
ROWS = {
    "average pool with ceil_mode": ([convolution(), nn.AvgPool2d(2, ceil_mode=True)], DIFFERS),
    "add with alpha": ([AddScaled()], DIFFERS),
    "average pool with a divisor": ([convolution(), nn.AvgPool2d(2, divisor_override=3)], FAILS),
    "padding same": ([convolution(same=True)], FAILS),
    "clamp without a maximum": ([convolution(), ClampMin()], FAILS),
    "statistics of the batch": ([convolution(), BatchStatistics()], FAILS),
    "adaptive average pool": ([convolution(), nn.AdaptiveAvgPool2d(3)], ""),
    "clamp": ([convolution(), Clamp()], ""),
    "hardtanh": ([convolution(), nn.Hardtanh()], ""),
    "GELU with tanh": ([convolution(), nn.GELU(approximate="tanh")], ""),
    "dilated pool": ([convolution(), nn.MaxPool2d(2, dilation=2)], ""),
    "convolution and ReLU": ([convolution(), nn.ReLU()], USED),
    "indices": ([Indexed()], "the optimised program cannot be compared: the network fails on random inputs"),
}


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def always_worthwhile(monkeypatch):
    """Optimise whatever gives equal answers, however long it takes."""
    monkeypatch.setattr(model_files, "_WORTHWHILE", float("inf"))
    monkeypatch.setattr(model_files, "_LEAST_SAVED_MS", float("-inf"))
    monkeypatch.setattr(measurement, "_CALLS", 1)


def network(layers: list[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    body = nn.Sequential(*layers, nn.Flatten()).eval()
    width = body(torch.rand(2, 1, PIXELS, PIXELS)).shape[1]
    return nn.Sequential(body, nn.Linear(width, 3)).eval()


def trained(module: nn.Module) -> TrainedModel:
    """Return a model that is right about all of its held-out samples."""
    images = torch.rand(50, 1, PIXELS, PIXELS)
    with torch.inference_mode():
        held_out = Samples(inputs=images, labels=module(images).argmax(dim=1))
    return TrainedModel(
        module=module,
        inputs=(TensorSpec(name="image", shape=(1, PIXELS, PIXELS)),),
        outputs=(TensorSpec(name="logits", shape=(3,)),),
        samples=[[images]],
        run_name="r1",
        step=1,
        held_out=held_out,
    )


@pytest.mark.parametrize(("layers", "reason"), ROWS.values(), ids=ROWS)
def test_a_served_model_answers_as_in_memory_and_as_accurately_as_its_manifest_says(tmp_path, layers, reason):
    module = network(layers)
    source = trained(module)
    publish(tmp_path, ExportConfig(model_name="m", max_batch_size=8), source)
    entry = json.loads((tmp_path / "m/1/manifest.json").read_text())
    assert reason in entry["optimization"]["reason"]
    snapshot = ModelLoader(tmp_path / "m", LocalModels(0.0, None).load, lambda _: None).sync()
    assert not snapshot.unavailable
    served = snapshot.models[1]
    for rows in (1, 2, 5, 8):
        images = torch.rand(rows, 1, PIXELS, PIXELS)
        with torch.inference_mode():
            expected = module(images)
        torch.testing.assert_close(torch.from_numpy(served.infer([images.numpy()])[0]), expected, rtol=1e-4, atol=1e-5)
    [logits] = served.infer([source.held_out.inputs.numpy()])
    assert (logits.argmax(axis=1) == source.held_out.labels.numpy()).mean() == entry["accuracy"] == 1.0


def test_the_accuracy_in_the_manifest_is_that_of_the_file(tmp_path, monkeypatch):
    """Not that of the module in memory, from which a file may differ within the tolerance."""

    class Swapped(nn.Module):
        def forward(self, a):
            return a.flatten(1)[:, :3].flip(1)

    source = trained(network([nn.Flatten()]))
    monkeypatch.setattr(model_files.comparison, "difference", lambda *_: "")
    monkeypatch.setattr(model_file, "load", lambda _: Program(call=Swapped(), arguments=["a"]))
    monkeypatch.setattr(model_file, "load_optimized", fails)
    publish(tmp_path, ExportConfig(), source)
    assert json.loads((tmp_path / "digits/1/manifest.json").read_text())["accuracy"] < 1.0


@pytest.fixture
def load(tmp_path):
    """Loads a file as a server does whose manifest has it optimised."""
    torchscript.save_frozen(Scaled(2.0), tmp_path / "model.pt")
    return lambda config: model.load(tmp_path / "model.pt", model_config.parse(config, "digits"), 1, is_optimized=True)


def always(value):
    def load(_path):
        return Program(call=lambda image: image.flatten(1)[:, :10] * value, arguments=["image"])

    return load


def fails(_path):
    raise RuntimeError("no such kernel\na trace")


RIGHT = 2.0 + 1e-5
"""What an optimised program multiplies with, where the file multiplies with 2."""
INTEGERS = CONFIG.replace("TYPE_FP32 dims: [1, 8, 8]", "TYPE_INT64 dims: [1, 8, 8]")


@pytest.mark.parametrize(
    ("case", "logged"),
    [
        ((always(RIGHT), CONFIG), ""),
        ((always(2.1), CONFIG), "differs by .* on inputs of .1, 1, 8, 8."),
        ((fails, CONFIG), "fails: no such kernel"),
        ((always(3.0), INTEGERS), "fails: only FP32 inputs with fixed dims can be compared"),
        ((always(3.0), CONFIG.replace("dims: [1, 8, 8]", "dims: [1, -1, 8]")), "fails: only FP32"),
        (
            (always(3.0), CONFIG.replace("max_batch_size: 8", "max_batch_size: 0")),
            "differs by .* on inputs of .1, 8, 8.",
        ),
    ],
)
def test_a_server_optimises_what_stays_equal_on_its_own_machine(load, monkeypatch, caplog, case, logged):
    load_optimized, config = case
    monkeypatch.setattr(model_file, "load_optimized", load_optimized)
    with caplog.at_level(logging.WARNING):
        loaded = load(config)
    ones = torch.ones(1, 1, 8, 8, dtype=torch.int64 if config == INTEGERS else torch.float32)
    assert loaded._call(ones).tolist() == [[pytest.approx(2.0 if logged else RIGHT, abs=1e-6)] * 10]
    [line] = caplog.messages or [""]
    assert re.search(logged, line), line
    assert bool(logged) == ("digits version 1: served as it is in the file" in line)


def test_only_a_manifest_lets_a_server_optimise(repository, monkeypatch):
    optimised: list[object] = []
    monkeypatch.setattr(model_file, "load_optimized", lambda path: optimised.append(path) or always(1.0)(path))
    for version, manifest in enumerate(({}, {"optimization": {"used": False}}, {"optimization": "?"}), start=1):
        repository.publish(version, 1.0, **manifest)
        ModelLoader(repository.folder, LocalModels(0.0, None).load, lambda _: None).sync()
    assert optimised == []
    repository.publish(4, 1.0, optimization={"used": True})
    ModelLoader(repository.folder, LocalModels(0.0, None).load, lambda _: None).sync()
    assert optimised == [repository.folder / "4/model.pt"]


def test_a_model_without_memory_to_load_it_is_not_called_damaged(load, monkeypatch):
    def allocate(_path):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: 8 bytes")

    monkeypatch.setattr(model_file, "load", allocate)
    with pytest.raises(model.ModelLoadError, match=r"model\.pt: takes more memory than there is: .* Fix: more memory"):
        load(CONFIG)
