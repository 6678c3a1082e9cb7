"""Calls of a loaded model: which argument and which output is which."""

from __future__ import annotations

import contextlib
import re
from typing import NamedTuple

import numpy as np
import pytest
import torch

from tests.tables import each_row
from trainer.model_repository import torchscript
from trainer.model_repository.model_file import Program
from trainer.serve import model, model_config, warmup
from trainer.serve.errors import ModelLoadError
from trainer.serve.model import LoadedModel

SMALL, LARGE = torch.tensor([[1.0]]), torch.tensor([[2.0]])


class Two(NamedTuple):
    small: torch.Tensor
    large: torch.Tensor


def config(inputs: list[str], outputs: list[str]) -> model_config.ModelSpec:
    def tensors(names):
        return ", ".join(f'{{ name: "{name}" data_type: TYPE_FP32 dims: [1] }}' for name in names)

    return model_config.parse(
        f'platform: "pytorch_libtorch" max_batch_size: 2 input [{tensors(inputs)}] output [{tensors(outputs)}]', "m"
    )


def outputs(names: list[str], result: object) -> list[float]:
    """Return what is answered for outputs of these names by a model that returns this."""
    loaded = LoadedModel(config(["x"], names), 1, Program(call=lambda _: result, arguments=["x"]))
    return [array.item() for array in loaded.infer([np.zeros((1, 1), np.float32)])]


@each_row(
    ("names", "result", "expected"),
    [
        (["OUT__0", "OUT__1"], (SMALL, LARGE), [1.0, 2.0]),
        (["OUT__1", "OUT__0"], (SMALL, LARGE), [2.0, 1.0]),
        (["large__1", "small__0"], [SMALL, LARGE], [2.0, 1.0]),
        (["any", "other__0"], (SMALL, LARGE), [1.0, 2.0]),
        (["__a", "b__"], (SMALL, LARGE), [1.0, 2.0]),
        (["large", "small"], {"small": SMALL, "large": LARGE}, [2.0, 1.0]),
        (["large", "small"], Two(SMALL, LARGE), [2.0, 1.0]),
        (["OUT__1", "OUT__0"], Two(SMALL, LARGE), [2.0, 1.0]),
        (["first", "second"], Two(SMALL, LARGE), [1.0, 2.0]),
        (["y"], SMALL, [1.0]),
        (["y__0"], SMALL, [1.0]),
        (["y"], {"y": SMALL}, [1.0]),
        (["large"], {"small": SMALL, "large": LARGE}, [2.0]),
        (["RESULT"], SMALL, [1.0]),
        (["RESULT[1]", "RESULT[0]"], (SMALL, LARGE), [2.0, 1.0]),
        (["RESULT[large]", "small"], {"small": SMALL, "large": LARGE}, [2.0, 1.0]),
        (["RESULT[1][0][boxes]", "RESULT[0]"], (SMALL, [{"boxes": LARGE, "scores": SMALL}]), [2.0, 1.0]),
        (["RESULT[0][large]"], (Two(SMALL, LARGE),), [2.0]),
        (["a", "b", "c"], (SMALL, (LARGE, SMALL)), [1.0, 2.0, 1.0]),
        (["O__1", "O__2", "O__0"], ((SMALL, LARGE), LARGE), [2.0, 2.0, 1.0]),
        (["a"], (None, SMALL), [1.0]),
    ],
)
def test_outputs_are_found_by_name_number_or_order(names, result, expected):
    assert outputs(names, result) == expected


@each_row(
    ("names", "result", "returned"),
    [
        (["a", "b"], (SMALL, LARGE, SMALL), "['Tensor', 'Tensor', 'Tensor']"),
        (["a", "b"], (SMALL, None), "['Tensor', 'NoneType']"),
        (["a", "b"], (SMALL, (SMALL, LARGE)), "['Tensor', 'tuple']"),
        (["a", "b"], {"a": SMALL, "c": LARGE}, "{'a': 'Tensor', 'c': 'Tensor'}"),
        (["a"], {"a": None}, "{'a': 'NoneType'}"),
        (["a"], {"b": SMALL}, "{'b': 'Tensor'}"),
        (["a", "b"], ({"a": SMALL}, {"b": LARGE}), "['dict', 'dict']"),
        (["RESULT[0]", "RESULT[2]"], (SMALL, LARGE, {}), "['Tensor', 'Tensor', 'dict']"),
        (["a"], None, "['NoneType']"),
    ],
)
def test_what_is_not_a_tensor_for_each_output_is_refused(names, result, returned):
    with pytest.raises(ModelLoadError, match=re.escape(f"the model returns {returned}; config.pbtxt promises a")):
        outputs(names, result)


@each_row(("result", "given"), [(1, "int"), (["a"], "list"), (SMALL.double(), "torch.float64")])
def test_another_type_than_that_of_the_configuration_is_refused(result, given):
    with pytest.raises(ModelLoadError, match=rf"output 'a' is {given}; config\.pbtxt says FP32"):
        outputs(["a"], result)


@each_row(("inputs", "names"), [(["x"], ["OUT__1", "OUT__2"]), (["x"], ["OUT__0", "b__00"]), (["x__1"], ["y"])])
def test_numbers_that_are_not_places_are_refused(inputs, names):
    with pytest.raises(ModelLoadError, match=r"the numbers after __ are indices: must be each of \[0.*\] once"):
        LoadedModel(config(inputs, names), 1, Program(call=lambda _: SMALL, arguments=["x"]))


class Named(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Two:
        return Two(x, x + 1)


class Keyed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"small": x, "large": x + 1}


@each_row("module", [Named(), Keyed()], ids=["named tuple", "dict"])
def test_a_file_keeps_the_names_of_its_outputs(tmp_path, module):
    torchscript.save_frozen(module, tmp_path / "model.pt")
    loaded = model.load(tmp_path / "model.pt", config(["x"], ["large", "small"]), 1)
    assert [array.item() for array in loaded.infer([np.ones((1, 1), np.float32)])] == [2.0, 1.0]


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, factor: float = 2.0, more: torch.Tensor | None = None) -> torch.Tensor:
        return x * factor if more is None else x * factor + more


class ByKeyword(torch.nn.Module):
    def forward(self, x: torch.Tensor, *, less: torch.Tensor) -> torch.Tensor:
        return x - less


class OfDict(torch.nn.Module):
    def forward(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        return tensors["x"] - tensors["less"]


@each_row(
    ("module", "inputs", "expected"),
    [
        (Scaled(), {"x": 3.0}, 6.0),
        (Scaled(), {"any": 3.0}, 6.0),
        (Scaled(), {"more": 1.0, "x": 3.0}, 7.0),
        (ByKeyword(), {"less": 1.0, "x": 3.0}, 2.0),
        (ByKeyword(), {"IN__1": 1.0, "IN__0": 3.0}, 2.0),
        (OfDict(), {"less": 1.0, "x": 3.0}, 2.0),
    ],
)
def test_arguments_are_found_by_name_number_or_order_and_keep_their_defaults(
    tmp_path_factory, module, inputs, expected
):
    file = tmp_path_factory.mktemp("model") / "model.pt"
    torchscript.save_frozen(module, file)
    loaded = model.load(file, config(list(inputs), ["y"]), 1)
    [array] = loaded.infer([np.full((1, 1), value, np.float32) for value in inputs.values()])
    assert array.item() == expected


@each_row("names", [["more"], ["x", "y", "z", "w"], ["any"]])
def test_inputs_that_are_not_the_arguments_are_refused(names):
    program = Program(call=Scaled(), arguments=["x", "factor", "more"], defaults=frozenset({"more"}))
    with pytest.raises(
        ModelLoadError, match=r"the model takes \['x', 'factor', 'more'\]; config.pbtxt has the inputs \["
    ):
        LoadedModel(config(names, ["y"]), 1, program)


def test_an_input_that_order_would_give_to_another_argument_than_the_one_of_its_name_is_refused():
    program = Program(call=Scaled(), arguments=["x", "factor"], defaults=frozenset())
    with pytest.raises(ModelLoadError, match=r"by order, input 'factor' would be the model's 'x', .*\. Fix: "):
        LoadedModel(config(["factor", "exx"], ["y"]), 1, program)


class Total(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum()


class Half(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16)


class TwoRows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, 3).sum(1, keepdim=True)


BATCHES, SQUEEZED = "max_batch_size: 2", "[1] reshape { shape: [] }"


@each_row(
    ("module", "batches", "dims", "refusal"),
    [
        (Scaled(), BATCHES, ("[1]", "[1]"), ""),
        (Total(), BATCHES, ("[1]", "[1]"), "output 'y' has shape []; config.pbtxt says [2, 1]"),
        (Total(), "", ("[3]", "[1]"), "output 'y' has shape []; config.pbtxt says [1]"),
        (Total(), "", ("[3]", "[]"), "output 'y': dims []: "),
        (torch.nn.Identity(), BATCHES, ("[]", "[]"), ""),
        (torch.nn.Identity(), BATCHES, (SQUEEZED, SQUEEZED), ""),
        (torch.nn.Identity(), BATCHES, (SQUEEZED, "[1]"), "output 'y' has shape [2]; config.pbtxt says [2, 1]"),
        (Half(), BATCHES, ("[1]", "[1]"), "output 'y' is torch.bfloat16; config.pbtxt says FP32"),
        (TwoRows(), BATCHES, ("[3]", "[1]"), "the model fails on zeros in a batch of 1: RuntimeError: shape '[2, 3]'"),
        (TwoRows(), "", ("[2, 3]", "[2, 1]"), ""),
    ],
)
def test_forms_of_models_are_served_or_refused_as_documented(tmp_path_factory, module, batches, dims, refusal):
    file = tmp_path_factory.mktemp("model") / "model.pt"
    torchscript.save_frozen(module, file)
    tensors = [
        f'[{{ name: "{name}" data_type: TYPE_FP32 dims: {each} }}]' for name, each in zip("xy", dims, strict=True)
    ]
    text = f'platform: "pytorch_libtorch" {batches} input {tensors[0]} output {tensors[1]}'
    refused = pytest.raises(ModelLoadError, match=re.escape(refusal)) if refusal else contextlib.nullcontext()
    with refused:
        warmup.warm_up(model.load(file, model_config.parse(text, "m"), 1), tmp_path_factory.getbasetemp(), 60)
