"""Synthetic inputs of a check: tokens, photographs in folders, digits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.pytorch.data import token_files
from trainer.pytorch.data.image_files import FOLDERS

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from trainer.hardware_check.site import Scale
    from trainer.training.digits import SplitName

_CLASSES = ("even", "odd")
_PHOTOGRAPHS = 8
"""Different ones; the files are copies of them."""
_JPEG_QUALITY = 90


def tokens(folder: Path, *, vocabulary: int, count: int) -> Path:
    """Write random tokens, unless they are there; a tenth of them is held out."""
    if not (folder / token_files.DESCRIPTION).exists():
        folder.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(0)
        sizes: dict[SplitName, int] = {"train": count, "held_out": max(count // 10, 1 << 13)}
        splits: dict[SplitName, NDArray[Any]] = {
            split: random.integers(0, vocabulary, size, dtype=np.uint16) for split, size in sizes.items()
        }
        token_files.write(folder, splits, vocabulary=vocabulary)
    return folder


def photographs(folder: Path, scale: Scale) -> Path:
    """Write JPEG files of two classes, enough for all steps of a run, unless they are there.

    Raises:
        ImportError: Pillow is missing.
    """
    if not (folder / FOLDERS["held_out"]).exists():
        sizes: dict[SplitName, int] = {"train": scale.image_batch * scale.steps, "held_out": 2 * len(_CLASSES)}
        contents = _photographs(scale.photograph)
        for split, count in sizes.items():
            for number in range(count):
                path = folder / FOLDERS[split] / _CLASSES[number % 2] / f"{number:05d}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(contents[number % _PHOTOGRAPHS])
    return folder


def _photographs(size: tuple[int, int]) -> list[bytes]:
    """Return JPEG files with the edges and the noise of photographs, which are what decoding takes its time for."""
    import io  # noqa: PLC0415

    from PIL import Image  # noqa: PLC0415  only this step needs it

    random = np.random.default_rng(0)
    contents: list[bytes] = []
    for _ in range(_PHOTOGRAPHS):
        patches = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize(size)
        noise = random.integers(-12, 13, (size[1], size[0], 3))
        pixels = np.clip(np.asarray(patches) + noise, 0, 255).astype(np.uint8)
        content = io.BytesIO()
        Image.fromarray(pixels).save(content, format="JPEG", quality=_JPEG_QUALITY)
        contents.append(content.getvalue())
    return contents
