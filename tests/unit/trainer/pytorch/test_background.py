"""Two ranks that save sharded states in the background, through a full volume and the loss of a background process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch

from trainer import export_weights


@pytest.fixture(scope="module")
def saved(run_ranks, tmp_path_factory) -> tuple[Path, list[dict]]:
    """The folder of the run, and what each rank said."""
    folder = tmp_path_factory.mktemp("run")
    said = run_ranks("tests.unit.trainer.pytorch.save_in_background", 2, folder)
    return folder, [json.loads(output.splitlines()[-1]) for output in said]


def test_training_waits_for_the_copy_and_not_for_the_disk(saved):
    for rank in saved[1]:
        first = rank["events"][0]
        assert (first["event"], first["step"]) == ("checkpoint_saved", 1)
        assert first["seconds"] < first["background_seconds"]
        assert not rank["alive"]


def test_another_layout_loads_what_was_saved_before_training_went_on(saved):
    weights = torch.load(saved[0] / "weights.pt")
    assert weights["expected"].keys() == weights["loaded"].keys()
    for name, expected in weights["expected"].items():
        assert torch.equal(weights["loaded"][name], expected), name


@pytest.mark.parametrize(("index", "layout"), [(0, "tensor"), (1, "pipeline")])
def test_shards_load_what_a_divided_model_saved_in_the_background(saved, index, layout):
    expected, loaded = torch.load(saved[0] / "weights.pt")["divided"][index]
    assert (saved[0] / "divided" / f"{layout}_parallel{'-microbatches' * index}/step-00000001").is_dir()
    assert expected.keys() == loaded.keys()
    for name, weights in expected.items():
        assert torch.equal(loaded[name], weights), name


def test_a_full_volume_costs_one_checkpoint_on_every_rank(saved):
    for rank in saved[1]:
        failed = rank["events"][1]
        assert (failed["event"], failed["step"]) == ("checkpoint_failed", 2)
        assert "rank 0: [Errno 27] File too large; rank 1: [Errno 27] File too large; a checkpoint" in failed["error"]


def test_ranks_save_by_themselves_once_one_has_lost_its_background_process(saved):
    for rank in saved[1]:
        lost, *then = rank["events"][2:]
        assert (lost["event"], lost["step"]) == ("checkpoint_failed", 3)
        assert [(event["event"], event["step"]) for event in then] == [("checkpoint_saved", 4), ("checkpoint_saved", 5)]
        assert all("background_seconds" not in event for event in then)
    assert sorted(path.name for path in (saved[0] / "checkpoints").iterdir()) == ["step-00000004", "step-00000005"]


def test_weights_of_all_shards_become_one_safetensors_file(saved, tmp_path, capsys):
    output = tmp_path / "weights.safetensors"
    assert export_weights.main([f"--run={saved[0]}", f"--output={output}", "--step=4"]) == 0
    assert capsys.readouterr().out.startswith(f"{output}: step 4, ")
    expected = torch.load(saved[0] / "weights.pt")["expected"]
    weights = safetensors.torch.load_file(output)
    assert weights.keys() == expected.keys()
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, expected[name] + 1, rtol=0, atol=0)
    with safetensors.safe_open(output, "pt") as file:
        assert file.metadata() == {"format": "pt", "step": "4", "settings": "{}"}


def test_weights_of_a_step_or_a_run_that_is_not_there_are_refused(saved, tmp_path, capsys):
    assert export_weights.main([f"--run={saved[0]}", f"--output={tmp_path / 'w'}", "--step=7"]) == 1
    assert "step=7" in (error := capsys.readouterr().err)
    assert "has no such checkpoint. Fix: one of 4, 5" in error
    assert export_weights.main([f"--run={tmp_path}", f"--output={tmp_path / 'w'}"]) == 1
    assert "has no complete checkpoints/step-*. Fix: the folder of a run" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path, capsys):
    for output, message in (
        (tmp_path, f"output={tmp_path}: is a folder. Fix: a file in it"),
        (Path(), "output=.: is a folder. Fix: a file in it, such as weights.safetensors"),
        (tmp_path / "no/w", f"output={tmp_path / 'no/w'}: the folder {tmp_path / 'no'} does not exist. Fix: create it"),
    ):
        assert export_weights.main(["--run=nowhere", f"--output={output}"]) == 1
        assert message in capsys.readouterr().err


def test_a_full_disk_and_a_damaged_run_are_named(saved, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    output = tmp_path / "w"
    assert export_weights.main([f"--run={saved[0]}", f"--output={output}"]) == 1
    assert capsys.readouterr().err == (
        f"export_weights: output={output}: I/O error: No space left on device (os error 28)\n"
    )
    shutil.copytree(saved[0], tmp_path / "run")
    for file in (tmp_path / "run/checkpoints").glob("*/.metadata"):
        file.unlink()
    assert export_weights.main([f"--run={tmp_path / 'run'}", f"--output={output}"]) == 1
    assert (error := capsys.readouterr().err).startswith(
        f"export_weights: {tmp_path / 'run'}: step-00000005 is damaged"
    )
    assert error.endswith("Fix: an intact copy of that folder\n")
