"""What the model repository holds: complete versions on disk and the configuration, without loading anything.

Layout: Triton Inference Server, "Model Repository"; `trainer.export` writes it, each version by one rename.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.export import CONFIG_FILE, MANIFEST_FILE
from trainer.files import read_json, sha256_of
from trainer.serve.errors import ModelLoadError

if TYPE_CHECKING:
    from pathlib import Path

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
    signature: Signature
    """Of its files and of config.pbtxt: a version that was broken is tried again when it changes."""


def is_version_name(name: str) -> bool:
    """Tell a version's name from others, as Triton does: a decimal number, not 0, without leading zeros."""
    return name.isascii() and name.isdecimal() and not name.startswith("0") and len(name) <= _MAX_VERSION_DIGITS


def read_config_text(folder: Path) -> str:
    """Return the text of config.pbtxt.

    Raises:
        FileNotFoundError: there is no such model yet.
        ModelLoadError: the file is no configuration.
    """
    path = folder / CONFIG_FILE
    with path.open("rb") as file:
        content = file.read(_MAX_CONFIG_BYTES + 1)
    if len(content) > _MAX_CONFIG_BYTES:
        raise ModelLoadError(f"{CONFIG_FILE}: larger than {_MAX_CONFIG_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ModelLoadError(f"{CONFIG_FILE}: not UTF-8: {error}") from error


def find_versions(folder: Path, config_text: str, spec: ModelSpec) -> list[Candidate]:
    """Return the complete versions that the version policy allows, the newest first.

    A folder without manifest or model file is not a version yet: somebody is copying it.

    Raises:
        OSError: the repository cannot be read.
    """
    numbers = (int(path.name) for path in folder.iterdir() if is_version_name(path.name) and path.is_dir())
    wanted = sorted((number for number in numbers if spec.version_policy.allows(number)), reverse=True)
    found = (_candidate(folder / str(number), number, config_text, spec) for number in wanted)
    return [candidate for candidate in found if candidate is not None]


def verify(candidate: Candidate) -> None:
    """Compare the model file with the SHA-256 in its manifest.

    Raises:
        ModelLoadError: the manifest is unreadable, or the file is damaged.
        OSError: a file cannot be read.
    """
    manifest = read_json(candidate.folder / MANIFEST_FILE)
    expected = manifest.get("sha256") if manifest else None
    if not isinstance(expected, str):
        raise ModelLoadError(f"{MANIFEST_FILE}: no JSON object with the model's sha256")
    name = candidate.model_file.name
    listed = manifest.get("model_file", name) if manifest else name
    if listed != name:
        raise ModelLoadError(f"{MANIFEST_FILE} is for {listed!r}; {CONFIG_FILE} serves {name!r}")
    found = sha256_of(candidate.model_file)
    if found != expected.lower():
        raise ModelLoadError(f"{name}: sha256 is {found}; {MANIFEST_FILE} says {expected}. Fix: publish it again")


def _candidate(folder: Path, version: int, config_text: str, spec: ModelSpec) -> Candidate | None:
    model_file = folder / spec.model_file
    try:
        stats = [path.stat() for path in (folder / MANIFEST_FILE, model_file)]
    except FileNotFoundError:
        return None
    files = tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats)
    signature = (config_text, *files)
    return Candidate(version=version, folder=folder, model_file=model_file, signature=signature)
