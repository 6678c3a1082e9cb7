"""Packages of images and environments: pinned Python packages, and the Debian packages of the base image.

Format of the pins: pip's requirements file in hash-checking mode, as `make lock` writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from infra.images import TRAINER_FRAMEWORKS, TRAINER_REPOSITORIES, TrainerImage, trainer_content_tag
from infra.settings.images import TrainerVariant
from tools.images.python_packages import requirements_file
from tools.paths import REPOSITORY
from tools.sbom.package import Bill, Package, Subject, content_version
from trainer.image import debian
from trainer.image.variant import requirements_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

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
