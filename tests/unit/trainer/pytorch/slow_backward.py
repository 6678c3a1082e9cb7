"""A training in which one rank computes its gradients slowly: `-m … slow_backward RANK SECONDS arguments…`."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from trainer import train
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig

if TYPE_CHECKING:
    from torch import nn

SLOW_RANK, SECONDS = int(sys.argv[1]), float(sys.argv[2])
build = DigitsCnnConfig.build


def build_slow(config: DigitsCnnConfig) -> nn.Module:
    model = build(config)

    def wait(*_: object) -> None:
        time.sleep(SECONDS)

    if int(os.environ["RANK"]) == SLOW_RANK:
        # in the middle of the backward pass, and of no other part of a step
        model.features[3].register_full_backward_hook(wait)
    return model


if __name__ == "__main__":
    DigitsCnnConfig.build = build_slow
    del sys.argv[1:3]
    train.main()
