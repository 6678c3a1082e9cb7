"""How exactly float32 numbers are multiplied: which of torch's switches are set, and what is said where none is."""

from __future__ import annotations

import pytest
import torch

from trainer.pytorch.loop import Trainer
from trainer.pytorch.precision import PrecisionConfig, use

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _restored():
    convolutions = torch.backends.mkldnn.conv.fp32_precision
    yield
    torch.set_float32_matmul_precision("highest")
    torch.backends.mkldnn.conv.fp32_precision = convolutions


@pytest.fixture
def cpu_has(monkeypatch):
    return lambda *features: monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(features, True))


@pytest.fixture
def gpu_has(monkeypatch):
    return lambda *capability: monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)


@pytest.mark.parametrize(
    ("precision", "feature", "expected"), [("medium", "amx_bf16", "bf16"), ("high", "amx_fp16", "tf32")]
)
def test_a_cpu_that_can_multiplies_in_less_and_its_convolutions_too(cpu_has, caplog, precision, feature, expected):
    cpu_has(feature)
    use(precision, CPU, warns=True)
    assert torch.get_float32_matmul_precision() == precision
    assert torch.backends.mkldnn.conv.fp32_precision == torch.backends.mkldnn.matmul.fp32_precision == expected
    assert not caplog.messages


@pytest.mark.parametrize("warns", [True, False])
def test_a_cpu_that_cannot_is_left_as_it_is_and_one_rank_says_so(cpu_has, caplog, warns):
    cpu_has("avx512_bf16")
    use("medium", CPU, warns=warns)
    assert torch.get_float32_matmul_precision() == "highest"
    said = ["float32_matmul=medium: this CPU has no amx_bf16; products stay in float32"]
    assert caplog.messages == (said if warns else [])


def test_gpus_from_ampere_on_use_tf32_and_older_ones_say_that_they_cannot(gpu_has, caplog):
    gpu_has(8, 0)
    use("high", GPU, warns=True)
    # which the utilisation of the GPU reads for its peak
    assert torch.backends.cuda.matmul.allow_tf32
    torch.set_float32_matmul_precision("highest")
    assert not caplog.messages

    gpu_has(7, 5)
    use("high", GPU, warns=True)
    assert not torch.backends.cuda.matmul.allow_tf32
    said = "TF32 needs a GPU of compute capability 8.0 (Ampere), this one has 7.5"
    assert caplog.messages == [f"float32_matmul=high: {said}; products stay in float32"]


def test_the_default_leaves_torch_as_a_user_set_it():
    torch.set_float32_matmul_precision("high")
    use("highest", CPU, warns=True)
    assert torch.get_float32_matmul_precision() == "high"


def test_it_is_for_float32_alone():
    with pytest.raises(ValueError, match=r"float32_matmul=high: is for --precision fp32; with bf16 .* Fix: leave one"):
        PrecisionConfig(precision="bf16", float32_matmul="high")


def test_a_run_trains_with_it(small, cpu_has):
    cpu_has("amx_bf16")
    trainer = Trainer(small(precision=PrecisionConfig(float32_matmul="medium")))
    trainer.close()
    assert torch.get_float32_matmul_precision() == "medium"


def test_it_decides_the_course_of_a_run_and_older_checkpoints_do_not_name_it():
    assert PrecisionConfig().settings() == {}
    assert PrecisionConfig(precision="bf16").settings() == {"precision": "bf16", "channels_last": False}
    assert PrecisionConfig(float32_matmul="high").settings()["float32_matmul"] == "high"
