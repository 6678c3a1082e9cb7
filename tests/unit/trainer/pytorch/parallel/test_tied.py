"""Parameters with several names: refused where a layout would make several of them, else trained as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from trainer.common.validation import SettingsError
from trainer.pytorch.models.model_config import ModelConfig, ShardingPlan
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.parallel import state
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import Degrees, ParallelConfig
from trainer.pytorch.parallel.layout import Layout
from trainer.pytorch.parallel.tied import refuse_divided_ties, tied_parameters
from trainer.pytorch.precision import PrecisionConfig

BLOCKS = ("layers.0", "layers.1")
SHARED = "of own share a parameter"


class Tied(nn.Module):
    """Reads and writes tokens with the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.logits = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(2))
        self.logits.weight = self.tokens.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x)
        for layer in self.layers:
            x = layer(x)
        return self.logits(x)


@dataclass(frozen=True, kw_only=True)
class OwnConfig(ModelConfig):
    model: Literal["own"] = "own"
    blocks: tuple[str, ...] = BLOCKS
    input_shape = (4,)

    def build(self) -> nn.Module:
        return Tied()

    def plan(self) -> ShardingPlan:
        styles = {
            "tokens": RowwiseParallel(input_layouts=Replicate()),
            "logits": ColwiseParallel(output_layouts=Replicate()),
        }
        return ShardingPlan(blocks=self.blocks, tensor=styles)

    def check_data(self, sample_shape, classes) -> None:
        pass


def degrees(**changes: int) -> Degrees:
    return Degrees(**{"replicate": 1, "shard": 1, "tensor": 1, "pipeline": 1, "stages_per_rank": 1, **changes})


def tied_layers(first: nn.Linear, second: nn.Linear) -> None:
    second.weight = first.weight


@pytest.fixture
def layers() -> nn.Module:
    """A model of two blocks whose only tied parameter is in its blocks."""
    model = Tied()
    model.logits = nn.Linear(4, 6, bias=False)
    return model


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ({"tensor": 2}, rf"tensor_parallel=2: tokens\.weight and logits\.weight {SHARED}, .* one for each\. Fix: "),
        ({"pipeline": 2}, rf"pipeline_parallel=2: tokens\.weight and logits\.weight {SHARED}, .*its own\. Fix: "),
    ],
)
def test_layers_and_stages_cannot_share_a_parameter(of, message):
    with pytest.raises(SettingsError, match=message):
        refuse_divided_ties(Tied(), "own", BLOCKS, degrees(**of), sharded=False)


@pytest.mark.parametrize(
    ("blocks", "shard", "message"),
    [
        (("tokens", *BLOCKS), 2, r"data_parallel_shard=2: .*FSDP \(what is in no block, tokens\)\. Fix: "),
        (("tokens", "logits"), 1, r"precision=bf16: .*FSDP \(logits, tokens\)\. Fix: "),
    ],
)
def test_units_of_fsdp_cannot_share_a_parameter(blocks, shard, message):
    with pytest.raises(SettingsError, match=message):
        refuse_divided_ties(Tied(), "own", blocks, degrees(shard=shard), sharded=True)


def test_blocks_cannot_share_a_parameter_but_one_block_can(layers):
    tied_layers(layers.layers[0][0], layers.layers[0][1])
    for of in ({"shard": 2}, {"pipeline": 2}, {"replicate": 2}):
        refuse_divided_ties(layers, "own", BLOCKS, degrees(**of), sharded="shard" in of)
    tied_layers(layers.layers[0][0], layers.layers[1][0])
    names = r"layers\.0\.0\.weight and layers\.0\.1\.weight and layers\.1\.0\.weight"
    for of in ({"shard": 2}, {"pipeline": 2}):
        with pytest.raises(SettingsError, match=names):
            refuse_divided_ties(layers, "own", BLOCKS, degrees(**of), sharded="shard" in of)
    refuse_divided_ties(layers, "own", BLOCKS, degrees(replicate=2), sharded=False)


def test_a_module_with_two_names_is_only_refused_for_a_pipeline(layers):
    layers.layers[1] = layers.layers[0]
    for of in ({"shard": 2}, {"tensor": 2}):
        refuse_divided_ties(layers, "own", BLOCKS, degrees(**of), sharded="shard" in of)
    with pytest.raises(SettingsError, match=r"pipeline_parallel=2: layers\.0\.0\.weight and layers\.1\.0\.weight"):
        refuse_divided_ties(layers, "own", BLOCKS, degrees(pipeline=2), sharded=False)


def test_a_model_is_checked_when_it_is_built(alone):
    recipe = Recipe(model=OwnConfig(blocks=("tokens",)), precision=PrecisionConfig(precision="bf16"))
    with pytest.raises(SettingsError, match="share a parameter"):
        recipe.build(Layout(ParallelConfig().degrees(1), "cpu"), alone.device)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_tied_parameters_stay_one_in_training_and_after_a_load(alone, precision):
    """In bf16 FSDP has them, in one unit; `test_layouts.py` has more ranks."""
    recipe = Recipe(model=OwnConfig(), precision=PrecisionConfig(precision=precision))
    layout = Layout(ParallelConfig().degrees(1), "cpu")
    first, second = (recipe.build(layout, alone.device) for _ in range(2))
    optimizers = [OptimizerConfig().build(each.module.parameters()) for each in (first, second)]
    inputs = torch.arange(6).repeat(2, 1)
    first.forward_backward(inputs, inputs, lambda *_: None)
    optimizers[0].step()
    state.load_state_dict(second, optimizers[1], state.state_dict(first, optimizers[0]))
    for model in (first, second):
        assert tied_parameters(model.module) == [["tokens.weight", "logits.weight"]]
    weights, loaded = state.whole_model(first), state.whole_model(second)
    assert torch.equal(weights["tokens.weight"], weights["logits.weight"])
    assert all(torch.equal(loaded[name], value) for name, value in weights.items())
