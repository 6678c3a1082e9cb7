"""A training in which one rank never ends a forward pass: `hang_in_forward RANK STEP arguments…`."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from trainer import train
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig

if TYPE_CHECKING:
    from torch import nn

HANGING_RANK, STEP = int(sys.argv[1]), int(sys.argv[2])
build = DigitsCnnConfig.build
passes = iter(range(1, 1_000_000))


def build_hanging(config: DigitsCnnConfig) -> nn.Module:
    model = build(config)

    def hang(*_: object) -> None:
        if next(passes) == STEP:
            threading.Event().wait()

    if int(os.environ["RANK"]) == HANGING_RANK:
        model.register_forward_pre_hook(hang)
    return model


if __name__ == "__main__":
    DigitsCnnConfig.build = build_hanging
    del sys.argv[1:3]
    train.main()
