from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from trainer.model_repository import torchscript
from trainer.pytorch import export
from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.export import find_version, origin, publish
from trainer.pytorch.export_config import ExportConfig, ExportError
from trainer.pytorch.measurement import share_correct
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.trained_model import TensorSpec, TrainedModel
from trainer.serve import labels, model_config
from trainer.training import digits

CONFIG = ExportConfig(model_name="digits", max_batch_size=16)


@pytest.fixture(autouse=True)
def one_thread():
    """On a busy machine the threads of such small kernels only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def trained(run_name="r1", outputs=10, **changes) -> TrainedModel:
    torch.manual_seed(0)
    fields = {
        "module": DigitsCnnConfig(width=4).build().eval(),
        "inputs": (TensorSpec(name="image", shape=digits.IMAGE_SHAPE),),
        "outputs": (TensorSpec(name="logits", shape=(outputs,)),),
        "samples": [[torch.rand(20, *digits.IMAGE_SHAPE)]],
        "run_name": run_name,
        "step": 440,
        "held_out": Samples(inputs=torch.rand(4, *digits.IMAGE_SHAPE), labels=torch.arange(4)),
    }
    return TrainedModel(**{**fields, **changes})


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_layout_manifest_and_config_are_what_servers_read(tmp_path):
    assert publish(tmp_path, CONFIG, trained()) == 1
    assert contents(tmp_path) == ["digits/1/manifest.json", "digits/1/model.pt", "digits/config.pbtxt"]
    manifest = json.loads((tmp_path / "digits/1/manifest.json").read_text())
    content = (tmp_path / "digits/1/model.pt").read_bytes()
    latency = manifest.pop("latency_ms")
    assert set(latency) == {"batch_1", "batch_16"}
    assert all(0 < each["p50"] <= each["p99"] for each in latency.values())
    assert manifest.pop("optimization").keys() == {"used", "reason"}
    assert manifest.pop("measured_on").keys() == {"cpu", "threads"}
    assert manifest == {
        "format_version": 1,
        "commit": None,
        "compression": None,
        "source_files": None,
        "method": None,
        "model_name": "digits",
        "version": 1,
        "model_file": "model.pt",
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
        "torch_version": torch.__version__,
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}],
        "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]}],
        "accuracy": share_correct(trained().module, trained().held_out),
        "accuracy_samples": 4,
        "batching": {"dynamic": True},
        "run_name": "r1",
        "step": 440,
    }
    config = text_format.Parse((tmp_path / "digits/config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    assert (config.name, config.platform, config.max_batch_size) == ("digits", "pytorch_libtorch", 16)
    assert [(item.name, list(item.dims)) for item in config.input] == [("image", [1, 8, 8])]
    assert [(item.name, list(item.dims)) for item in config.output] == [("logits", [10])]
    assert config.HasField("dynamic_batching")


def test_one_run_publishes_one_version_however_often_it_tries(tmp_path):
    assert publish(tmp_path, CONFIG, trained("r1")) == 1
    before = (tmp_path / "digits/1/model.pt").stat().st_ino
    assert publish(tmp_path, CONFIG, trained("r1")) == 1
    assert (tmp_path / "digits/1/model.pt").stat().st_ino == before
    assert publish(tmp_path, CONFIG, trained("r2")) == 2
    assert publish(tmp_path, CONFIG, trained("r1")) == 1
    assert find_version(tmp_path, "digits", origin(trained("r2"))) == 2
    assert find_version(tmp_path, "digits", origin(trained("r3"))) is None
    assert find_version(tmp_path, "other", origin(trained("r1"))) is None


def test_next_version_follows_the_highest_number(tmp_path):
    for name in ("9", "10", "011", "latest"):
        (tmp_path / "digits" / name).mkdir(parents=True)
    assert publish(tmp_path, CONFIG, trained()) == 11


def test_a_file_that_answers_otherwise_is_not_published(tmp_path, monkeypatch):
    save = torchscript.save_frozen

    def save_another_model(_model, path, _example=None):
        torch.manual_seed(1)
        save(DigitsCnnConfig(width=4).build(), path)

    monkeypatch.setattr(torchscript, "save_frozen", save_another_model)
    with pytest.raises(ExportError, match=r"model\.pt: compared with the network, it differs by"):
        publish(tmp_path, CONFIG, trained())
    assert contents(tmp_path) == []
    assert list((tmp_path / "digits").iterdir()) == []


def test_leftovers_of_a_killed_export_are_replaced(tmp_path):
    leftover = tmp_path / "digits" / ".staging-r1"
    leftover.mkdir(parents=True)
    (leftover / "model.pt").write_bytes(b"half")
    (leftover / "junk").touch()
    assert publish(tmp_path, CONFIG, trained()) == 1
    assert contents(tmp_path) == ["digits/1/manifest.json", "digits/1/model.pt", "digits/config.pbtxt"]


def test_two_attempts_of_a_run_at_once_publish_one_whole_version(tmp_path, monkeypatch):
    write = export.write_model

    def write_after_another_attempt(path, model):
        monkeypatch.setattr(export, "write_model", write)
        assert publish(tmp_path, CONFIG, trained()) == 1
        return write(path, model)

    monkeypatch.setattr(export, "write_model", write_after_another_attempt)
    assert publish(tmp_path, CONFIG, trained()) == 1
    assert contents(tmp_path) == ["digits/1/manifest.json", "digits/1/model.pt", "digits/config.pbtxt"]


def test_an_attempt_whose_files_another_one_removed_says_so(tmp_path, monkeypatch):
    write = export.write_model

    def write_after_another_attempt_began(path, model):
        path.parent.rename(tmp_path / "removed")
        return write(path, model)

    monkeypatch.setattr(export, "write_model", write_after_another_attempt_began)
    with pytest.raises(ExportError, match=r"another attempt to publish 'r1' .* Fix: wait for it, or another run name"):
        publish(tmp_path, CONFIG, trained())


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1])])
def test_a_damaged_version_is_published_again(tmp_path, damage):
    """As servers ask for that refuse it."""
    assert publish(tmp_path, CONFIG, trained()) == 1
    damage(tmp_path / "digits/1/model.pt")
    assert [publish(tmp_path, CONFIG, trained()) for _ in range(2)] == [2, 2]


def test_an_attempt_leaves_those_of_other_runs_alone(tmp_path):
    others = [tmp_path / "digits" / f".staging-{name}.{'0' * 32}" for name in ("r1.5", "r10")]
    for other in others:
        other.mkdir(parents=True)
    publish(tmp_path, CONFIG, trained())
    assert all(other.is_dir() for other in others)


def test_another_run_that_takes_the_number_first_keeps_it(tmp_path, monkeypatch):
    rename = Path.rename

    def rename_late(self, target):
        if Path(target).name == "1" and not Path(target).exists():
            Path(target).mkdir()
            (Path(target) / "model.pt").write_bytes(b"theirs")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", rename_late)
    assert publish(tmp_path, CONFIG, trained()) == 2
    assert (tmp_path / "digits/1/model.pt").read_bytes() == b"theirs"
    assert json.loads((tmp_path / "digits/2/manifest.json").read_text())["version"] == 2


def test_tuning_by_operators_is_kept(tmp_path):
    publish(tmp_path, CONFIG, trained("r1"))
    file = tmp_path / "digits/config.pbtxt"
    tuned = file.read_text() + "instance_group { count: 2 }\n"
    file.write_text(tuned)
    publish(tmp_path, CONFIG, trained("r2"))
    assert file.read_text() == tuned


NAMES = ("cat", "dog", *map(str, range(2, 10)))


def test_names_of_classes_are_written_once_and_servers_read_them(tmp_path):
    publish(tmp_path, CONFIG, trained("r1", class_names=NAMES))
    folder = tmp_path / "digits"
    config = model_config.parse((folder / "config.pbtxt").read_text(), "digits")
    assert labels.with_labels(config, folder).outputs[0].labels == NAMES
    assert json.loads((folder / "1/manifest.json").read_text())["class_names"] == list(NAMES)

    nicer = "tabby cat\n" + (folder / "labels.txt").read_text().partition("\n")[2]
    (folder / "labels.txt").write_text(nicer)
    assert publish(tmp_path, CONFIG, trained("r2", class_names=NAMES)) == 2
    assert (folder / "labels.txt").read_text() == nicer


def test_a_name_is_a_line_whatever_folders_are_called(tmp_path):
    publish(tmp_path, CONFIG, trained(class_names=("a\nb", "\udcff", *NAMES[2:])))
    assert (tmp_path / "digits/labels.txt").read_text().splitlines()[:3] == ["a b", "?", "2"]


def test_a_model_whose_outputs_mean_something_else_is_refused(tmp_path):
    publish(tmp_path, CONFIG, trained("r1", class_names=NAMES))
    others = ("cat", "fox", *NAMES[2:])
    with pytest.raises(ExportError, match=r"digits/1: its class 1 is 'dog', that of run r2 is 'fox'\. Fix: another"):
        publish(tmp_path, CONFIG, trained("r2", class_names=others))
    assert not (tmp_path / "digits/2").exists()


@pytest.mark.parametrize(("first", "second"), [((), NAMES), (NAMES, ())])
def test_versions_with_names_and_without_go_together(tmp_path, first, second):
    publish(tmp_path, CONFIG, trained("r1", class_names=first))
    file = tmp_path / "digits/config.pbtxt"
    config = file.read_text()
    assert publish(tmp_path, CONFIG, trained("r2", class_names=second)) == 2
    assert file.read_text() == config


@pytest.mark.parametrize("present", ["other outputs", "not a config", "not text"])
def test_a_model_of_that_name_with_another_contract_is_refused(tmp_path, present):
    publish(tmp_path, CONFIG, trained("r1"))
    file = tmp_path / "digits/config.pbtxt"
    content = {
        "other outputs": file.read_bytes().replace(b"dims: 10", b"dims: 11"),
        "not a config": b"no {",
        "not text": b"\xff",
    }
    file.write_bytes(content[present])
    with pytest.raises(ExportError, match=r"config\.pbtxt: .* Fix: "):
        publish(tmp_path, CONFIG, trained("r2"))
    assert not (tmp_path / "digits/2").exists()
