"""What the loop expects of every registered model, and what each of them is."""

from __future__ import annotations

import pytest
import torch

from tests.tables import each_row
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.models.registry import MODELS
from trainer.pytorch.models.resnet import ResNetConfig


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_registered_by_its_own_name_and_plans_with_its_own_modules(name):
    config = MODELS[name]()
    assert config.model == name
    with torch.device("meta"):
        network = config.build()
    plan = config.plan()
    modules = dict(network.named_modules())
    assert plan.blocks
    assert set(plan.blocks) <= set(modules)
    assert set(plan.tensor) <= set(modules)
    if plan.tensor:
        # a layer that the plan forgets would stay whole on every rank, and its gradient would be a part of the sum
        holders = {parameter.rpartition(".")[0] for parameter, _ in network.named_parameters()}
        assert holders <= set(plan.tensor)


@pytest.mark.parametrize(
    ("depth", "classes", "parameters"), [(18, 1000, 11_689_512), (50, 1000, 25_557_032)], ids=["18", "50"]
)
def test_resnets_have_the_published_number_of_parameters(depth, classes, parameters):
    """As in torchvision's table of its weights."""
    with torch.device("meta"):
        network = ResNetConfig(depth=depth, image_size=224, classes=classes).build()
    assert sum(each.numel() for each in network.parameters()) == parameters


@pytest.mark.parametrize("depth", [18, 50])
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_resnets_return_logits_of_small_images(depth, norm):
    config = ResNetConfig(depth=depth, norm=norm, classes=7, image_size=16)
    network = config.build().eval()
    images = torch.rand(2, 3, 16, 16)
    logits = network(images)
    assert logits.shape == (2, 7)
    torch.testing.assert_close(network(images.contiguous(memory_format=torch.channels_last)), logits)


@each_row(
    ("size", "billions"),
    [("125m", 0.16), ("350m", 0.41), ("760m", 0.84), ("1.3b", 1.42), ("2.7b", 2.78), ("7b", 6.86)],
)
def test_gpt_sizes_have_about_the_parameters_of_their_name(size, billions):
    """12 width² per layer, and two tables of the vocabulary."""
    config = GptConfig(size=size)
    with torch.device("meta"):
        network = config.build()
    shape = config.shape
    count = sum(each.numel() for each in network.parameters())
    tables = (2 * shape.vocabulary + shape.context) * shape.width
    norms = (2 * shape.layers + 1) * 2 * shape.width
    assert count == 12 * shape.layers * shape.width**2 + tables + norms
    assert count / 1e9 == pytest.approx(billions, abs=0.01)


def test_gpt_sees_no_later_token():
    config = GptConfig(layers=2, heads=2, width=16, context=8, vocabulary=32)
    network = config.build()
    tokens = torch.randint(32, (1, 8))
    changed = tokens.clone()
    changed[0, 5:] = (changed[0, 5:] + 1) % 32
    torch.testing.assert_close(network(tokens)[0, :5], network(changed)[0, :5])
    assert not torch.allclose(network(tokens)[0, 5:], network(changed)[0, 5:])


def test_stages_together_compute_what_the_whole_network_computes():
    config = GptConfig(layers=4, heads=2, width=16, context=8, vocabulary=32)
    whole = config.build()
    tokens = torch.randint(32, (2, 8))
    first, last = config.stage(whole, [0, 1]), config.stage(whole, [2, 3])
    assert torch.equal(last(first(tokens)), whole(tokens))
    assert set(first.state_dict()) | set(last.state_dict()) == set(whole.state_dict())
    assert not set(first.state_dict()) & set(last.state_dict())


@pytest.mark.parametrize(
    ("name", "shape", "classes", "message"),
    [
        ("digits_cnn", (3, 32, 32), 10, r"reads images \(1, 8, 8\) of 10 classes.* Fix: --model resnet"),
        ("resnet", (1, 8, 8), 10, r"Fix: --channels 1 --image_size 8 --classes 10"),
        ("resnet", (64,), 256, r"Fix: --model gpt for tokens"),
        ("gpt", (1, 8, 8), 10, r"reads tokens, the data has images \(1, 8, 8\)"),
        ("gpt", (128,), 512, r"context=64 and vocabulary=256, .* Fix: --context 128 --vocabulary 512"),
    ],
)
def test_data_that_a_model_cannot_read_is_refused(name, shape, classes, message):
    with pytest.raises(ValueError, match=message):
        MODELS[name]().check_data(shape, classes)


def test_data_that_fits_is_taken():
    MODELS["digits_cnn"]().check_data((1, 8, 8), 10)
    ResNetConfig().check_data((3, 32, 32), 10)
    GptConfig().check_data((64,), 256)


def test_impossible_gpt_is_refused():
    with pytest.raises(ValueError, match="width=64: must be a multiple of heads=3"):
        GptConfig(heads=3)
    with pytest.raises(ValueError, match="layers=0: must be at least 1"):
        GptConfig(layers=0)
