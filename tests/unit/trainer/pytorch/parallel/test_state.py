"""Which tensors of a state a step may still change while the state is being copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from torch import nn

from trainer.common.validation import SettingsError
from trainer.pytorch.models.model_config import ModelConfig, ShardingPlan
from trainer.pytorch.models.resnet import ResNetConfig
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.parallel import state
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.parallel.layout import Layout


def test_a_forward_pass_changes_no_tensor_of_a_state(alone):
    model = Recipe(model=ResNetConfig(image_size=8)).build(Layout(ParallelConfig().degrees(1), "cpu"), alone.device)
    optimizer = OptimizerConfig().build(model.module.parameters())
    saved = state.state_dict(model, optimizer)["model"]
    before = {name: tensor.clone() for name, tensor in saved.items()}
    model.forward_backward(torch.rand(2, 3, 8, 8), torch.arange(2), lambda *_: None)
    for name, tensor in saved.items():
        assert torch.equal(tensor, before[name]), name
    averages = [name for name in saved if name.endswith("running_mean")]
    assert averages
    assert not any(torch.equal(saved[name], dict(model.module.named_buffers())[name]) for name in averages)
    # a copy of every parameter would take as long as the save itself
    used = {parameter.data_ptr() for parameter in model.module.parameters()}
    assert {saved[name].data_ptr() for name, _ in model.module.named_parameters()} == used


class Scaled(nn.Module):
    """Multiplies by constants that are not part of its state."""

    def __init__(self, *, persistent: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 2.0), persistent=persistent)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.scale


class Tied(nn.Module):
    """Reads and writes tokens with the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.logits = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
        self.logits.weight = self.tokens.weight


@dataclass(frozen=True, kw_only=True)
class OwnConfig(ModelConfig):
    model: Literal["own"] = "own"
    kind: str = "constants"
    built_on_meta = True
    input_shape = (4,)

    def build(self) -> nn.Module:
        return Tied() if self.kind == "tied" else Scaled(persistent=self.kind == "buffers")

    def plan(self) -> ShardingPlan:
        return ShardingPlan()

    def check_data(self, sample_shape, classes) -> None:
        pass


class WholeConfig(OwnConfig):
    built_on_meta = False


def test_a_module_rebuilt_from_a_state_has_its_constants():
    module = Scaled(persistent=False)
    rebuilt = state.module_with(WholeConfig(), module.state_dict())
    x = torch.rand(2, 4)
    assert torch.equal(rebuilt(x), module(x))


@pytest.mark.parametrize(("config", "device"), [(OwnConfig(), "meta"), (WholeConfig(), "cpu")])
def test_a_model_that_is_built_on_meta_is_not_in_memory_twice(monkeypatch, config, device):
    built_on = []

    def build(_):
        built_on.append(torch.empty(1).device.type)
        return nn.Linear(4, 4)

    monkeypatch.setattr(OwnConfig, "build", build)
    whole = nn.Linear(4, 4).state_dict()
    assert torch.equal(state.module_with(config, whole).weight, whole["weight"])
    assert built_on == [device]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("tied", "model=own: tokens.weight and logits.weight share a parameter, .* Fix: built_on_meta = False"),
        ("buffers", "model=own: scale: buffers have no values .* Fix: built_on_meta = False"),
        ("constants", "model=own: scale: buffers have no values"),
    ],
)
def test_a_model_that_meta_would_change_is_refused(alone, kind, message):
    layout = Layout(ParallelConfig().degrees(1), "cpu")
    with pytest.raises(SettingsError, match=message):
        Recipe(model=OwnConfig(kind=kind)).build(layout, alone.device)
