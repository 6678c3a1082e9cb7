"""Compression of a training, the variant of a service, and what is refused before anything runs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from infra.errors import RefusalError
from infra.settings.digits import DigitsSettings
from tests.tables import each_row
from workloads.compression import Compression
from workloads.inference import TorchScriptServiceArgs
from workloads.resources import Resources
from workloads.serving_pods import serve_command
from workloads.triton import Triton


def test_a_service_without_a_variant_runs_the_command_that_it_always_had():
    command = serve_command(TorchScriptServiceArgs(model="digits"))
    assert not any("variant" in word for word in command)
    changed = serve_command(TorchScriptServiceArgs(model="digits", variant="int8"))
    assert [word for word in changed if word not in command] == ["--model_variant=int8"]


def test_triton_serves_no_variant():
    with pytest.raises(RefusalError, match=r"variant = 'int8'.*thin runtime.*omit variant"):
        TorchScriptServiceArgs(model="digits", variant="int8", runtime=Triton(), resources=Resources(gpus=1))


@each_row(
    ("wrong", "message"),
    [
        ({"variants": ()}, r"compression\.variants = \(\): must name at least one"),
        ({"variants": ("int8", "int8")}, r"compression\.variants = .* each once"),
        ({"variants": ("int4",)}, r"compression\.variants.*'int4'"),
        ({"max_accuracy_loss_points": -1.0}, r"compression\.max_accuracy_loss_points = -1\.0"),
        ({"sparsity": 0.99}, r"compression\.sparsity = 0\.99: must be from 0\.05 to 0\.95"),
        ({"calibration_samples": 0}, r"compression\.calibration_samples = 0"),
        ({"fine_tune_epochs": -1}, r"compression\.fine_tune_epochs = -1"),
    ],
)
def test_wrong_compression_is_refused(wrong, message):
    with pytest.raises(RefusalError, match=message):
        Compression(**wrong)


@each_row("compression", [{"variants": []}, {"variants": ["pt2"]}])
def test_settings_refuse_a_variant_that_the_training_does_not_publish(compression):
    with pytest.raises(ValidationError, match=r"variant = int8: is not published.*Fix: compression"):
        DigitsSettings(compression=compression, variant="int8")
