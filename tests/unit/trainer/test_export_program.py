"""`python -m trainer.export`: from a checkpoint, of a run or of anybody's network, to a version that is served."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from tests.tables import each_row
from trainer import export, train
from trainer.model_repository import model_file
from trainer.serve.loader import ModelLoader
from trainer.serve.local_models import LocalModels
from trainer.training import digits

pytestmark = pytest.mark.long

NETWORK = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, features):
        return self.linear(features)

def number():
    return 3

class NeedsWidth(Net):
    def __init__(self, width):
        super().__init__()

class Fails(Net):
    def forward(self, features):
        return self.linear(features)[:, [7]]

class Half(Net):
    def forward(self, features):
        return self.linear(features).half()

class Double(Net):
    def __init__(self):
        super().__init__()
        self.double()

class TwoInputs(Net):
    def forward(self, features, mask):
        return self.linear(features * mask)

class Pair(Net):
    def forward(self, features):
        return self.linear(features), features

class Branches(Net):
    def forward(self, features):
        if features.sum() > 0:
            return self.linear(features)
        return self.linear(-features)

class NotANumber(Net):
    def forward(self, features):
        return self.linear(features) / 0 * 0

class Flexible(Net):
    def forward(self, features, **options):
        return self.linear(features)
"""


@pytest.fixture
def files(tmp_path):
    return written_to(tmp_path)


def written_to(folder):
    """Write a network that computes which of its first three inputs is the largest, and data for it."""
    (folder / "net.py").write_text(NETWORK)
    sys.modules.pop("net", None)  # of another folder
    weights = {"linear.weight": torch.eye(3, 4), "linear.bias": torch.zeros(3)}
    torch.save(weights, folder / "weights.pt")
    inputs = np.random.default_rng(0).random((64, 4), dtype=np.float32)
    labels = inputs[:, :3].argmax(axis=1)
    arrays = {
        "training_inputs": inputs,
        "training_labels": labels,
        "held_out_inputs": inputs,
        "held_out_labels": labels,
    }
    np.savez(folder / "data.npz", **arrays)
    return folder


def arguments(folder, **changes):
    values = {
        "checkpoint": folder / "weights.pt",
        "data": folder / "data.npz",
        "model_repository": folder / "models",
        "model_name": "net",
        "network": f"{folder / 'net.py'}:Net",
        **changes,
    }
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def test_a_network_of_any_file_becomes_a_version_that_can_be_served(files, capsys):
    words = [*arguments(files), "--variants", "int8-dynamic", "pt2", "--commit=abc", "--input_name=features"]
    assert export.main(words) == 0
    printed = capsys.readouterr().out
    folder = files / "models/net/1"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["run_name"], manifest["commit"], manifest["accuracy"]) == ("weights", "abc", 1.0)
    assert manifest["inputs"] == [{"name": "features", "datatype": "FP32", "shape": [-1, 4]}]
    rows = torch.tensor([[0.0, 0.0, 9.0, 0.0], [8.0, 0.0, 0.0, 0.0]])
    for name in ("model.pt", "model.int8-dynamic.pt", "model.pt2"):
        assert f"{folder / name}: " in printed
        with torch.inference_mode():
            assert model_file.load(folder / name).call(rows).argmax(dim=1).tolist() == [2, 0]


def test_a_network_becomes_a_program_of_torch_export_and_is_served_with_its_variants(files, capsys):
    words = [*arguments(files, network=f"{files / 'net.py'}:Flexible"), "--method=export"]
    words += ["--variants", "sparse", "pt2", "int8", "--fine_tune_epochs=0"]
    assert export.main(words) == 1  # int8 is TorchScript's
    assert "variant int8 is not published: cannot be built from this model: " in capsys.readouterr().err
    folder = files / "models/net"
    manifest = json.loads((folder / "1/manifest.json").read_text())
    names = {name: entry["model_file"] for name, entry in manifest["variants"].items()}
    assert (manifest["model_file"], names) == ("model.pt2", {"sparse": "model.sparse.pt2", "pt2": "model.pt2"})
    assert 'default_model_filename: "model.pt2"' in (folder / "config.pbtxt").read_text()
    rows = np.array([[0.0, 0.0, 9.0, 0.0], [8.0, 0.0, 0.0, 0.0]], np.float32)
    for named in (True, False):
        if not named:
            text = (folder / "config.pbtxt").read_text()
            (folder / "config.pbtxt").write_text(re.sub("default_model_filename.*", "", text))
        for variant in (None, "sparse", "pt2"):
            snapshot = ModelLoader(folder, LocalModels(0, variant).load, lambda _: None, None, variant).sync()
            assert not snapshot.unavailable
            assert snapshot.models[1].infer([rows])[0].argmax(axis=1).tolist() == [2, 0]
    assert export.main(words) == 1
    assert not (folder / "2").exists()


def test_a_model_does_not_change_its_format_under_a_configuration_that_names_the_file(files, capsys):
    words = arguments(files)
    assert export.main(words) == 0
    assert export.main([*words, "--method=export"]) == 1
    assert "default_model_filename='model.pt'; the model is model.pt2. Fix: remove it, " in capsys.readouterr().err


def test_a_network_that_torch_export_does_not_take_is_refused_with_another_method(files, capsys):
    words = [*arguments(files, network=f"{files / 'net.py'}:Branches"), "--method=export"]
    assert export.main(words) == 1
    assert re.search(
        r"cannot become a program of torch\.export: .*Fix: what it names, or --method=script", capsys.readouterr().err
    )


def test_a_run_is_exported_from_its_latest_checkpoint(data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    output = tmp_path / "output"
    run = ["--run_name=r1", "--epochs=1", "--width=4", "--batch_size=128"]
    monkeypatch.setattr("sys.argv", ["train", f"--data_dir={data_dir}", f"--output_dir={output}", *run])
    try:
        train.main()
    finally:
        torch.set_deterministic_debug_mode("default")
    (output / "r1" / "source.json").write_text(json.dumps({"commit": "f" * 40}))
    models = tmp_path / "models"
    assert export.main([f"--checkpoint={output / 'r1'}", f"--data={data_dir}", f"--model_repository={models}"]) == 0
    manifest = json.loads((models / "digits/1/manifest.json").read_text())
    assert (manifest["run_name"], manifest["step"], manifest["commit"]) == ("r1", 11, "f" * 40)
    by_training, by_command = (
        model_file.load(folder / "digits/1/model.pt").call for folder in (output / "models", models)
    )
    images = torch.from_numpy(digits.load(data_dir, "held_out").images)
    with torch.inference_mode():
        torch.testing.assert_close(by_training(images), by_command(images), rtol=0, atol=0)


def test_a_variant_that_is_not_published_fails_the_command_but_not_the_version(files, capsys):
    assert export.main([*arguments(files), "--variants", "pruned"]) == 1
    assert "export: variant pruned is not published: " in capsys.readouterr().err
    assert (files / "models/net/1/model.pt").exists()


def test_the_same_files_are_found_again_and_other_weights_become_a_version(files):
    published = files / "models/net"
    for versions in ({"1"}, {"1"}):
        assert export.main(arguments(files)) == 0
        assert {path.name for path in published.iterdir() if path.is_dir()} == versions
    torch.save({"linear.weight": 2 * torch.eye(3, 4), "linear.bias": torch.zeros(3)}, files / "weights.pt")
    assert export.main(arguments(files)) == 0
    rows = torch.ones(1, 4)
    with torch.inference_mode():
        assert model_file.load(published / "2/model.pt").call(rows).tolist() == [[2.0, 2.0, 2.0]]
    (files / "net.py").write_text(
        NETWORK.replace("return self.linear(features)\n\ndef", "return -self.linear(features)\n\ndef")
    )
    del sys.modules["net"]
    assert export.main(arguments(files)) == 0
    with torch.inference_mode():
        assert model_file.load(published / "3/model.pt").call(rows).tolist() == [[-2.0, -2.0, -2.0]]


def lose_weights(folder):
    torch.save({"linear.bias": torch.zeros(3)}, folder / "weights.pt")


def pickle_the_module(folder):
    torch.save(nn.Linear(4, 3), folder / "weights.pt")


def widen(folder):
    arrays = dict(np.load(folder / "data.npz"))
    np.savez(folder / "data.npz", **arrays | {"held_out_inputs": np.ones((64, 5), dtype=np.float32)})


def double(folder):
    arrays = dict(np.load(folder / "data.npz"))
    np.savez(folder / "data.npz", **arrays | {"held_out_inputs": np.ones((64, 4))})


def drop_labels(folder):
    arrays = dict(np.load(folder / "data.npz"))
    np.savez(folder / "data.npz", **arrays | {"training_labels": arrays["training_labels"][:5]})


def cut(name):
    def damage(folder):
        (folder / name).write_bytes((folder / name).read_bytes()[:200])

    return damage


def empty_the_weights(folder):
    (folder / "weights.pt").write_bytes(b"")


def break_the_syntax(folder):
    (folder / "net.py").write_text("def f(:")


def shift_labels(folder):
    arrays = dict(np.load(folder / "data.npz"))
    np.savez(folder / "data.npz", **arrays | {"training_labels": arrays["training_labels"] + 1})


def one_column_of_labels(folder):
    arrays = dict(np.load(folder / "data.npz"))
    np.savez(folder / "data.npz", **arrays | {"held_out_labels": arrays["held_out_labels"][:, None]})


def save_one_array(folder):
    with (folder / "data.npz").open("wb") as file:
        np.save(file, np.ones((64, 4), dtype=np.float32))


def lose_a_value(folder):
    arrays = dict(np.load(folder / "data.npz"))
    arrays["training_inputs"][7, 2] = np.nan
    np.savez(folder / "data.npz", **arrays)


def end_the_process(folder):
    (folder / "net.py").write_text("import sys\n\nsys.exit(3)\n")


@each_row(
    ("damage", "changes", "message"),
    [
        (None, {"network": None}, "says nothing about the network. Fix: add --network"),
        (None, {"network": "nowhere.py:Net"}, "no such file. Fix: FILE.py:NAME"),
        (None, {"network": "{folder}/net.py:Other"}, "defines no 'Other'"),
        (None, {"network": "{folder}/net.py:number"}, "must be a torch.nn.Module"),
        (None, {"checkpoint": "{folder}"}, "has no complete checkpoints/step-*"),
        (None, {"checkpoint": "{folder}/nothing.pt"}, "No such file"),
        (None, {"data": "{folder}/net.py"}, "Fix: np.savez"),
        (lose_weights, {}, "Missing key"),
        (pickle_the_module, {}, "Fix: torch.save(model.state_dict(), …)"),
        (widen, {}, "the network fails on [2, 5]"),
        (double, {}, "held_out_inputs is float64. Fix: held_out_inputs.astype('float32')"),
        (drop_labels, {}, "training has 64 inputs and 5 labels"),
        (None, {"network": "{folder}/net.py:NeedsWidth"}, "missing 1 required positional argument: 'width'"),
        (None, {"network": "{folder}/net.py:Fails"}, "the network fails on [2, 4]: IndexError: index 7"),
        (None, {"network": "{folder}/net.py:Half"}, "returns torch.float16; must be float32. Fix: logits.float()"),
        (None, {"network": "{folder}/net.py:Double"}, "Fix: its weights are torch.float64, and inputs float32: model."),
        (None, {"network": "{folder}/net.py:TwoInputs"}, "Fix: a forward that takes one tensor, or --examples"),
        (
            None,
            {"network": "{folder}/net.py:Pair"},
            "Fix: return that alone, or --examples in place of --data",
        ),
        (None, {"network": "{folder}/net.py:NotANumber"}, "returns NaN or infinity"),
        (break_the_syntax, {}, "net.py cannot be imported: SyntaxError: "),
        (cut("data.npz"), {}, "not a zip file. Fix: np.savez"),
        (cut("weights.pt"), {}, "Fix: torch.save(model.state_dict(), …)"),
        (empty_the_weights, {}, "EOFError. Fix: torch.save(model.state_dict(), …)"),
        (shift_labels, {}, "data.npz: training_labels: label 3 of sample 3, one of 18"),
        (save_one_array, {}, "one array, as np.save writes it. Fix: np.savez"),
        (lose_a_value, {}, "training_inputs[7] has NaN or infinity. Fix: leave such samples out"),
        (end_the_process, {}, "cannot be imported: SystemExit: 3 ("),
        (one_column_of_labels, {}, "held_out_inputs [64, 4] and held_out_labels [64, 1]; must be [N, …] and [N]"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_a_fix(tmp_path_factory, capsys, damage, changes, message):
    files = written_to(tmp_path_factory.mktemp("files"))
    if damage:
        damage(files)
    changes = {name: value and value.format(folder=files) for name, value in changes.items()}
    assert export.main(arguments(files, **changes)) == 1
    assert message in capsys.readouterr().err
    assert not (files / "models").exists()


def test_python_that_torchscript_does_not_know_is_refused_with_the_other_method(files, capsys):
    words = arguments(files, network=f"{files / 'net.py'}:Flexible")
    assert export.main(words) == 1
    assert "--method=trace, which records one call" in capsys.readouterr().err
    assert list((files / "models/net").iterdir()) == []
    assert export.main([*words, "--method=trace"]) == 0


@pytest.mark.parametrize(("limit_bytes", "variants"), [(1000, []), (6000, ["--variants", "pt2"])])
def test_a_disk_without_room_is_one_line_and_leaves_no_version(files, limit_bytes, variants):
    """In a process of its own, for torch's own writer ends the whole process there."""
    program = f"""
import resource, sys
from trainer import export
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_bytes}, {limit_bytes}))
sys.exit(export.main({[*arguments(files), *variants]}))
"""
    torch.save({"linear.weight": torch.eye(3, 4), "linear.bias": torch.zeros(3)}, files / "weights.pt")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1), ended.stderr
    assert re.search(r"^export: model_repository=.*models: .*File too large.* Fix: a folder", ended.stderr)
    assert list((files / "models/net").iterdir()) == []


def test_a_batch_larger_than_a_configuration_can_say_is_refused(files, capsys):
    with pytest.raises(SystemExit, match="2"):
        export.main([*arguments(files), "--max_batch_size=2147483648"])
    assert "max_batch_size=2147483648: must be from 1 to 2147483647" in " ".join(capsys.readouterr().err.split())
