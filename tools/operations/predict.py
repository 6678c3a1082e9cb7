"""Predictions of the served model: sends held-out digits, and draws the answers in the terminal."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.errors import RefusalError
from tools.errors import ExpectedError
from tools.proxies import urlopen

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainer.training.digits import Digits

_TIMEOUT_SECONDS = 10
_SHADES = " ░▒▓█"


class ServingError(ExpectedError):
    """The service did not answer, or answered with an error; the message holds what it said."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One held-out digit and what the service said."""

    index: int
    """Position among the held-out images."""
    pixels: list[list[float]]
    """Eight rows of eight grey values, 0..1."""
    label: int
    """The true digit."""
    predicted: int
    """The predicted digit."""
    model_version: str

    @property
    def correct(self) -> bool:
        """Whether the service was right."""
        return self.label == self.predicted


def predict(address: str, model: str, indices: Sequence[int], data_dir: Path | None = None) -> list[Prediction]:
    """Send held-out images in one request of the Open Inference Protocol v2 and return the answers.

    Args:
        address: host:port of the service.
        model: the model's name.
        indices: which held-out images, from 0.
        data_dir: a folder where a job may have prepared them: reading them there takes a fifth of the time.

    Raises:
        ServingError: the service cannot be reached or refuses.
        RefusalError: an index is out of range.
    """
    held_out = _held_out(data_dir)
    wrong = [index for index in indices if not 0 <= index < len(held_out)]
    if wrong:
        limit = f"is not one of the held-out images 0 to {len(held_out) - 1}"
        raise RefusalError("IMAGE", wrong[0], limit, "choose one of them")
    images = held_out.images[list(indices)]
    request = {
        "inputs": [
            {"name": "image", "datatype": "FP32", "shape": list(images.shape), "data": images.flatten().tolist()}
        ]
    }
    answer = _post(f"http://{address}/v2/models/{model}/infer", request)
    logits: list[float] = answer["outputs"][0]["data"]
    classes = len(logits) // len(indices)
    rows = [logits[start : start + classes] for start in range(0, len(logits), classes)]
    return [
        Prediction(
            index=index,
            pixels=images[place, 0].tolist(),
            label=int(held_out.labels[index]),
            predicted=row.index(max(row)),
            model_version=str(answer.get("model_version", "")),
        )
        for place, (index, row) in enumerate(zip(indices, rows, strict=True))
    ]


def _held_out(data_dir: Path | None) -> Digits:
    # numpy takes a quarter of a second to import, which no other command needs to wait for.
    from trainer.training import digits  # noqa: PLC0415

    if data_dir is not None:
        with suppress(digits.DataError):
            return digits.load(data_dir, "held_out")
    return digits.from_source("held_out")


def is_ready(address: str, model: str) -> bool:
    """Whether the model is loaded and answers."""
    try:
        with urlopen(urllib.request.Request(f"http://{address}/v2/models/{model}/ready"), timeout_seconds=2):
            return True
    except OSError:
        return False


def draw(predictions: Sequence[Prediction]) -> str:
    """Return the digits side by side, two characters per pixel, with label and prediction below each."""
    lines = [
        "   ".join(_shaded(prediction.pixels[row]) for prediction in predictions)
        for row in range(len(predictions[0].pixels))
    ]
    width = 2 * len(predictions[0].pixels[0])
    said = [f"served: {p.predicted} {'✓' if p.correct else '✗ is ' + str(p.label)}" for p in predictions]
    names = [f"held-out {p.index}" for p in predictions]
    return "\n".join([*lines, *("   ".join(text.ljust(width) for text in row) for row in (names, said))])


def _shaded(values: list[float]) -> str:
    darkest = len(_SHADES) - 1
    return "".join(2 * _SHADES[round(value * darkest)] for value in values)


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 - always http
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    try:
        with urlopen(request, timeout_seconds=_TIMEOUT_SECONDS) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise ServingError(f"{url} answered {error.code}: {error.read(500).decode(errors='replace')}") from None
    except OSError as error:
        raise ServingError(f"{url} cannot be reached: {error}. Fix: run `make status` to see what is running") from None
