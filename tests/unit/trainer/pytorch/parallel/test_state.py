"""Which tensors of a state a step may still change while the state is being copied."""

from __future__ import annotations

import torch

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
