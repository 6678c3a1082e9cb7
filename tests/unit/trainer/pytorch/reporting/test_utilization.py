"""MFU: operations of the models, peaks of the GPUs, and the loop on a GPU that the table knows."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar, Literal

import pytest
import torch
from torch import nn

from infra import gpu_models
from tests.tables import each_row
from trainer.pod_modules.athanor_gpu_peaks import peak_flops
from trainer.pytorch.loop import Trainer
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.models.resnet import ResNetConfig
from trainer.pytorch.precision import PrecisionConfig
from trainer.pytorch.reporting import reporter, utilization
from trainer.pytorch.reporting.utilization import Utilization, flops_per_sample
from trainer.training.metrics import StepReport

KNOWN = "NVIDIA A100-SXM4-80GB"


@pytest.mark.parametrize("config", [GptConfig(), GptConfig(size="125m"), GptConfig(size="7b", context=4096)])
def test_the_operations_of_a_language_model_are_those_of_palm(config):
    shape = config.shape
    # 6 N per token, N without embeddings, and 12 x layers x width x context for attention
    in_products = 12 * shape.layers * shape.width**2 + shape.width * shape.vocabulary
    per_token = 6 * in_products + 12 * shape.layers * shape.width * shape.context
    assert flops_per_sample(config) == per_token * shape.context


def test_the_operations_of_a_convolutional_network():
    # multiply-adds of ResNet-18 for 32 x 32 pixels: the first layer, four stages, shortcuts, the last layer; forward
    # and twice backward, but for the images, which need no gradient
    first = 3 * 3 * 3 * 64 * 32**2
    stages = 4 * 64 * 64 * 9 * 32**2
    stages += sum((c // 2 * c + 3 * c * c) * 9 * s**2 for c, s in ((128, 16), (256, 8), (512, 4)))
    shortcuts = sum(c // 2 * c * s**2 for c, s in ((128, 16), (256, 8), (512, 4)))
    assert flops_per_sample(ResNetConfig()) == 2 * (3 * (first + stages + shortcuts + 512 * 10) - first)


@pytest.mark.parametrize("config", [DigitsCnnConfig(), GptConfig(), ResNetConfig()])
def test_to_count_draws_no_random_numbers(config):
    before = torch.get_rng_state()
    assert flops_per_sample(config) > 0
    assert torch.equal(torch.get_rng_state(), before)


@each_row(
    ("name", "kind", "tera"),
    [
        (KNOWN, {"bf16": True}, 312),
        (KNOWN, {"tf32": True}, 156),
        (KNOWN, {}, 19.5),
        ("Tesla T4", {"bf16": True}, None),
        ("Tesla T4", {"tf32": True}, 8.1),
        ("Tesla V100-SXM2-32GB", {}, 15.7),
        ("NVIDIA A10", {"bf16": True}, 125),
        ("NVIDIA A10G", {"bf16": True}, None),
        ("NVIDIA H20", {"bf16": True}, 148),
        ("NVIDIA H200", {"bf16": True}, 989.4),
        ("NVIDIA H100 80GB HBM3", {"bf16": True}, 989.4),
        ("NVIDIA H100 PCIe", {"bf16": True}, 756),
        ("NVIDIA H100 NVL", {"bf16": True}, None),
        ("NVIDIA H800", {"bf16": True}, 989.4),
        ("NVIDIA H800 PCIe", {"bf16": True}, 756),
        ("NVIDIA A800-SXM4-80GB", {"bf16": True}, 312),
        ("NVIDIA A800 80GB PCIe", {"bf16": True}, 312),
        ("NVIDIA A100-PCIE-40GB", {"bf16": True}, 312),
        ("NVIDIA H20-3e", {"bf16": True}, 148),
        ("NVIDIA L20", {"bf16": True}, 119.5),
        ("NVIDIA L40S", {"bf16": True}, 362),
        ("NVIDIA B200", {"bf16": True}, 2250),
        ("NVIDIA GB200", {"bf16": True}, None),
        ("NVIDIA H200 NVL", {"bf16": True}, None),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", {"bf16": True}, None),
        ("AMD Instinct MI300X", {}, None),
    ],
)
def test_the_peak_of_a_gpu(name, kind, tera):
    peak = peak_flops(name, **{"bf16": False, "tf32": False, **kind})
    assert peak == (None if tera is None else pytest.approx(tera * 1e12))


def test_every_gpu_of_the_platform_whose_name_is_known_has_a_peak():
    models = [value for value in vars(gpu_models).values() if isinstance(value, gpu_models.GpuModel) and value.label]
    assert models
    for model in models:
        assert peak_flops(model.label, bf16=False, tf32=False), model.label
        # tensor cores compute bfloat16 from compute capability 8.0 on
        has_bf16 = int(model.compute_capability.split(".")[0]) >= 8
        assert bool(peak_flops(model.label, bf16=True, tf32=False)) == has_bf16, model.label


def test_the_share_of_the_peak_counts_the_whole_step():
    report = StepReport(step=1, epoch=0, step_seconds=0.5, samples=100, data_wait_seconds=0.25)
    assert Utilization(flops_per_sample=3e9, peak_flops_of_all_ranks=2e12).of(report) == pytest.approx(0.3)


@pytest.fixture
def known_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: KNOWN)


@pytest.fixture
def tf32_switches():
    """Restore torch's switches: monkeypatch cannot, for torch computes them."""
    cudnn, products = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = cudnn, products


@pytest.mark.usefixtures("known_gpu", "tf32_switches")
@pytest.mark.parametrize(
    ("model", "precision", "tf32_products", "tera"),
    [
        (GptConfig(), "bf16", False, 312),
        (GptConfig(), "bf16_autocast", False, 312),
        (GptConfig(), "fp32", False, 19.5),
        (GptConfig(), "fp32", True, 156),
        (ResNetConfig(), "fp32", False, 156),
    ],
)
def test_the_peak_is_that_of_the_numbers_in_use(model, precision, tf32_products, tera):
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = True, tf32_products
    made = utilization.utilization(model, PrecisionConfig(precision=precision), torch.device("cuda", 0), ranks=4)
    report = StepReport(step=1, epoch=0, step_seconds=1.0, samples=8)
    assert made.of(report) == pytest.approx(8 * flops_per_sample(model) / (4 * tera * 1e12))


@dataclass(frozen=True, kw_only=True)
class Stubborn(DigitsCnnConfig):
    """A model whose code looks at values, which the device meta does not have."""

    model: Literal["stubborn"] = "stubborn"
    reads_images: ClassVar[bool] = True

    def build(self) -> nn.Module:
        network = super().build()
        network.register_forward_pre_hook(lambda _module, inputs: inputs[0].max().item())
        return network


@pytest.mark.usefixtures("known_gpu")
def test_a_model_that_cannot_be_counted_has_none(caplog):
    assert utilization.utilization(Stubborn(), PrecisionConfig(), torch.device("cuda", 0), ranks=1) is None
    assert re.search(r"model=stubborn: its operations cannot be counted, so MFU is not reported: ", caplog.text)


def _steps(config) -> list[dict]:
    trainer = Trainer(config)
    try:
        trainer.train(SimpleNamespace(requested=False, arrived=lambda: False))
        value = trainer.metrics.registry.get_sample_value("athanor_training_mfu", {"run": "small", "rank": "0"})
    finally:
        trainer.close()
    lines = [json.loads(line) for line in (config.folders.logs / "rank-00000.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["event"] == "step"]
    assert value == steps[-1].get("mfu")
    return steps


@pytest.mark.usefixtures("known_gpu")
def test_a_run_on_a_known_gpu_reports_its_utilization_and_one_on_a_cpu_none(small, tmp_path, monkeypatch):
    assert not any("mfu" in step for step in _steps(small()))
    on_gpu = utilization.utilization

    def as_if_on_gpu(model, precision, _device, *, ranks):
        return on_gpu(model, precision, torch.device("cuda", 0), ranks=ranks)

    monkeypatch.setattr(reporter, "utilization", as_if_on_gpu)
    config = small(output_dir=tmp_path / "known")
    flops = 128 * flops_per_sample(config.model)
    for step in _steps(config):
        assert step["mfu"] == pytest.approx(flops / (step["step_seconds"] * 156e12))
