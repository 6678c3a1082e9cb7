"""Models and data sets of users' own files and packages: trained, resumed and exported, or refused with words."""

from __future__ import annotations

import sys

import pytest
import torch

from tests.documentation import TRAIN, file_shown
from tests.tables import each_row
from tests.unit.trainer.pytorch.small_runs import events, run
from trainer import dry_run, export
from trainer.common.validation import SettingsError
from trainer.model_repository import model_file
from trainer.pytorch.config import parse
from trainer.pytorch.loop import Outcome
from trainer.pytorch.models.registry import model_named

IMPORTS = """
from dataclasses import dataclass
from trainer.pytorch.models.model_config import ModelConfig, ShardingPlan
"""
METHODS = """
    input_shape = (1, 8, 8)
    def build(self): ...
    def plan(self): ...
    def check_data(self, sample_shape, classes): ...
"""
DATACLASS = "@dataclass(frozen=True, kw_only=True)\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder where somebody works, with the files of the documentation."""
    work = tmp_path / "my-code"
    work.mkdir()
    (work / "mixer.py").write_text(file_shown(TRAIN, "A network of linear layers"))
    (work / "few_digits.py").write_text(file_shown(TRAIN, "Handwritten digits of which only some"))
    monkeypatch.chdir(work)
    return work


def words(data_dir, folder, *more: str) -> list[str]:
    base = folder.parent
    return [
        *("--data_dir", str(data_dir), "--output_dir", str(base / "output"), "--work_dir", str(base / "work")),
        *("--model", "mixer.py:MixerConfig", "--dataset", "few_digits.py:FewDigitsConfig"),
        *("--run_name", "own", "--model_name", "mixer", "--layers", "1", "--width", "8", "--batch_size", "64"),
        *("--samples", "256", "--max_steps", "4", "--warmup_steps", "0", *more),
    ]


def test_the_files_of_the_documentation_are_trained_resumed_and_exported(folder, data_dir):
    config = parse(words(data_dir, folder))
    assert (config.model.model, config.model.layers) == ("mixer.py:MixerConfig", 1)
    assert (config.data.dataset, config.data.samples) == ("few_digits.py:FewDigitsConfig", 256)
    assert run(config, stop_at=2)[0] is Outcome.STOPPED
    assert run(config)[0] is Outcome.FINISHED
    assert [event["step"] for event in events(config, "resumed")] == [2]
    again = folder.parent / "models"
    command = ["--checkpoint", str(config.folders.run), "--data", str(data_dir), "--model_name", "mixer"]
    assert export.main([*command, "--model_repository", str(again)]) == 0
    images = torch.rand(2, 1, 8, 8)
    with torch.inference_mode():
        by_training, by_command = (
            model_file.load(models / "mixer/1/model.pt").call(images) for models in (config.folders.models, again)
        )
    torch.testing.assert_close(by_command, by_training, rtol=0, atol=0)


def test_a_run_is_exported_where_its_files_are(folder, data_dir, tmp_path, monkeypatch, capsys):
    config = parse(words(data_dir, folder, "--max_steps", "1"))
    run(config)
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("mixer")
    command = ["--checkpoint", str(config.folders.run), "--data", str(data_dir), "--model_name", "mixer"]
    assert export.main([*command, "--model_repository", str(tmp_path / "models")]) == 1
    said = f"the run's model='mixer.py:MixerConfig': {tmp_path} has no such file. Fix: FILE.py:NAME, or --network=FILE"
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_a_dry_run_takes_a_file(capsys):
    dry_run.main(["--ranks", "2", "--model", "mixer.py:MixerConfig", "--layers", "2", "--data_parallel_shard", "2"])
    assert "model mixer.py:MixerConfig: " in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_its_help_has_the_arguments_of_a_file(capsys):
    with pytest.raises(SystemExit, match="0"):
        parse(["--model", "mixer.py:MixerConfig", "--help"])
    said = capsys.readouterr().out
    assert "--layers" in said
    assert "FILE.py:NAME of a file of yours" in " ".join(said.replace("│", " ").split())


def test_an_installed_package_names_its_models(folder, monkeypatch):
    installed = folder.parent / "site"
    (installed / "own-1.dist-info").mkdir(parents=True)
    (installed / "own-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1\n")
    points = "[athanor.models]\nmixer = mixer:MixerConfig\nbroken = nowhere:X\n"
    (installed / "own-1.dist-info/entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(installed)
    monkeypatch.syspath_prepend(folder)
    named = model_named("mixer")
    assert named(model="mixer", layers=3).plan().blocks == ["blocks.0", "blocks.1", "blocks.2"]
    with pytest.raises(
        SettingsError, match=r"model='broken': nowhere:X cannot be imported: ModuleNotFoundError: .*nowh"
    ):
        model_named("broken")
    with pytest.raises(
        SettingsError, match=r"Fix: one of digits_cnn, resnet, gpt, broken, mixer, FILE\.py:NAME, or .* in the"
    ):
        model_named("mixr")


@each_row(
    ("given", "message"),
    [
        ("mixer.py:MixerConfi", "mixer.py defines no 'MixerConfi'. Fix: a class"),
        ("mixed.py:MixerConfig", "my-code has no such file. Fix: FILE.py:NAME"),
        ("mixer:MixerConfig", "my-code has no such file. Fix: FILE.py:NAME"),
        (
            "mixer.py:Mixer",
            "is Mixer, must be a dataclass derived from trainer.pytorch.models.model_config.ModelConfig. F",
        ),
        (
            "few_digits.py:FewDigitsConfig",
            "is FewDigitsConfig, must be a dataclass derived from trainer.pytorch.models",
        ),
        ("fails.py:X", "fails.py cannot be imported: ZeroDivisionError: division by zero (fails.py, line 2)"),
        ("json.py:X", "there is another module json, /"),
        (
            "bad.py:Plain",
            "Plain must be a dataclass derived from trainer.pytorch.models.model_config.ModelConfig. Fix: @da",
        ),
        ("bad.py:Named", "its field 'model' is the name that --model gives. Fix: leave that field out of Named"),
        ("bad.py:Required", "width of Required must have a default"),
        ("bad.py:Abstract", "Abstract lacks check_data and plan. Fix: define what ModelConfig asks"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_fix(folder, data_dir, capsys, given, message):
    (folder / "fails.py").write_text("\n1 / 0\n")
    (folder / "json.py").write_text("X = 1\n")
    kinds = f"class Plain(ModelConfig):{METHODS}\n{DATACLASS}class Named(ModelConfig):\n    model: str = ''{METHODS}"
    (folder / "bad.py").write_text(
        f"{IMPORTS}{kinds}\n{DATACLASS}class Required(ModelConfig):\n    width: int{METHODS}\n"
        f"{DATACLASS}class Abstract(ModelConfig):\n    input_shape = (1,)\n    def build(self): ...\n"
    )
    with pytest.raises(SystemExit, match="2"):
        parse(words(data_dir, folder, "--model", given))
    said = capsys.readouterr().err
    assert f"model={given!r}: " in said
    assert message in said
