"""Layers of single binaries: hashed once, and reused as long as binary and packing are the same."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from tools.images import layers
from tools.images.oci import LAYER, Descriptor, Layout, describe
from tools.paths import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

_RECORD = "binary-layers.json"


def binary_layer(layout: Layout, binary: Path, *, path: str, capability: int | None) -> Descriptor:
    """Ensure that the layout has the layer with `binary` at `path`; call under its lock.

    A binary counts as unchanged while its file is: the toolchain replaces files, it never writes into one.
    """
    file = layout.folder / _RECORD
    key = _key(binary, path, capability)
    known = _read(file)
    if key in known and layout.has(known[key]):
        return known[key]
    layer = layout.add_stream(lambda sink: layers.write_binary(sink, binary, path=path, capability=capability), LAYER)
    kept = {name: each for name, each in known.items() if layout.has(each)}
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps({name: each.as_json() for name, each in {**kept, key: layer}.items()}))
    temporary.replace(file)
    return layer


def _key(binary: Path, path: str, capability: int | None) -> str:
    status = binary.stat()
    packing = (REPOSITORY / "tools" / "images" / "layers.py").read_bytes()
    same = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, path, capability, packing)
    return hashlib.sha256(repr(same).encode()).hexdigest()


def _read(file: Path) -> dict[str, Descriptor]:
    try:
        entries: dict[str, dict[str, Any]] = json.loads(file.read_text())
        return {key: describe(entry) for key, entry in entries.items()}
    except (OSError, ValueError, KeyError, TypeError):  # there is none yet, or none that this version wrote
        return {}
