"""Writes the weights of a run as one safetensors file: `python -m trainer.export_weights --run … --output …`."""

from __future__ import annotations

import json
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time
from typing import TYPE_CHECKING

import safetensors.torch
from safetensors import SafetensorError

from trainer.common import command_line
from trainer.common.files import fsync_directory, fsync_file
from trainer.common.validation import SettingsError
from trainer.pytorch.checkpoints.errors import CheckpointError
from trainer.pytorch.checkpoints.stored import Step, checkpoint_of_run, whole_weights

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ExportWeightsConfig:
    """Write the parameters and buffers of a checkpoint, whole, in whatever layout it was saved, as safetensors."""

    run: Path
    """Folder of a run of trainer.train, <output_dir>/<run_name>."""
    output: Path
    """The file to write. Its names are those of the model's state dict; its metadata has the step and the settings."""
    step: Step | None = None
    """Step of the checkpoint to take, or the one that --keep_best has kept. None: the latest one that is intact."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 when the file is written, else 1 after saying why."""
    config = command_line.parse(ExportWeightsConfig, "trainer.export_weights", arguments)
    try:
        _refuse_output(config.output)
        path, manifest = checkpoint_of_run(config.run, config.step)
        weights = whole_weights(path)
        about = {"format": "pt", "step": str(manifest.step), "settings": json.dumps(manifest.settings, sort_keys=True)}
        _write(config.output, weights, about)
    except (CheckpointError, SettingsError) as error:
        print(f"export_weights: {error}", file=sys.stderr)
        return 1
    except (OSError, SafetensorError) as error:
        print(f"export_weights: output={config.output}: {error}", file=sys.stderr)
        return 1
    count = sum(tensor.numel() for tensor in weights.values())
    size = config.output.stat().st_size / 1e6
    print(f"{config.output}: step {manifest.step}, {len(weights)} tensors, {count:,} values, {size:,.1f} MB")
    return 0


def _refuse_output(path: Path) -> None:
    """Refuse a file that cannot be, before gigabytes are read.

    Raises:
        SettingsError: saying why, and the fix.
    """
    if path.is_dir():
        raise SettingsError(f"output={path}: is a folder. Fix: a file in it, such as {path / 'weights.safetensors'}")
    if not path.parent.is_dir():
        raise SettingsError(f"output={path}: the folder {path.parent} does not exist. Fix: create it, or another file")


def _write(path: Path, weights: dict[str, Tensor], about: dict[str, str]) -> None:
    """Write the file whole or not at all, without a second copy of the weights in memory."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        safetensors.torch.save_file(weights, temporary, about)  # pyright: ignore[reportUnknownMemberType]
        fsync_file(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


if __name__ == "__main__":
    sys.exit(main())
