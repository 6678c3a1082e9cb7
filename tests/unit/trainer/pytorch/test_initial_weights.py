"""Runs that begin with the weights of a file."""

from __future__ import annotations

import pytest
import safetensors.torch
import torch
from torch import nn

from tests.tables import each_row
from tests.unit.trainer.pytorch.small_runs import events, run
from trainer.common.validation import SettingsError
from trainer.pytorch import initial_weights
from trainer.pytorch.loop import Trainer
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig

CONFIG = DigitsCnnConfig(width=4)
FIRST, LAST = "features.0.weight", "classifier.1.bias"


def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(7)
    return {name: torch.rand_like(each) for name, each in CONFIG.build().state_dict().items()}


def test_a_run_begins_with_the_weights_of_a_file_and_resumes_without_it(small, tmp_path, caplog):
    file, given = tmp_path / "weights.safetensors", weights()
    safetensors.torch.save_file({name: each.half() for name, each in given.items()}, file)
    config = small(model=CONFIG, init_weights=file)
    trainer = Trainer(config)
    for name, each in trainer.model.state_dict().items():
        assert torch.equal(each, given[name].half().float()), name
    trainer.close()
    run(config, stop_at=2)
    file.unlink()
    run(config)
    assert [event["step"] for event in events(config, "resumed")] == [2]
    assert "the run has checkpoints, and continues from the latest. Fix: another --run_name" in caplog.text


def test_a_run_that_is_refused_for_its_weights_leaves_nothing_behind(small, tmp_path):
    config = small(init_weights=tmp_path / "none.safetensors")
    with pytest.raises(
        SettingsError, match=r"none\.safetensors: cannot be read: .*No such file.* Fix: a file that saf"
    ):
        Trainer(config)
    assert not config.output_dir.exists()


def test_a_run_whose_checkpoints_are_all_damaged_begins_with_the_file_again(small, tmp_path):
    file, given = tmp_path / "weights.pt", weights()
    torch.save(given, file)
    config = small(model=CONFIG, init_weights=file)
    run(config, stop_at=2)
    (config.folders.checkpoints / "step-00000002" / "complete.json").write_text("{}")
    trainer = Trainer(config)
    try:
        trainer._resume()
        assert torch.equal(trainer.model.state_dict()[FIRST], given[FIRST])
    finally:
        trainer.close()


@each_row(
    ("change", "message"),
    [
        (lambda w: w.pop(FIRST), f"lacks {FIRST}. Fix: "),
        (lambda w: w.update(other=torch.zeros(1)), "has in addition other. Fix: weights of this model, or --no-init_w"),
        (lambda w: w.update({LAST: torch.zeros(3)}), rf"has in another shape {LAST} \(3,\), not \(10,\)\. Fix: "),
        (lambda w: w.clear(), f"lacks {FIRST}, .* and 9 more"),
        (
            lambda w: w.update(step=3),
            "step of it is not a tensor; must be a state dict: tensors by name. Fix: torch.save",
        ),
    ],
)
def test_weights_that_do_not_fit_are_named(tmp_path_factory, change, message):
    file, given = tmp_path_factory.mktemp("weights") / "weights.pt", weights()
    change(given)
    torch.save(given, file)
    with pytest.raises(SettingsError, match=rf"^init_weights={file}: {message}"):
        initial_weights.take(file, CONFIG, CONFIG.build(), strict=True)


def test_what_fits_is_taken_where_that_is_asked_for(tmp_path):
    file, given = tmp_path / "weights.pt", weights()
    given[LAST] = torch.zeros(3)
    torch.save(given, file)
    model = CONFIG.build()
    last = model.state_dict()[LAST].clone()
    problems = initial_weights.take(file, CONFIG, model, strict=False)
    assert problems == [f"has in another shape {LAST} (3,), not (10,)"]
    assert torch.equal(model.state_dict()[FIRST], given[FIRST])
    assert torch.equal(model.state_dict()[LAST], last)
    torch.save({"other": torch.zeros(1)}, file)
    with pytest.raises(SettingsError, match="has none of the model's weights, such as features"):
        initial_weights.take(file, CONFIG, model, strict=False)


def test_a_file_that_is_not_a_state_dict_is_refused(tmp_path):
    for content, message in (
        ([1, 2], "is a list; must be a state dict"),
        (nn.Linear(2, 2), "cannot be read: .*Unpickl"),
    ):
        torch.save(content, tmp_path / "weights.pt")
        with pytest.raises(SettingsError, match=message):
            initial_weights.take(tmp_path / "weights.pt", CONFIG, CONFIG.build(), strict=True)
