"""Models with torchvision's operators, which are registered for the files that call them and for no others."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import torchvision  # noqa: F401  torch.export needs what it says of its operators' shapes
from torch import Tensor, nn

from tests.tables import each_row
from tests.unit.trainer.serve.conftest import Scaled
from trainer.model_repository import exported, model_file, torchscript
from trainer.serve import model, model_config
from trainer.serve.errors import ModelLoadError

CONFIG = """
platform: "pytorch_libtorch"
input [
  { name: "image" data_type: TYPE_FP32 dims: [1, 1, 16, 16] },
  { name: "boxes" data_type: TYPE_FP32 dims: [-1, 4] },
  { name: "scores" data_type: TYPE_FP32 dims: [-1] }
]
output [{ name: "kept" data_type: TYPE_FP32 dims: [-1, 4] }, { name: "crops" data_type: TYPE_FP32 dims: [-1, 1, 2, 2] }]
"""


class Detector(nn.Module):
    """What comes behind the convolutions of a model that detects objects."""

    def forward(self, image: Tensor, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        kept = boxes[torch.ops.torchvision.nms(boxes, scores, 0.5)]
        regions = torch.cat([torch.zeros_like(kept[:, :1]), kept], dim=1)
        return kept, torch.ops.torchvision.roi_align(image, regions, 1.0, 2, 2, 2, False)


INPUTS = (
    torch.rand(1, 1, 16, 16),
    torch.tensor([[0.0, 0.0, 8.0, 8.0], [1.0, 1.0, 8.0, 8.0], [9.0, 9.0, 15.0, 15.0]]),
    torch.tensor([0.9, 0.8, 0.7]),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("detector")
    torchscript.save_frozen(Detector(), folder / "model.pt")
    number = torch.export.Dim("number", min=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`create_unbacked_symint` is deprecated")
        program = torch.export.export(Detector(), INPUTS, dynamic_shapes=({}, {0: number}, {0: number}))
    torch.export.save(program, folder / "model.pt2")
    torchscript.save_frozen(Scaled(1.0), folder / "other.pt")
    exported.save(Scaled(1.0), folder / "other.pt2", [[torch.rand(2, 1, 8, 8)]])
    return folder


@each_row("name", ["model.pt", "model.pt2"])
def test_a_model_that_detects_objects_is_served(files, name):
    loaded = model.load(files / name, model_config.parse(CONFIG, "detector"), 1)
    answers = loaded.infer([tensor.numpy().copy() for tensor in INPUTS])
    for answer, expected in zip(answers, Detector()(*INPUTS), strict=True):
        np.testing.assert_allclose(answer, expected, rtol=1e-6)
    assert len(answers[0]) == 2


@each_row(("name", "libraries"), [("model.pt", 1), ("model.pt2", 1), ("other.pt", 0), ("other.pt2", 0)])
def test_the_operators_are_registered_where_the_file_calls_them(files, name, libraries):
    registered: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.ops, "load_library", registered.append)
        model_file.load(files / name)
    assert len(registered) == libraries


def test_a_library_for_another_torch_is_the_fault_of_the_installation(files, monkeypatch):
    def load(path):
        raise OSError(f"{path}: undefined symbol")

    monkeypatch.setattr(torch.ops, "load_library", load)
    with pytest.raises(ModelLoadError, match=r"torchvision's operators cannot be loaded: .*undefined symbol"):
        model.load(files / "model.pt", model_config.parse(CONFIG, "detector"), 1)
