"""The language model in a minimal loop: `python -m trainer.hardware_check.plain_loop 125m 8 14 4`.

The words are the size, the samples of a step, the steps, and how many of these do not count. The same network and
arithmetic as the trainer's `--precision bf16_autocast`, fused AdamW and clipping, on one batch that is on the device
from the start: no data, no checks, no report, and no wait for the device before the end. Its speed is the upper limit
of the trainer's. Prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from trainer.pytorch.models.gpt import GptConfig

if TYPE_CHECKING:
    from trainer.pytorch.models.gpt import Size


def measured(size: Size, batch: int, steps: int, warm_up: int) -> dict[str, Any]:
    """Return milliseconds of a step and tokens per second."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = GptConfig(size=size)
    network = config.build().to(device)
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    tokens = torch.randint(config.shape.vocabulary, (batch, config.shape.context), device=device)
    begin = 0.0
    for number in range(steps):
        if number == warm_up:
            _finish(device)
            begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = network(tokens)
        cross_entropy(logits.float().flatten(0, 1), tokens.flatten()).backward()  # pyright: ignore[reportUnknownMemberType]
        clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]
    _finish(device)
    seconds = (time.perf_counter() - begin) / (steps - warm_up)
    return {"step_milliseconds": round(1000 * seconds, 2), "tokens_per_second": round(tokens.numel() / seconds)}


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    print(json.dumps(measured(cast("Size", sys.argv[1]), *map(int, sys.argv[2:]))), flush=True)
