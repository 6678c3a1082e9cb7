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
from trainer.pod_modules.athanor_gpu_peaks import gpu_peak
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
    ("name", "tera"),
    [
        (KNOWN, 312),
        ("Tesla T4", 65),
        ("Tesla V100-SXM2-32GB", 125),
        ("NVIDIA A10", 125),
        ("NVIDIA A10G", None),
        ("NVIDIA H20", 148),
        ("NVIDIA H200", 989.4),
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA H800", 989.4),
        ("NVIDIA H800 PCIe", 756),
        ("NVIDIA A800-SXM4-80GB", 312),
        ("NVIDIA A800 80GB PCIe", 312),
        ("NVIDIA A100-PCIE-40GB", 312),
        ("NVIDIA H20-3e", 148),
        ("NVIDIA L20", 119.5),
        ("NVIDIA L40S", 362),
        ("NVIDIA B200", 2250),
        ("NVIDIA GB200", None),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", None),
        ("AMD Instinct MI300X", None),
    ],
)
def test_the_peak_of_a_gpu(name, tera):
    peak = gpu_peak(name)
    assert (peak and peak.flops) == (None if tera is None else pytest.approx(tera * 1e12))


def test_every_gpu_of_the_platform_whose_name_is_known_has_a_peak():
    models = [value for value in vars(gpu_models).values() if isinstance(value, gpu_models.GpuModel) and value.label]
    assert models
    for model in models:
        peak = gpu_peak(model.label)
        assert peak, model.label
        # tensor cores compute bfloat16 from compute capability 8.0 on
        assert bool(peak.bf16) == (int(model.compute_capability.split(".")[0]) >= 8), model.label


def test_the_share_of_the_peak_counts_the_whole_step():
    report = StepReport(step=1, epoch=0, step_seconds=0.5, samples=100, data_wait_seconds=0.25)
    assert Utilization(flops_per_sample=3e9, peak_flops_of_all_ranks=2e12).of(report) == pytest.approx(0.3)


@pytest.fixture
def known_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: KNOWN)


@pytest.mark.usefixtures("known_gpu")
def test_the_peak_is_that_of_bfloat16_whatever_a_run_computes_in():
    model = GptConfig()
    made = utilization.utilization(model, torch.device("cuda", 0), ranks=4)
    report = StepReport(step=1, epoch=0, step_seconds=1.0, samples=8)
    assert made.of(report) == pytest.approx(8 * flops_per_sample(model) / (4 * 312e12))


@each_row(
    ("name", "capability", "options", "said"),
    [
        (
            *(KNOWN, (8, 0), {}),
            (
                "precision=fp32: uses none of the GPU's tensor cores, at most 19.5 of the 312 TFLOP/s that "
                "NVIDIA A100-SXM4-80GB has in bfloat16. Fix: --precision bf16_autocast for replicas, "
                "bf16 for sharded models, or --float32_matmul high to keep float32 and use TF32"
            ),
        ),
        (
            *(KNOWN, (8, 0), {"reads_images": True}),
            (
                "precision=fp32: uses TF32 of the GPU's tensor cores, at most 156 of the 312 TFLOP/s that "
                "NVIDIA A100-SXM4-80GB has in bfloat16. Fix: --precision bf16_autocast for replicas, bf16 for sharded "
                "models"
            ),
        ),
        (
            *("NVIDIA Next", (12, 0), {}),
            (
                "precision=fp32: uses none of the GPU's tensor cores. Fix: --precision bf16_autocast for replicas, "
                "bf16 for sharded models, or --float32_matmul high to keep float32 and use TF32"
            ),
        ),
        ("Tesla T4", (7, 5), {}, None),
        (KNOWN, (8, 0), {"precision": "bf16"}, None),
        (KNOWN, (8, 0), {"float32_matmul": "high"}, None),
        (KNOWN, (8, 0), {"device": "cpu"}, None),
    ],
)
def test_a_run_says_what_float32_leaves_unused(name, capability, options, said):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_name", lambda _device: name)
        patch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
        images, device = options.pop("reads_images", False), torch.device(options.pop("device", "cuda"))
        notes = PrecisionConfig(**options).notes(device, reads_images=images)
    assert notes == ([said] if said else [])


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
    assert utilization.utilization(Stubborn(), torch.device("cuda", 0), ranks=1) is None
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

    def as_if_on_gpu(model, _device, *, ranks):
        return on_gpu(model, torch.device("cuda", 0), ranks=ranks)

    monkeypatch.setattr(reporter, "utilization", as_if_on_gpu)
    config = small(output_dir=tmp_path / "known")
    flops = 128 * flops_per_sample(config.model)
    for step in _steps(config):
        assert step["mfu"] == pytest.approx(flops / (step["step_seconds"] * 312e12))
