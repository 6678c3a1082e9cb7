"""The speed of a frozen TorchScript network: `python -m trainer.hardware_check.torchscript_speed cuda`.

Prints one JSON line: images per second and the 99th percentile of a call, by kind of number.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from trainer.model_repository import torchscript
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.resnet import ResNetConfig

_BATCH = 8
_WARM_UP, _CALLS = 10, 200


def measured(device: str) -> dict[str, Any]:
    """Return the figures: of ResNet-50 in fp32 and fp16 on a GPU, of a small network in fp32 on the CPU."""
    on_gpu = device == "cuda"
    config = ResNetConfig(depth=50, image_size=224, classes=1000) if on_gpu else DigitsCnnConfig(width=4)
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    network, batch = config.build().eval(), torch.rand(_BATCH, *config.input_shape)
    exact, figures = _measured(network, batch, on_gpu=on_gpu)
    if on_gpu:
        rounded, of_half = _measured(network.half().to(device), batch.half().to(device), on_gpu=True)
        figures |= of_half
        figures["fp16_difference"] = round(((rounded - exact).abs().max() / exact.abs().max()).item(), 5)
    return {"batch": len(batch), **figures}


def _measured(network: torch.nn.Module, batch: torch.Tensor, *, on_gpu: bool) -> tuple[torch.Tensor, dict[str, float]]:
    """Return the answers, float32 on the CPU, and the figures of calling the network as a server does."""
    device = "cuda" if on_gpu else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        torchscript.save_frozen(network, path, [batch])
        model = torchscript.load(path, device)
    batch = batch.to(device)
    warm_up, calls = (_WARM_UP, _CALLS) if on_gpu else (1, 3)
    seconds: list[float] = []
    answers = batch
    with torch.inference_mode():
        for _ in range(warm_up + calls):
            begin = time.perf_counter()
            # the answer goes to the host, as on its way to a client
            answers = model(batch).cpu()
            seconds.append(time.perf_counter() - begin)
    ordered = sorted(seconds[warm_up:])
    name = "fp16" if batch.dtype is torch.float16 else "fp32"
    figures = {
        f"{name}_images_per_second": round(len(batch) * calls / sum(ordered), 1),
        f"{name}_p99_milliseconds": round(1000 * ordered[calls * 99 // 100], 3),
    }
    return answers.float(), figures


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1])), flush=True)
