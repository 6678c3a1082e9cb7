"""Differences between two sets of manifests, as lines: `- path: value` of the first, `+ path: value` of the second.

An entry of a list is named, not numbered, wherever its entries have names (`env[NCCL_DEBUG]`): one more entry is one
difference. The physical name of a job has a hash of everything in it; where else it occurs it is written `<job>`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NAMES = ("name", "mountPath", "key", "containerPort", "port", "kind")
"""What tells the entries of a list apart, in the order in which it is tried."""
_HASHED = re.compile(r"[a-z0-9-]+-[0-9a-f]{8}")
Line = tuple[str, str]
"""File, and path with value."""


def differences(base: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the differences of manifests by file, under the name of each file; empty if there are none."""
    before, after = _lines(base), _lines(other)
    changes: list[tuple[str, str]] = []
    for kind, first, end, first_after, end_after in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            changes += [(file, f"- {line}") for file, line in before[first:end]]
            changes += [(file, f"+ {line}") for file, line in after[first_after:end_after]]
    by_file: dict[str, list[str]] = defaultdict(list)
    for file, change in changes:
        by_file[file].append(change)
    return "".join(f"{line}\n" for file, lines in sorted(by_file.items()) for line in (file, *lines))


def _lines(manifests: Mapping[str, Any]) -> list[Line]:
    names = [each["metadata"]["name"] for each in manifests.values() if each["kind"] == "Job"]
    hashed = [name for name in names if _HASHED.fullmatch(name)]
    lines: list[Line] = []
    for file, manifest in sorted(manifests.items()):
        for path, value in _flat(manifest, ""):
            text = json.dumps(value, ensure_ascii=False)
            for name in hashed if path != "metadata.name" else ():
                text = text.replace(name, "<job>")
            lines.append((file, f"{path}: {text}"))
    return lines


def _flat(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict) and node:
        for key, value in sorted(node.items()):
            yield from _flat(value, f"{path}.{key}" if path else key)
    elif isinstance(node, list) and node:
        named = next((name for name in NAMES if _tells_apart(node, name)), None)
        for place, value in enumerate(node):
            if named is None:
                yield from _flat(value, f"{path}[{place if isinstance(value, dict) else ''}]")
            else:
                rest = {key: item for key, item in value.items() if key != named}
                yield from _flat(rest, f"{path}[{value[named]}]")
    else:
        yield path, node


def _tells_apart(entries: list[Any], name: str) -> bool:
    if not all(isinstance(entry, dict) and name in entry for entry in entries):
        return False
    return len({str(entry[name]) for entry in entries}) == len(entries)
