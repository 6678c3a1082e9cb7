"""What sharding leaves gathered, and who draws first values, and when."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.distributed.tensor import DTensor

from tests.unit.trainer.pytorch.small_runs import run
from trainer.pytorch.data import samples
from trainer.pytorch.data.tokens import TokensConfig
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.parallel import sharding
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.parallel.layout import Layout
from trainer.pytorch.precision import PrecisionConfig

TINY = GptConfig(layers=2, width=16, heads=2, context=8)


def whole(model) -> set[str]:
    """Return the parts of a model whose parameters are whole now: the first part of their names."""
    names = {name for name, each in model.module.named_parameters() if not isinstance(each, DTensor)}
    return {name.partition(".")[0] for name in names}


@pytest.fixture
def sharded(alone):
    layout = Layout(ParallelConfig().degrees(1), "cpu")
    return Recipe(model=TINY, precision=PrecisionConfig(precision="bf16")).build(layout, alone.device)


def test_what_is_in_no_block_is_gathered_once_in_a_step(sharded):
    tokens = torch.zeros(2, 8, dtype=torch.int64)
    seen = []
    sharded.forward_backward(tokens, tokens, lambda *_: seen.append(whole(sharded)))
    assert seen == [{"embedding", "head"}], "between forward and backward pass"
    assert whole(sharded) == set()


def test_after_an_evaluation_the_parameters_are_shards_again(sharded):
    tokens = torch.zeros(2, 8, dtype=torch.int64)
    sharded.score(tokens, tokens, TINY.task.score)
    assert whole(sharded) == {"embedding", "head"}
    sharded.reshard()
    assert whole(sharded) == set()


def test_gpus_draw_by_themselves(monkeypatch):
    model = TINY.outline().to_empty(device="cpu")
    drew = []

    class Config:
        def initial_value(self, _name, shape, generator):
            drew.append((torch.empty(0).device.type, generator))
            return torch.zeros(shape, device="cpu")

    monkeypatch.setattr(torch, "Generator", lambda device: SimpleNamespace(manual_seed=lambda _seed: device))
    meta = torch.device("meta")  # as a GPU that is not there
    sharding.draw(model.to("meta"), Config(), 0, meta)
    assert set(drew) == {("meta", meta)}
    assert len(drew) == len(list(model.parameters()))


@pytest.fixture
def tokens(tmp_path):
    samples.prepare_tokens(tmp_path / "tokens")
    return TokensConfig(data_dir=tmp_path / "tokens", batch_size=4)


@pytest.mark.parametrize(("needs_cpu", "built_on"), [(False, ["meta"]), (True, ["meta", "cpu"])])
def test_a_network_that_is_built_with_its_values_is_built_where_it_computes(monkeypatch, needs_cpu, built_on):
    seen = []

    def build(_config):
        network = torch.nn.Linear(2, 2)
        seen.append(network.weight.device.type)
        if needs_cpu:
            network.weight.detach().numpy()
        return network

    monkeypatch.setattr(DigitsCnnConfig, "build", build)
    elsewhere = torch.device("meta")
    module = Recipe(model=DigitsCnnConfig())._with_values(elsewhere)
    assert seen == built_on
    assert {each.device for each in module.parameters()} == {elsewhere}


def test_a_run_that_resumes_draws_no_values_unless_its_checkpoints_are_damaged(small, tokens, monkeypatch):
    drew = []
    initial = GptConfig.initial_value

    def counted(self, name, *arguments):
        drew.append(name)
        return initial(self, name, *arguments)

    monkeypatch.setattr(GptConfig, "initial_value", counted)
    config = small(data=tokens, model=TINY, max_steps=4, evaluation_interval_steps=100)
    run(config, stop_at=2)
    first = len(drew)
    assert first == len(list(TINY.outline().parameters()))
    run(config, stop_at=3)
    assert len(drew) == first
    for path in config.folders.checkpoints.glob("step-*/*.distcp"):
        path.write_bytes(b"damaged")
    run(config, stop_at=1)
    assert len(drew) == 2 * first
