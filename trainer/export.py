"""Publish a trained model into the model repository that Triton and our own server read.

Layout (Triton Inference Server, "Model Repository"):
    <repository>/<model_name>/config.pbtxt
    <repository>/<model_name>/<version>/model.pt        frozen TorchScript
    <repository>/<model_name>/<version>/manifest.json   what the file is, and its SHA-256
A version appears by one rename, whole and verified. Versions are 1, 2, 3 …; a run publishes exactly one.
"""

from __future__ import annotations

import errno
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from trainer import torchscript
from trainer.files import fsync_directory, fsync_file, read_json, sha256_of, write_atomically, write_json_atomically
from trainer.validation import at_least, file_name

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

triton = cast("Any", model_config_pb2)  # generated at run time from its descriptor: no types

MODEL_FILE = "model.pt"
MANIFEST_FILE = "manifest.json"
CONFIG_FILE = "config.pbtxt"
MANIFEST_FORMAT_VERSION = 1

_RELATIVE_TOLERANCE = 1e-4
_ABSOLUTE_TOLERANCE = 1e-5


class ExportError(RuntimeError):
    """The model was not published; the repository is as it was."""


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Under which name and with which limits the model is served."""

    model_name: str = "digits"
    """Folder in the model repository and name in the service's address."""
    max_batch_size: int = 64
    """Most samples the server may put into one call of the model."""

    def __post_init__(self) -> None:
        file_name("model_name", self.model_name)
        at_least("max_batch_size", self.max_batch_size, 1)


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """A float32 input or output of the served model; the first dimension, the batch, is left out of `shape`."""

    name: str
    shape: tuple[int, ...]

    def to_manifest(self) -> dict[str, Any]:
        """Return it in the terms of the Open Inference Protocol; -1 is any size."""
        return {"name": self.name, "datatype": "FP32", "shape": [-1, *self.shape]}


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """What is to be published and where it comes from."""

    module: nn.Module
    """The model on the CPU, in evaluation mode."""
    inputs: TensorSpec
    outputs: TensorSpec
    samples: Tensor
    """Real inputs on which the file must agree with `module`."""
    run_name: str
    step: int
    accuracy: float
    """Share of held-out samples classified correctly, 0 to 1."""


def find_version(repository: Path, model_name: str, run_name: str) -> int | None:
    """Return the version that a run has published before, or None."""
    for version in _versions(repository / model_name):
        manifest = read_json(repository / model_name / str(version) / MANIFEST_FILE)
        if manifest is not None and manifest.get("run_name") == run_name:
            return version
    return None


def publish(repository: Path, config: ExportConfig, trained: TrainedModel) -> int:
    """Publish a model as the next version, once per run: a second call finds the first one's version.

    Raises:
        ExportError: the written file does not compute what the model computes, or the repository holds a model of
            this name with other inputs or outputs.
        OSError: the repository cannot be written.
    """
    existing = find_version(repository, config.model_name, trained.run_name)
    if existing is not None:
        return existing
    folder = repository / config.model_name
    folder.mkdir(parents=True, exist_ok=True)
    # hidden and not a number: servers do not take it for a version; there may be one of a killed attempt of this run
    staging = folder / f".staging-{trained.run_name}"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    try:
        torchscript.save_frozen(trained.module, staging / MODEL_FILE)
        fsync_file(staging / MODEL_FILE)
        _verify(staging / MODEL_FILE, trained)
        # before the version: a server that sees the version must be able to read how to serve it
        _write_config(folder / CONFIG_FILE, config, trained)
        return _rename_to_next_version(staging, folder, config, trained)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _verify(path: Path, trained: TrainedModel) -> None:
    """Refuse a file that answers otherwise than the model in memory, for one sample and for many."""
    loaded = torchscript.load(path)
    for batch in (trained.samples[:1], trained.samples):
        with torch.inference_mode():
            expected, found = trained.module(batch), loaded(batch)
        if not torch.allclose(found, expected, rtol=_RELATIVE_TOLERANCE, atol=_ABSOLUTE_TOLERANCE):
            difference = (found - expected).abs().max().item()
            raise ExportError(
                f"{path}: differs from the trained model by {difference:g} on {len(batch)} samples; "
                f"allowed: {_ABSOLUTE_TOLERANCE:g} + {_RELATIVE_TOLERANCE:g} of the value"
            )


def _write_config(path: Path, config: ExportConfig, trained: TrainedModel) -> None:
    """Write the serving configuration, or leave one that is there: operators tune batching and instances in it."""
    wanted = _triton_config(config, trained)
    if not path.exists():
        write_atomically(path, text_format.MessageToString(wanted).encode())
        return
    present = triton.ModelConfig()
    try:
        text_format.Parse(path.read_text(encoding="utf-8"), present)
    except text_format.ParseError as error:
        raise ExportError(f"{path}: not a Triton model configuration: {error}. Fix: correct or remove it") from error
    if list(present.input) != list(wanted.input) or list(present.output) != list(wanted.output):
        fix = "Fix: another --model_name, or remove that model"
        raise ExportError(f"{path}: has other inputs or outputs than the model of run {trained.run_name}. {fix}")


def _triton_config(config: ExportConfig, trained: TrainedModel) -> Any:  # noqa: ANN401  a protobuf message
    def dims(spec: TensorSpec) -> dict[str, Any]:
        return {"name": spec.name, "data_type": triton.TYPE_FP32, "dims": spec.shape}

    return triton.ModelConfig(
        name=config.model_name,
        platform="pytorch_libtorch",
        default_model_filename=MODEL_FILE,
        max_batch_size=config.max_batch_size,
        input=[triton.ModelInput(**dims(trained.inputs))],
        output=[triton.ModelOutput(**dims(trained.outputs))],
        dynamic_batching=triton.ModelDynamicBatching(),
    )


def _rename_to_next_version(staging: Path, folder: Path, config: ExportConfig, trained: TrainedModel) -> int:
    while True:
        version = max(_versions(folder), default=0) + 1
        write_json_atomically(staging / MANIFEST_FILE, _manifest(staging / MODEL_FILE, version, config, trained))
        try:
            staging.rename(folder / str(version))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            continue  # another run published this version a moment ago
        fsync_directory(folder)
        return version


def _manifest(model: Path, version: int, config: ExportConfig, trained: TrainedModel) -> dict[str, Any]:
    return {
        "format_version": MANIFEST_FORMAT_VERSION,
        "model_name": config.model_name,
        "version": version,
        "model_file": MODEL_FILE,
        "sha256": sha256_of(model),
        "size_bytes": model.stat().st_size,
        "torch_version": torch.__version__,
        "inputs": [trained.inputs.to_manifest()],
        "outputs": [trained.outputs.to_manifest()],
        "accuracy": trained.accuracy,
        "run_name": trained.run_name,
        "step": trained.step,
    }


def _versions(folder: Path) -> list[int]:
    """List the published versions; Triton takes folders named by a number without leading zeros for versions."""
    if not folder.is_dir():
        return []
    names = (path.name for path in folder.iterdir() if path.is_dir())
    return sorted(int(name) for name in names if name.isdecimal() and not name.startswith("0"))
