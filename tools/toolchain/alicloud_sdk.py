"""A reduced copy of Alibaba Cloud's Go SDK: the part that the Terraform provider calls.

The SDK has a file for each call of each service, with three variants of it. Compiling the calls that are not used takes
longer than compiling the provider.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from typing import TYPE_CHECKING

from tools.toolchain.catalogue import ALICLOUD_UPSTREAM_MODULE

if TYPE_CHECKING:
    from pathlib import Path

    from tools.toolchain.go_command import Go

SDK_MODULE = "github.com/aliyun/alibaba-cloud-sdk-go"
_IMPORT = re.compile(rf'"{SDK_MODULE}/services/([\w-]+)"')
_SELECTED = re.compile(r"\.([A-Z]\w*)")
_DEFINED = re.compile(r"^(?:func(?: \(\w+ \*?\w+\))?|type|var|const) (\w+)", re.MULTILINE)
_WORD = re.compile(r"\b[A-Z]\w*")


def copy_used_sdk(go: Go, sources: Path) -> None:
    """Put the SDK's core and the calls that the provider makes into `sources`, a copy of the graph's folder.

    Too little would not compile, and too much only takes longer: so names are compared, not types.

    Raises:
        ToolchainError: a module is not available or differs from go.sum.
    """
    target = sources / "alibaba-cloud-sdk"
    upstream = go.module_folder(target / "upstream", SDK_MODULE)
    shutil.copytree(upstream / "sdk", target / "sdk", copy_function=shutil.copyfile)
    provider = go.module_folder(sources, ALICLOUD_UPSTREAM_MODULE)
    for service, names in _selected_names(provider).items():
        folder = target / "services" / service
        folder.mkdir(parents=True)
        for file in used_files(upstream / "services" / service, names):
            shutil.copyfile(file, folder / file.name)


def _selected_names(provider: Path) -> dict[str, set[str]]:
    """Return, by service, the names behind a dot in the files that import it, tests too: `go mod tidy` reads those."""
    names: dict[str, set[str]] = defaultdict(set)
    for file in provider.rglob("*.go"):
        text = file.read_text(encoding="utf-8")
        for service in _IMPORT.findall(text):
            names[service].update(_SELECTED.findall(text))
    return names


def used_files(service: Path, names: set[str]) -> set[Path]:
    """Return the files of a service's package that define these names, and what those files use in turn."""
    texts = {file: file.read_text(encoding="utf-8") for file in service.glob("*.go")}
    home = {name: file for file, text in texts.items() for name in _DEFINED.findall(text)}
    used: set[Path] = set()
    pending = {home[name] for name in names if name in home}
    while pending:
        used |= pending
        words = {word for file in pending for word in _WORD.findall(texts[file])}
        pending = {home[word] for word in words if word in home} - used
    return used
