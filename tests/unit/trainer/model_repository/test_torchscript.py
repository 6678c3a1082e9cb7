"""Writing TorchScript where torch itself goes wrong."""

import torch
from torch import nn

from trainer.model_repository import torchscript


def test_an_attribute_in_the_place_of_an_operator_that_is_gone_stays_an_attribute(tmp_path):
    convolution = nn.Conv2d(1, 1, 3, padding=1)
    torch.jit._builtins._get_builtin_table()[id(convolution._reversed_padding_repeated_twice)] = "aten::clone"
    torchscript.save_frozen(convolution, tmp_path / "model.pt")
    assert torchscript.load(tmp_path / "model.pt")(torch.ones(1, 1, 4, 4)).shape == (1, 1, 4, 4)


def test_a_transformer_of_torch_can_be_traced(tmp_path):
    """Which takes another path without gradients, as in the check of the trace."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    tokens = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
    torchscript.save_frozen(layer, tmp_path / "model.pt", [tokens])
    with torch.inference_mode():
        torch.testing.assert_close(torchscript.load(tmp_path / "model.pt")(tokens), layer(tokens))
