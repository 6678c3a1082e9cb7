from __future__ import annotations

import pytest
import torch

from infra.settings.digits import DigitsSettings
from tests.tables import each_row
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig


def test_model_answers_each_sample_alike_in_any_batch():
    model = DigitsCnnConfig(width=8).build().eval()
    images = torch.rand(5, 1, 8, 8)
    together = model(images)
    assert together.shape == (5, 10)
    torch.testing.assert_close(torch.cat([model(image[None]) for image in images]), together)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 6}, "width=6: must be a multiple of 4"),
        ({"width": 0}, "width=0: must be at least 4"),
        ({"dropout": 1.0}, "dropout=1.0: must be from 0.0 to 0.99"),
    ],
)
def test_model_refuses_impossible_sizes(arguments, message):
    with pytest.raises(ValueError, match=message):
        DigitsCnnConfig(**arguments)


@each_row("width", [0, 1, 4, 10, 16, 1024])
def test_the_stacks_settings_take_the_widths_that_a_model_can_have(width):
    def is_refused(by):
        try:
            by(width=width)
        except ValueError:
            return True
        return False

    assert is_refused(DigitsSettings) == is_refused(DigitsCnnConfig)
