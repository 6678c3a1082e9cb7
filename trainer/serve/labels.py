"""Names of classes, for answers with `classification`: the files of outputs' `label_filename`.

Source: Triton, model_config.proto, ModelOutput: a file in the model's folder with a name in each line.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainer.common.files import is_inside
from trainer.serve import repository
from trainer.serve.errors import ModelLoadError

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.serve.model_config import ModelSpec

_MAX_BYTES = 16 << 20


def with_labels(spec: ModelSpec, model_folder: Path) -> ModelSpec:
    """Return a configuration with the names of its outputs' classes.

    Raises:
        ModelLoadError: a file is not a list of names, or not in the model's folder.
        OSError: a file cannot be read.
    """
    outputs = zip(spec.outputs, spec.config.output, strict=True)
    return replace(
        spec, outputs=tuple(replace(tensor, labels=_labels(output, model_folder)) for tensor, output in outputs)
    )


def _labels(output: Any, model_folder: Path) -> tuple[str, ...]:  # noqa: ANN401  a protobuf message
    name: str = output.label_filename
    if not name:
        return ()
    where = f"config.pbtxt: output {output.name!r}: label_filename={name!r}"
    path = model_folder / name
    if not is_inside(path, model_folder):
        raise ModelLoadError(f"{where}: must be a file in the model's folder, not one that a link there leads to")
    text = repository.read_text(path, where, _MAX_BYTES, fix=". Fix: one name in each line and nothing else")
    return tuple(line.rstrip("\r") for line in text.removesuffix("\n").split("\n"))
