"""The trainer's base image, built on this machine: a small Debian with the Python packages that the trainer pins.

It has two layers, so that a changed pin does not rebuild the Debian, and for training a third one with the packages
that services do not need. The Dockerfile finds every package already installed.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools.images import python_packages
from tools.images.layers import write_tree
from tools.images.namespaces import DIES_WITH_ATHANOR
from tools.images.oci import LAYER, RunConfig
from tools.paths import REPOSITORY, paths
from tools.process import run
from trainer.image import debian
from trainer.image.variant import TRAINING_REQUIREMENTS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from infra.images import TrainerFramework
    from tools.images.oci import Descriptor, Layout
    from tools.progress import Progress

SOURCES = ("etc/apt/sources.list", "etc/apt/sources.list.d/debian.sources")
CERTIFICATES, CERTIFICATE_BUNDLE = "usr/share/ca-certificates", "etc/ssl/certs/ca-certificates.crt"
MERGED_USR_HOOKS = Path("/usr/share/mmdebstrap/hooks/merged-usr")


def bootstrap(root: Path) -> None:
    """Unpack the packages of trainer.image.debian and what they depend on into the empty folder `root`.

    They are unpacked, not configured: no package manager will ever run in it, and the few things that their scripts
    would have done are done here. That takes a third of the time and of the space.

    Raises:
        CommandError: a package is not available.
    """
    command = [
        *DIES_WITH_ATHANOR,
        "mmdebstrap",
        "--mode=root",
        "--variant=extract",
        "--format=directory",
        f"--hook-dir={MERGED_USR_HOOKS}",
    ]
    log = paths().logs / "images.log"
    env = {"SOURCE_DATE_EPOCH": str(debian.TIMESTAMP_SECONDS)}
    run([*command, f"--include={','.join(debian.PACKAGES)}", debian.SUITE, root, *_package_sources()], env=env, log=log)
    for kind in ("passwd", "group"):
        shutil.copyfile(root / f"usr/share/base-passwd/{kind}.master", root / "etc" / kind)
    bundle_certificates(root)
    for name, target in debian.LINKS.items():
        (root / name).symlink_to(target)
    for name in debian.LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    (root / debian.EXTERNALLY_MANAGED).unlink(missing_ok=True)
    # Python's process pools, which compile below, keep their semaphores there; pods have a memory file system on it.
    (root / "dev/shm").mkdir(parents=True, exist_ok=True)
    run(["chroot", root, "ldconfig"], log=log)
    byte_compile(root, f"usr/lib/python{debian.PYTHON}")


def bundle_certificates(root: Path) -> None:
    """Join the certificates of Debian's authorities into the file where OpenSSL looks for all of them."""
    authorities = sorted((root / CERTIFICATES).glob("*/*.crt"))
    bundle = root / CERTIFICATE_BUNDLE
    bundle.write_bytes(b"".join(authority.read_bytes() for authority in authorities))


def byte_compile(root: Path, folder: str) -> None:
    """Compile all modules in `root`/`folder` by the Python in `root`.

    The root file system of a pod is read-only: what is not compiled now is compiled again at every start (measured:
    `import torch` in 5.2 s instead of 1.6 s). The files do not name a time, as layers change the times of sources.
    """
    # A module that does not compile is for a newer Python than this one, and is not imported either: no failure.
    arguments = "quiet=2, workers=0, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH"
    program = f"import compileall, py_compile; compileall.compile_dir({f'/{folder}'!r}, {arguments})"
    run(["chroot", root, f"python{debian.PYTHON}", "-c", program], log=paths().logs / "images.log")


def _package_sources() -> Sequence[Path]:
    """Return this machine's own sources if they are for the same suite, so that a configured mirror is used."""
    if platform.freedesktop_os_release().get("VERSION_CODENAME") != debian.SUITE:
        return ()
    return [path for path in (Path("/", source) for source in SOURCES) if path.is_file() and path.stat().st_size]


BASE_REPOSITORIES: Mapping[TrainerFramework, str] = {
    "pytorch": "localhost/athanor/base",
    "tensorflow": "localhost/athanor/base-tensorflow",
}
DEBIAN_REPOSITORY = "localhost/athanor/debian"

_TOOLS = Path(__file__).parent
_IMAGE_SOURCES = REPOSITORY / "trainer" / "image"
_DEBIAN_RECIPE = (
    Path(__file__),
    _TOOLS / "layers.py",
    _TOOLS / "oci.py",
    _IMAGE_SOURCES / "debian.py",
)
_PACKAGES_RECIPE = (
    *_DEBIAN_RECIPE,
    _TOOLS / "python_packages.py",
    _IMAGE_SOURCES / "elf.py",
    _IMAGE_SOURCES / "variant.py",
)


def ensure_base_image(
    layout: Layout, framework: TrainerFramework, variant: str, report: Progress
) -> tuple[str, Descriptor]:
    """Return name and manifest of the base image of `variant`, building it first if the cache has none of this content.

    Raises:
        tools.process.CommandError: the Debian or a package is not available.
        tools.images.errors.ImageError: a program that builds them is missing.
    """
    recipe = (*_PACKAGES_RECIPE, python_packages.requirements_file(framework))
    name = f"{BASE_REPOSITORIES[framework]}:{variant}-{_content_key(recipe)}"
    manifest = layout.find(name)
    if manifest is None:
        with _root_folder(layout.folder.parent) as root:
            system = _debian_layer(layout, root, report)
            report.detail(f"{framework} image: Python packages ({variant})")
            python_packages.install(root, framework, variant)
            byte_compile(root, python_packages.SITE_PACKAGES)
            packages = _tree_layer(layout, root, "usr/local")
        manifest = layout.add_image([system, packages], RunConfig())
        layout.tag(name, manifest)
    return name, manifest


def ensure_training_base_image(
    layout: Layout, framework: TrainerFramework, variant: str, report: Progress
) -> tuple[str, Descriptor]:
    """Return name and manifest of the base image for training: that of the framework with training's own packages.

    Raises:
        tools.process.CommandError, tools.images.errors.ImageError: see `ensure_base_image`.
    """
    base, base_manifest = ensure_base_image(layout, framework, variant, report)
    requirements = REPOSITORY / "trainer" / TRAINING_REQUIREMENTS[framework]
    name = f"{base}-{_content_key([requirements])}"
    manifest = layout.find(name)
    if manifest is None:
        _, _, *layers = layout.members(base_manifest)
        report.detail(f"{framework} image: packages for training ({variant})")
        with _root_folder(layout.folder.parent) as root:
            _debian_layer(layout, root, report)
            python_packages.install_pins(root, requirements, variant)
            byte_compile(root, python_packages.SITE_PACKAGES)
            own = _tree_layer(layout, root, "usr/local")
        manifest = layout.add_image([*layers, own], RunConfig())
        layout.tag(name, manifest)
    return name, manifest


def ensure_debian_layer(layout: Layout, report: Progress) -> Descriptor:
    """Return the layer of the Debian that the trainer's images begin with, which nodes have once for all of them.

    Raises:
        tools.process.CommandError, tools.images.errors.ImageError: see `ensure_base_image`.
    """
    image = layout.find(f"{DEBIAN_REPOSITORY}:{_content_key(_DEBIAN_RECIPE)}")
    if image is not None:
        return layout.members(image)[-1]
    with _root_folder(layout.folder.parent) as root:
        return _debian_layer(layout, root, report)


def _debian_layer(layout: Layout, root: Path, report: Progress) -> Descriptor:
    """Fill `root` with the Debian and return its layer."""
    name = f"{DEBIAN_REPOSITORY}:{_content_key(_DEBIAN_RECIPE)}"
    image = layout.find(name)
    if image is not None:
        _, _, layer = layout.members(image)
        run(["tar", "--extract", "--file", layout.path(layer.digest), "--directory", root])
        return layer
    report.detail(f"trainer images: Debian {debian.SUITE} as its base")
    bootstrap(root)
    layer = _tree_layer(layout, root, ".")
    layout.tag(name, layout.add_image([layer], RunConfig()))
    return layer


def _tree_layer(layout: Layout, root: Path, below: str) -> Descriptor:
    return layout.add_stream(
        lambda sink: write_tree(sink, root, below=below, mtime_seconds=debian.TIMESTAMP_SECONDS), LAYER
    )


def _content_key(files: Iterable[Path]) -> str:
    """Hash everything that an image is built from and by: 16 hex digits."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _root_folder(folder: Path) -> Generator[Path]:
    """Give an empty folder for a root file system, and leave nothing of it or of those that killed runs left."""
    for leftover in folder.glob("root-*"):
        shutil.rmtree(leftover)
    root = Path(tempfile.mkdtemp(dir=folder, prefix="root-"))
    root.chmod(0o755)
    try:
        yield root
    finally:
        shutil.rmtree(root)
