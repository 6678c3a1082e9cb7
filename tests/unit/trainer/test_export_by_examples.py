"""Networks of several inputs, of other types, or without classes: published by examples of their calls, and served."""

import json
import sys

import numpy as np
import pytest
import torch

from tests.tables import each_row
from trainer import export
from trainer.pytorch import model_files
from trainer.serve.loader import ModelLoader
from trainer.serve.local_models import LocalModels

pytestmark = pytest.mark.long

NETWORK = """
import torch
from torch import nn

class Encoder(nn.Module):
    '''Tokens and a mask to a vector and a score, as a text encoder does.'''

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, tokens, mask, scale: float = 1.0):
        weights = mask.to(torch.float32)[..., None]
        pooled = (self.table(tokens) * weights).sum(dim=1) / weights.sum(dim=1)
        return {"pooled": pooled, "scores": self.head(pooled)}

class Counts(nn.Module):
    def forward(self, tokens):
        return (tokens * 2, [tokens.to(torch.float64).mean(dim=1)])

class Numbers(nn.Module):
    def forward(self, tokens):
        return 3

class OneRow(nn.Module):
    def forward(self, tokens):
        return tokens.sum()

class ByName(nn.Module):
    def forward(self, tokens, *, mask):
        return tokens * mask

class Nested(nn.Module):
    def forward(self, tokens):
        return tokens, {"twice": tokens * 2}

class Unrolled(nn.Module):
    def forward(self, tokens, mask):
        total = tokens[:, 0]
        for place in range(1, tokens.shape[1]):
            total = total + tokens[:, place]
        return total

class Twice(nn.Module):
    def forward(self, tokens):
        return tokens * 2

class Path(nn.Module):
    '''A path of points, of any number, to its middle and its length: no batches.'''

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.turn = nn.Linear(3, 3)

    def forward(self, points, weights):
        turned = self.turn(points) * weights[:, None]
        return {"middle": turned.mean(dim=0), "length": (turned[1:] - turned[:-1]).abs().sum().reshape(1)}

class Whole(Path):
    '''Of a fixed number of points.'''

    def forward(self, points):
        return self.turn(points).sum(dim=0)

def path(points):
    return {"points": torch.linspace(0, 2, 3 * points).reshape(points, 3), "weights": torch.ones(points)}

def paths():
    return [path(5), path(9)]

whole = {"points": torch.linspace(0, 2, 12).reshape(4, 3)}
number = {"tokens": torch.tensor(3)}

def loaded():
    return Encoder()

def call(rows, length):
    tokens = torch.arange(rows * length).reshape(rows, length) % 50
    return {"mask": tokens % 3 > 0, "tokens": tokens}

def lengths():
    return [call(8, 6), call(5, 9)]

one = {"tokens": torch.arange(24).reshape(8, 3)}
row = {"tokens": torch.arange(3)}
numpy = {"tokens": torch.arange(24).reshape(8, 3).numpy()}
empty = {}
text = {"tokens": ["a", "b"]}
uneven = {"tokens": torch.zeros(4, 2), "mask": torch.zeros(3, 2)}
single = {"tokens": torch.zeros(1, 2)}
unknown = {"words": torch.zeros(4, 2)}
complex_numbers = {"tokens": torch.zeros(4, 2, dtype=torch.complex64)}
types = [call(4, 2), {"mask": torch.zeros(4, 2), "tokens": torch.zeros(4, 2)}]
large = {"tokens": torch.full((4, 2), 99), "mask": torch.ones(4, 2, dtype=torch.bool)}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "text.py").write_text(NETWORK)
    sys.modules.pop("text", None)  # of another folder
    return tmp_path


def run(folder, network, examples, *more):
    file = folder / "text.py"
    words = [f"--network={file}:{network}", f"--examples={file}:{examples}", f"--model_repository={folder / 'models'}"]
    return export.main([*words, "--model_name=text", *more])


def served(folder, inputs, variant=None):
    """Return the answers by name, as a server gives them."""
    loader = ModelLoader(folder / "models/text", LocalModels(0, variant).load, lambda _: None, None, variant)
    snapshot = loader.sync()
    assert not snapshot.unavailable
    model = snapshot.models[1]
    arrays = [inputs[spec.name] for spec in model.spec.inputs]
    return dict(zip([spec.name for spec in model.spec.outputs], model.infer(arrays), strict=True))


def right(network, inputs):
    module = getattr(sys.modules["text"], network)().eval()
    with torch.inference_mode():
        return module(**{name: torch.from_numpy(array) for name, array in inputs.items()})


@pytest.mark.parametrize("method", ["script", "trace", "export"])
def test_tokens_of_any_length_with_a_mask_are_published_and_served(folder, capsys, method):
    assert run(folder, "loaded", "lengths", f"--method={method}", "--variants", "pt2") == 0
    assert "accuracy" not in capsys.readouterr().out
    manifest = json.loads((folder / "models/text/1/manifest.json").read_text())
    assert manifest["inputs"] == [
        {"name": "tokens", "datatype": "INT64", "shape": [-1, -1]},
        {"name": "mask", "datatype": "BOOL", "shape": [-1, -1]},
    ]
    assert [each["name"] for each in manifest["outputs"]] == ["pooled", "scores"]
    assert "weights" in manifest["source_files"]
    tokens = np.arange(21).reshape(3, 7)
    inputs = {"tokens": tokens, "mask": tokens % 4 > 0}
    expected = right("loaded", inputs)
    for variant in (None, "pt2"):
        answers = served(folder, inputs, variant)
        for name, tensor in expected.items():
            np.testing.assert_allclose(answers[name], tensor.numpy(), rtol=1e-5, atol=1e-6)
    assert run(folder, "loaded", "lengths", f"--method={method}", "--variants", "pt2") == 0
    assert not (folder / "models/text/2").exists()


@pytest.mark.parametrize("method", ["script", "trace", "export"])
def test_a_network_that_takes_no_batches_is_published_and_served(folder, method):
    assert run(folder, "Path", "paths", "--unbatched", f"--method={method}", "--variants", "pt2") == 0
    manifest = json.loads((folder / "models/text/1/manifest.json").read_text())
    assert manifest["inputs"] == [
        {"name": "points", "datatype": "FP32", "shape": [-1, 3]},
        {"name": "weights", "datatype": "FP32", "shape": [-1]},
    ]
    assert manifest["outputs"] == [
        {"name": "middle", "datatype": "FP32", "shape": [3]},
        {"name": "length", "datatype": "FP32", "shape": [1]},
    ]
    assert manifest["batching"] == {"dynamic": False, "reason": "the network takes no batches"}
    assert set(manifest["latency_ms"]) == {"batch_1"}
    config = (folder / "models/text/config.pbtxt").read_text()
    assert "dynamic_batching" not in config
    assert "max_batch_size" not in config, "0, the default"
    random = np.random.default_rng(0)
    inputs = {"points": random.normal(size=(7, 3)).astype("f4"), "weights": random.random(7).astype("f4")}
    expected = right("Path", inputs)
    for variant in (None, "pt2"):
        for name, answer in served(folder, inputs, variant).items():
            np.testing.assert_allclose(answer, expected[name].numpy(), rtol=1e-5, atol=1e-6)


def test_random_calls_decide_whether_an_optimised_program_without_batches_answers(folder, monkeypatch, caplog):
    monkeypatch.setattr(model_files, "_WORTHWHILE", 1000.0)
    monkeypatch.setattr(model_files, "_LEAST_SAVED_MS", -1000.0)
    assert run(folder, "Whole", "whole", "--unbatched") == 0
    manifest = json.loads((folder / "models/text/1/manifest.json").read_text())
    assert manifest["optimization"]["used"], manifest["optimization"]
    points = np.ones((4, 3), np.float32)
    np.testing.assert_allclose(
        served(folder, {"points": points})["logits"], right("Whole", {"points": points}).numpy(), rtol=1e-5
    )
    assert "not optimised" not in caplog.text, "the server compares calls of the whole shape"


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        (
            ("one",),
            ("row", "--unbatched"),
            "max_batch_size=64; the model takes none, which is max_batch_size: 0. Fix: ",
        ),
        (("row", "--unbatched"), ("one",), "max_batch_size=0; the model takes batches. Fix: remove it, or another"),
    ],
)
def test_a_configuration_with_batches_is_not_for_a_network_without(folder, capsys, first, then, message):
    assert run(folder, "Twice", *first) == 0
    assert run(folder, "Twice", *then) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "models/text/2").exists()


@each_row(
    ("network", "examples", "names"),
    [
        ("Counts", "one", ["OUTPUT__0", "OUTPUT__1"]),
        ("Counts", "numpy", ["OUTPUT__0", "OUTPUT__1"]),
        ("Nested", "one", ["RESULT[0]", "RESULT[1][twice]"]),
    ],
)
def test_results_have_the_names_that_servers_find_them_by(tmp_path_factory, network, examples, names):
    folder = tmp_path_factory.mktemp("files")
    (folder / "text.py").write_text(NETWORK)
    sys.modules.pop("text", None)
    assert run(folder, network, examples, "--method=trace") == 0
    tokens = np.arange(6).reshape(2, 3)
    answers = served(folder, {"tokens": tokens})
    assert list(answers) == names
    assert answers[names[0]].tolist() == (tokens * 2 if network == "Counts" else tokens).tolist()


@each_row(
    ("network", "examples", "message"),
    [
        ("loaded", "nothing", "defines no 'nothing'"),
        ("loaded", "Encoder", "is Encoder; must be a dict of tensors by the names of forward's arguments"),
        ("loaded", "call", "fails: TypeError: call() missing 2 required positional arguments"),
        ("loaded", "empty", "is dict; must be a dict of tensors"),
        ("Counts", "text", "'tokens' is list; must be a dict of tensors"),
        ("loaded", "uneven", "tokens [4, 2], mask [3, 2]: are not a batch. Fix: the same number of rows, 2 or more"),
        ("Counts", "single", "tokens [1, 2]: are not a batch"),
        ("Counts", "unknown", "forward takes (tokens). Fix: a tensor for each argument's name"),
        ("Counts", "complex_numbers", "'tokens' is torch.complex64; must be one of BOOL, UINT8"),
        ("loaded", "types", "differ in names, types or dimensions; must differ in sizes alone"),
        ("loaded", "large", "the network fails on [4, 2] and [4, 2]: IndexError: index out of range"),
        ("Numbers", "one", "the network returns int as a result; must be tensors of BOOL"),
        ("OneRow", "one", "the network returns [] as a result; must have a row for each of the 8 rows of the inputs"),
        ("Unrolled --method=trace", "lengths", "model.pt: compared with the network, it differs by"),
        ("Path", "paths", "the network returns [3] as RESULT[middle]; must have a row for each of the 5 rows"),
        ("OneRow --unbatched", "one", "the network returns a result without a dimension; must have one or more"),
        ("OneRow --unbatched", "number", "tokens has no dimension; must have one or more. Fix: [1]"),
        ("Unrolled --method=trace --unbatched", "lengths", "model.pt: compared with the network, it "),
        ("ByName", "lengths", "mask is given by name alone. Fix: the arguments before it, too, or a module around"),
    ],
)
def test_what_cannot_be_described_is_refused_with_a_fix(tmp_path_factory, capsys, network, examples, message):
    folder = tmp_path_factory.mktemp("files")
    (folder / "text.py").write_text(NETWORK)
    sys.modules.pop("text", None)
    network, *words = network.split()
    assert run(folder, network, examples, *words) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "models/text/1").exists()


def test_variants_that_learn_from_data_need_some(folder, capsys):
    assert run(folder, "loaded", "lengths", "--variants", "int8", "pt2") == 1
    assert (
        "variants=int8: need labelled data. Fix: give it, or leave out all variants but pt2" in capsys.readouterr().err
    )


@each_row(
    ("words", "message"),
    [
        (["--network=n.py:N"], "data, examples: none is given"),
        (["--network=n.py:N", "--data=d.npz", "--examples=n.py:e"], "data, examples: both are given"),
        (["--network=n.py:N", "--data=d.npz", "--unbatched"], "unbatched=True: data are samples of a classifier"),
        (["--examples=n.py:e"], "checkpoint, network: none is given"),
    ],
)
def test_one_of_data_and_examples_is_given(capsys, words, message):
    with pytest.raises(SystemExit):
        export.main([*words, "--model_repository=models", "--model_name=text"])
    assert message in capsys.readouterr().err
