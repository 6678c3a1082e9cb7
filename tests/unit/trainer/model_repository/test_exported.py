"""Programs of torch.export and compiled packages: which arguments they have, and what they return."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tests.tables import each_row
from trainer.model_repository import compiled, exported, model_file

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO, THREE = torch.tensor([[1.0]]), torch.tensor([[2.0]]), torch.tensor([[3.0]])


class Nested(nn.Module):
    def forward(self, x: Tensor, more: dict[str, Tensor], *, least: Tensor) -> dict[str, object]:
        return {"sum": x + more["b"] * 10 + least * 100, "more": (more["a"], None)}


@pytest.fixture(scope="module")
def nested(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "model.pt2"
    program = torch.export.export(Nested(), (ONE, {"a": TWO, "b": THREE}), {"least": ONE.clone()})
    torch.export.save(program, path)
    return path


def test_tensors_within_an_argument_are_arguments(nested):
    program = model_file.load(nested)
    assert (list(program.arguments), program.has_cycles) == (["x", "more_a", "more_b", "least"], True)
    result = program.call(ONE, THREE, TWO, THREE)
    assert (result["sum"].item(), result["more"]) == (321.0, (THREE, None))


class Package:
    """A compiled package of `Nested`, as torch loads it."""

    def __init__(self, path: str, name: str, *_settings: object) -> None:
        assert (path[-10:], name) == ("/model.pt2", "model")

    def get_call_spec(self) -> list[str]:
        given = pytree.tree_structure(((ONE, {"a": ONE, "b": ONE}), {"least": ONE}))
        returned = pytree.tree_structure({"sum": ONE, "more": (ONE,)})
        return [pytree.treespec_dumps(spec) for spec in (given, returned)]

    def boxed_run(self, inputs: list[Tensor]) -> list[Tensor]:
        x, a, b, least = inputs
        return [x + b * 10 + least * 100, a]


def test_a_compiled_package_has_the_arguments_that_triton_names(tmp_path, monkeypatch):
    monkeypatch.setattr(torch._C._aoti, "AOTIModelPackageLoader", Package)
    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("model/data/aotinductor/model/code.so", b"")
    program = model_file.load(tmp_path / "model.pt2")
    assert list(program.arguments) == ["ARGS[0]", "ARGS[1][a]", "ARGS[1][b]", "KWARGS[least]"]
    result = program.call(ONE, THREE, TWO, THREE)
    assert (result["sum"].item(), result["more"][0]) == (321.0, THREE)
    assert not program.has_cycles


@each_row(("name", "is_exported"), [("model.pt2", True), ("model.pt", False)])
def test_a_program_is_neither_a_package_nor_torchscript(nested, name, is_exported):
    assert model_file.is_exported(nested.with_name(name)) == is_exported
    assert not compiled.is_package(nested)
    assert exported.load(nested)[1] == ["x", "more_a", "more_b", "least"]
