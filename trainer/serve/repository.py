"""The contents of the model repository: complete versions on disk and the configuration, without loading anything.

Layout: Triton Inference Server, "Model Repository"; `trainer.pytorch.export` writes it, each version by one rename.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trainer.common.files import read_json, sha256_of
from trainer.model_repository.layout import (
    CONFIG_FILE,
    EXPORTED_FILE,
    MANIFEST_FILE,
    MODEL_FILE,
    TORCH_EXPORT_SUFFIX,
    WARMUP_FOLDER,
)
from trainer.serve import warmup_config
from trainer.serve.errors import ModelLoadError

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from trainer.serve.model_config import ModelSpec

_MAX_CONFIG_BYTES = 1 << 20
_MAX_VERSION_DIGITS = 18

Signature = tuple[object, ...]
"""Changes when a file is replaced or written to; cheap to take."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A version on disk that has all its files."""

    version: int
    folder: Path
    model_file: Path
    config_text: str
    """Text of the model's config.pbtxt."""
    signature: Signature
    """Signature of its files, config.pbtxt, labels and files of its warm-up: a version that was broken is tried again
    when it changes."""


def is_version_name(name: str) -> bool:
    """Return whether this is a version's name, as in Triton: a decimal number, not 0, without leading zeros."""
    return name.isascii() and name.isdecimal() and not name.startswith("0") and len(name) <= _MAX_VERSION_DIGITS


def read_config_text(folder: Path) -> str:
    """Return the text of config.pbtxt.

    Raises:
        FileNotFoundError: there is no such model yet.
        ModelLoadError: the file is not a configuration.
    """
    return read_text(folder / CONFIG_FILE, CONFIG_FILE, _MAX_CONFIG_BYTES)


def read_text(path: Path, where: str, max_bytes: int, fix: str = "") -> str:
    """Return the text of a file next to the model's versions.

    Args:
        path: The file.
        where: What a message begins with.
        max_bytes: The largest size that is read.
        fix: What a message about a larger file ends with.

    Raises:
        ModelLoadError: the file is larger, or not UTF-8.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ModelLoadError(f"{where}: larger than {max_bytes} bytes{fix}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ModelLoadError(f"{where}: not UTF-8: {error}") from error


def find_versions(folder: Path, config_text: str, spec: ModelSpec) -> list[Candidate]:
    """Return the complete versions that the version policy allows, the latest first.

    A folder without manifest or model file is not a version yet: somebody is copying it. One that lacks a variant's
    file alone is listed, so that `require_variant` can say why.

    Raises:
        OSError: the repository cannot be read.
    """
    allowed = _numbers(folder, spec)
    candidates = (_candidate(folder / str(number), number, config_text, spec) for number in reversed(allowed))
    return [candidate for candidate in candidates if candidate is not None]


def incomplete_versions(folder: Path, spec: ModelSpec, complete: Sequence[Candidate]) -> dict[int, str]:
    """Return the other versions that the version policy allows, with what they lack and what to do.

    Raises:
        OSError: the repository cannot be read.
    """
    complete_versions = {candidate.version for candidate in complete}
    lacking = {
        number: [path.name for path in _files(folder / str(number), spec) if not path.exists()]
        for number in _numbers(folder, spec)
        if number not in complete_versions
    }
    return {number: f"has no {' and no '.join(names)}{_fix(names)}" for number, names in lacking.items() if names}


def _numbers(folder: Path, spec: ModelSpec) -> list[int]:
    """Return the numbers of the version's folders that the version policy allows, in ascending order."""
    numbers = (int(path.name) for path in folder.iterdir() if is_version_name(path.name) and path.is_dir())
    return sorted(number for number in numbers if spec.version_policy.allows(number))


def _fix(missing: list[str]) -> str:
    """Return the fix, unless it is to wait until a file is copied."""
    if missing != [MANIFEST_FILE]:
        return ""
    return f'. Fix: write {MANIFEST_FILE} last, {{"sha256": "…"}} with what sha256sum prints of the model file'


def verify(candidate: Candidate) -> None:
    """Compare the model file with the SHA-256 in its manifest.

    Raises:
        ModelLoadError: the manifest is unreadable, or the file is damaged.
        OSError: a file cannot be read.
    """
    name = candidate.model_file.name
    expected = str(_entry_of(candidate)["sha256"])
    digest = sha256_of(candidate.model_file)
    if digest != expected.lower():
        raise ModelLoadError(f"{name}: sha256 is {digest}; {MANIFEST_FILE} says {expected}. Fix: publish it again")


def is_optimized(candidate: Candidate) -> bool:
    """Return whether the model file was published to be optimised after loading, with equal answers and faster.

    Raises:
        ModelLoadError: the manifest is unreadable.
    """
    optimization = _entry_of(candidate).get("optimization")
    return isinstance(optimization, dict) and cast("dict[str, object]", optimization).get("used") is True


def require_variant(candidate: Candidate, variant: str) -> None:
    """Refuse a version that was published without a variant.

    Raises:
        ModelLoadError: with the variants that it has, and why not this one where the manifest says so.
    """
    manifest = read_json(candidate.folder / MANIFEST_FILE) or {}
    variants = _variants(manifest)
    if variant in variants:
        return
    rejected: dict[str, Any] = manifest.get("rejected_variants", {}).get(variant, {})
    why = f"it {rejected['reason']}" if "reason" in rejected else f"it has {sorted(variants) or 'none'}"
    raise ModelLoadError(f"published without the variant {variant!r}: {why}")


def _variants(manifest: dict[str, Any]) -> dict[str, object]:
    variants = manifest.get("variants", {})
    if not isinstance(variants, dict):
        raise ModelLoadError(f"{MANIFEST_FILE}: variants must be a JSON object, each variant with its sha256")
    return cast("dict[str, object]", variants)


def _entry_of(candidate: Candidate) -> dict[str, object]:
    """Return the manifest's entry for the model file, whether it is the model's own or a variant's."""
    manifest = read_json(candidate.folder / MANIFEST_FILE) or {}
    name = candidate.model_file.name
    listed: dict[str, dict[str, object]] = {}
    for entry in reversed([manifest, *_variants(manifest).values()]):
        # a file that somebody wrote by hand
        fields = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
        if not isinstance(fields.get("sha256"), str):
            raise ModelLoadError(f"{MANIFEST_FILE}: no JSON object with the model's sha256, and that of each variant")
        listed[str(fields.get("model_file", name))] = fields
    if name not in listed:
        raise ModelLoadError(f"{MANIFEST_FILE} is for {sorted(listed)}; {CONFIG_FILE} serves {name!r}")
    return listed[name]


def model_path(folder: Path, spec: ModelSpec) -> Path:
    """Return the model file of a version: that of torch.export, too, unless config.pbtxt names the other."""
    path = folder / spec.model_file
    other = path.with_suffix(TORCH_EXPORT_SUFFIX)
    return other if spec.is_any_format and not path.exists() and other.exists() else path


def _files(folder: Path, spec: ModelSpec) -> list[Path]:
    return [folder / MANIFEST_FILE, model_path(folder, spec)]


def _candidate(folder: Path, version: int, config_text: str, spec: ModelSpec) -> Candidate | None:
    model_file = model_path(folder, spec)
    present = next(filter(Path.exists, [model_file, folder / MODEL_FILE]), folder / EXPORTED_FILE)
    try:
        stats: list[os.stat_result | None] = [path.stat() for path in (folder / MANIFEST_FILE, present)]
    except FileNotFoundError:
        return None
    stats += [_stat(folder.parent / WARMUP_FOLDER / name) for name in warmup_config.files(spec.warmup)]
    labels = [tensor.labels for tensor in spec.outputs]
    signature = (config_text, *labels, *(stat and (stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats))
    return Candidate(
        version=version, folder=folder, model_file=model_file, config_text=config_text, signature=signature
    )


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
