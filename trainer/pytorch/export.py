"""Publishes a trained model in the model repository (`trainer/model_repository/layout.py`).

Versions are 1, 2, 3 …; a run, or a file of weights, publishes exactly one for each set of variants.

All versions share it, so a version whose outputs mean something else is refused.
"""

from __future__ import annotations

import dataclasses
import errno
import logging
import re
import shutil
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from trainer.common.files import fsync_directory, read_json, sha256_of, write_atomically, write_json_atomically
from trainer.model_repository.layout import CONFIG_FILE, LABELS_FILE, MANIFEST_FILE
from trainer.pytorch.compression.config import CompressionConfig
from trainer.pytorch.export_config import ExportError
from trainer.pytorch.measurement import machine
from trainer.pytorch.model_files import write_model, write_variants

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.pytorch.export_config import ExportConfig
    from trainer.pytorch.trained_model import TrainedModel


def refuse_others(version: Path, trained: TrainedModel) -> None:
    """Refuse a model whose classes are other ones than those of a version that is published.

    Raises:
        ExportError: naming the first that differs.
    """
    published: list[str] = (read_json(version / MANIFEST_FILE) or {}).get("class_names", [])
    pairs = zip(published, trained.class_names, strict=False)  # another number of them is refused with the outputs
    for number, (theirs, ours) in enumerate(pairs):
        if theirs != ours:
            limit = f"its class {number} is {theirs!r}, that of run {trained.run_name} is {ours!r}"
            raise ExportError(f"{version}: {limit}. Fix: another --model_name, or remove that model")


def write(model_folder: Path, trained: TrainedModel) -> None:
    """Write a name in each line, or leave a file that is there: operators may have nicer names than folders have."""
    path = model_folder / LABELS_FILE
    if trained.class_names and not path.exists():
        lines = "".join(f"{' '.join(name.splitlines())}\n" for name in trained.class_names)
        # a folder's name may be anything
        write_atomically(path, lines.encode("utf-8", "replace"))


logger = logging.getLogger(__name__)

MANIFEST_FORMAT_VERSION = 1
NO_VARIANTS = CompressionConfig()


def find_version(repository: Path, model_name: str, origin: dict[str, Any]) -> int | None:
    """Return the version that was published with this `origin` before and is whole, or None."""
    for version in _versions(repository / model_name):
        folder = repository / model_name / str(version)
        manifest = read_json(folder / MANIFEST_FILE)
        if manifest is None or any(manifest.get(key) != value for key, value in origin.items()):
            continue
        if _is_whole(folder, manifest):
            return version
        logger.warning("%s: its files are not those of %s: no server takes it", folder, MANIFEST_FILE)
    return None


def origin(trained: TrainedModel, compression: CompressionConfig = NO_VARIANTS) -> dict[str, Any]:
    """Return the origin of a version, by which equal ones are recognised, as JSON values.

    That is the run and its step or the files, how clients call it, and how it is compressed.
    """
    settings = dataclasses.asdict(compression) | {"variants": list(compression.variants)}
    return {
        "run_name": trained.run_name,
        "step": trained.step,
        # absent as in manifests from before there were variants
        "compression": settings if compression.variants else None,
        "source_files": trained.source_files,
        # absent as in manifests from before there was another
        "method": trained.method if trained.method == "export" else None,
        "inputs": [spec.to_manifest(is_batched=trained.is_batched) for spec in trained.inputs],
        "outputs": [spec.to_manifest(is_batched=trained.is_batched) for spec in trained.outputs],
    }


def publish(
    repository: Path, config: ExportConfig, trained: TrainedModel, compression: CompressionConfig = NO_VARIANTS
) -> int:
    """Publish a model as the next version, once per origin: a second call finds the first one's version.

    Raises:
        ExportError: the written file does not compute what the model computes, the repository holds a model of this
            name with other inputs, outputs or classes, or another attempt took this one's place and is not done.
        OSError: the repository cannot be written.
    """
    existing = find_version(repository, config.model_name, origin(trained, compression))
    if existing is not None:
        return existing
    folder = repository / config.model_name
    folder.mkdir(parents=True, exist_ok=True)
    if versions := _versions(folder):
        refuse_others(folder / str(versions[-1]), trained)
    _remove_leftovers(folder, trained.run_name)
    # hidden and not a number: servers do not take it for a version; of this attempt alone, for there may be another one
    # of the same run, on a node that was taken for lost
    staging = folder / f".staging-{trained.run_name}.{uuid.uuid4().hex}"
    staging.mkdir()
    # imported here, for it imports gRPC: a rank that starts does not need it
    from trainer.pytorch.triton_config import write_config  # noqa: PLC0415

    try:
        manifest = _fill(staging, config, trained, compression)
        # before the version: a server that sees the version must be able to read how to serve it
        write(folder, trained)
        write_config(folder / CONFIG_FILE, config, trained, is_dynamic=manifest["batching"]["dynamic"])
        return _rename_to_next_version(staging, folder, manifest)
    except Exception as error:  # torch has several for a missing file
        if staging.exists():
            raise
        other = find_version(repository, config.model_name, origin(trained, compression))
        if other is None:
            reason = f"another attempt to publish {trained.run_name!r} has removed this one's files"
            raise ExportError(f"{reason}. Fix: wait for it, or another run name for another model") from error
        return other
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _is_whole(folder: Path, manifest: dict[str, Any]) -> bool:
    """Return whether the files of a version are those that were published."""
    try:
        entries = [manifest, *manifest.get("variants", {}).values()]
        return all(sha256_of(folder / entry["model_file"]) == entry["sha256"] for entry in entries)
    except (OSError, KeyError):
        return False


def _fill(staging: Path, config: ExportConfig, trained: TrainedModel, compression: CompressionConfig) -> dict[str, Any]:
    """Write all files of a version; return its manifest without the version."""
    model = write_model(staging / trained.model_file, trained)
    variants = write_variants(staging, trained, model, compression)
    manifest: dict[str, Any] = {
        **model,
        **origin(trained, compression),
        "format_version": MANIFEST_FORMAT_VERSION,
        "model_name": config.model_name,
        "torch_version": torch.__version__,
        "commit": trained.commit,
        "measured_on": machine(),
    }
    if trained.held_out is not None:
        manifest["accuracy_samples"] = len(trained.held_out)
    if trained.class_names:
        manifest["class_names"] = trained.class_names
    if compression.variants:
        manifest |= {"variants": variants.published, "rejected_variants": variants.rejected}
    return manifest


def _remove_leftovers(folder: Path, run_name: str) -> None:
    """Remove what killed attempts of a run left.

    Each loses its name first: one that still writes there fails, and cannot publish what is left.
    """
    leftover = re.compile(rf"\.staging-{re.escape(run_name)}(\.[0-9a-f]{{32}})?")
    for path in folder.iterdir():
        if leftover.fullmatch(path.name):
            doomed = path.with_name(f".removed-{uuid.uuid4().hex}")
            with suppress(OSError):
                path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)


def _rename_to_next_version(staging: Path, folder: Path, manifest: dict[str, Any]) -> int:
    while True:
        version = max(_versions(folder), default=0) + 1
        write_json_atomically(staging / MANIFEST_FILE, manifest | {"version": version})
        try:
            staging.rename(folder / str(version))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            continue  # another run published this version a moment ago
        fsync_directory(folder)
        return version


def _versions(folder: Path) -> list[int]:
    """List the published versions; Triton takes folders named by a number without leading zeros for versions."""
    if not folder.is_dir():
        return []
    names = (path.name for path in folder.iterdir() if path.is_dir())
    return sorted(int(name) for name in names if name.isdecimal() and not name.startswith("0"))
