"""Images in a folder for each class, as torchvision's ImageFolder and most published sets have them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import torch
from PIL import Image

from trainer.common.validation import listed
from trainer.pytorch.data.dataset import Batch, DamagedSampleError, Dataset, FileDataConfig
from trainer.pytorch.data.image_files import ImageFiles, list_images
from trainer.training.digits import SPLITS, DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from trainer.training.digits import SplitName

_MODES = {1: "L", 3: "RGB"}
"""Pillow's modes by the number of channels."""
_BITS_OF_BYTE = 8
_WITHOUT_RANGE = ("I", "F")
"""Pillow's modes of 32-bit integers and floats, of which a file does not say what is black and what is white."""


@dataclass(frozen=True, kw_only=True)
class ImageFolderConfig(FileDataConfig):
    """Images below <data_dir>/train/<class>/ and <data_dir>/val/<class>/, which are held out.

    The classes are numbered in the order of their names. Images are scaled to what the model reads, the middle of their
    longer side is kept, and values are from 0 to 1.
    """

    dataset: Literal["image_folder"] = "image_folder"
    """Name of the data set; `--dataset NAME --help` explains the arguments of another."""

    def open(self, split: SplitName, input_shape: Sequence[int]) -> ImageFolder:
        """Return a split; see `DataConfig.open`."""
        return ImageFolder(self.data_dir, list_images(self.data_dir, split), tuple(input_shape))

    def fingerprint(self) -> str:
        """Return a SHA-256 over the names of all images, not their contents; see `DataConfig.fingerprint`."""
        digest = hashlib.sha256()
        for split in SPLITS:
            for name in list_images(self.data_dir, split).names:
                digest.update(f"{split}/{name}\0".encode())
        return digest.hexdigest()


class ImageFolder(Dataset):
    """The images of a split, read when a batch needs them."""

    def __init__(self, data_dir: Path, files: ImageFiles, shape: tuple[int, ...]) -> None:
        """Take the files.

        Args:
            data_dir: Folder of the splits, for messages.
            files: All images.
            shape: Channels, height and width that the model reads.

        Raises:
            DataError: images cannot be brought to this shape.
        """
        if len(shape) != 3 or shape[0] not in _MODES:
            raise DataError(
                f"data_dir={data_dir}: the model reads inputs {shape}, images are (1, height, width) or "
                "(3, height, width). Fix: a model of such images, for example --model resnet --channels 3"
            )
        self.sample_shape = shape
        self.classes = len(files.classes)
        self.class_names = files.classes
        self._files = files
        if files.left_out:
            what = "hidden or of an operating system, and left out"
            self.notes = (f"{files.folder}: {len(files.left_out)} {what}: {listed(files.left_out)}",)

    def __len__(self) -> int:
        return len(self._files.names)

    def batch(self, indices: Tensor) -> Batch:
        """See `Dataset.batch`; images are bytes [N, channels, height, width]."""
        numbers = cast("list[int]", indices.tolist())  # pyright: ignore[reportUnknownMemberType]
        images = np.stack([self._image(number) for number in numbers])
        # all at once: a call of numpy for each image takes longer than its pixels
        pixels = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        labels = [self._files.labels[number] for number in numbers]
        return Batch(
            inputs=torch.from_numpy(pixels),  # pyright: ignore[reportUnknownMemberType]
            targets=torch.tensor(labels),
        )

    def name(self, number: int) -> str:
        """See `Dataset.name`: the file."""
        return str(self._files.folder / self._files.names[number])

    def _image(self, number: int) -> NDArray[np.uint8]:
        """Return an image as uint8 [height, width, channels]."""
        path = self.name(number)
        channels, height, width = self.sample_shape
        try:
            with Image.open(path) as file:
                image = _cropped(_of_bytes(file).convert(_MODES[channels]), width, height)
            return np.asarray(image).reshape(height, width, channels)
        except MemoryError:
            raise
        except Exception as error:  # Pillow's kinds are in no list: SyntaxError, struct.error, IndexError and so on
            if isinstance(error, OSError) and error.errno is not None:
                raise DataError(f"{path}: cannot be read: {error.strerror}. Fix: look at that volume") from error
            message = f"{path}: cannot be read as an image: {error}. Fix: replace it"
            raise DamagedSampleError(number, message) from error


def _of_bytes(image: Image.Image) -> Image.Image:
    """Return an image whose values are bytes: of 16 bits the upper 8.

    Pillow's own conversion makes everything above 255 white.

    Raises:
        ValueError: values have no known range.
    """
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> _BITS_OF_BYTE).astype(np.uint8))
    if image.mode in _WITHOUT_RANGE:
        raise ValueError(f"its values are of Pillow's mode {image.mode}; must be of 8 or 16 bits")
    return image


def _cropped(image: Image.Image, width: int, height: int) -> Image.Image:
    """Return the middle of an image in the given proportions, scaled to the given size."""
    if image.size == (width, height):
        return image
    scale = min(image.width / width, image.height / height)
    left, top = (image.width - scale * width) / 2, (image.height - scale * height) / 2
    box = (left, top, left + scale * width, top + scale * height)
    return image.resize((width, height), Image.Resampling.BILINEAR, box=box)
