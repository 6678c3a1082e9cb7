"""What a run that has ended publishes, once."""

from __future__ import annotations

import json
import resource

import pytest

from tests.unit.trainer.pytorch.small_runs import GO_ON, events, run
from trainer.pytorch.export_config import ExportError
from trainer.pytorch.loop import Outcome, Trainer


def test_finished_run_ends_at_once_and_publishes_nothing_more(uninterrupted):
    config, _ = uninterrupted
    written = len(events(config))
    assert run(config)[0] is Outcome.FINISHED
    assert [event["event"] for event in events(config)[written:]] == ["already_finished"]
    assert sorted(path.name for path in (config.folders.models / "digits").iterdir()) == ["1", "config.pbtxt"]


def test_killed_between_export_and_result_still_publishes_one_version(uninterrupted):
    config, _ = uninterrupted
    result = config.folders.result.read_bytes()
    config.folders.result.unlink()
    assert run(config)[0] is Outcome.FINISHED
    assert config.folders.result.read_bytes() == result
    assert sorted(path.name for path in (config.folders.models / "digits").iterdir()) == ["1", "config.pbtxt"]


def test_a_file_that_is_not_a_result_does_not_count(uninterrupted):
    config, _ = uninterrupted
    result = config.folders.result.read_bytes()
    config.folders.result.write_text("{}")
    assert run(config)[0] is Outcome.FINISHED
    assert config.folders.result.read_bytes() == result


def test_result_names_model_version_and_accuracy(uninterrupted):
    config, _ = uninterrupted
    result = json.loads(config.folders.result.read_text())
    manifest = json.loads((config.folders.models / "digits/1/manifest.json").read_text())
    assert (result["model_name"], result["version"], result["step"]) == ("digits", 1, 22)
    assert result["accuracy"] == manifest["accuracy"] > 0.5
    assert manifest["run_name"] == config.run_name


@pytest.fixture
def largest_file():
    """Limit the size of the files of this process, as a disk without room does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size or limits[0], limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_model_that_the_disk_does_not_take_is_published_by_the_next_start(small, largest_file, monkeypatch):
    config = small()
    trainer = Trainer(config)
    monkeypatch.setattr(trainer.distributed, "finishing", lambda: largest_file(1000))
    try:
        with pytest.raises(ExportError, match=r"output: .* cannot be written: File too large\. Fix: .*ulimit") as error:
            trainer.train(GO_ON)
    finally:
        largest_file(None)
        trainer.close()
    assert "\n" not in str(error.value)
    assert list((config.folders.models / "digits").iterdir()) == []
    assert run(config)[0] is Outcome.FINISHED
    assert json.loads(config.folders.result.read_text())["version"] == 1
