"""How large blobs of an image get into a node: as links to the cache's files."""

import os
from pathlib import Path

import pytest

from tools.images.containerd import LINKED_FROM_BYTES, NODE_BLOBS, NodeImages
from tools.images.oci import LAYER, Descriptor, Layout, RunConfig

REFERENCE = "localhost/athanor/large:1"
CTR = """#!/bin/sh
shift 4
case "$1 $2" in
"images ls")
    echo REF TYPE DIGEST
    if [ -e "$FOLDER/imported" ]; then cat "$FOLDER/image"; fi ;;
"content ingest")
    shift 2
    stat --format=%i --dereference /proc/self/fd/0 > "$FOLDER/ingested"
    echo "$@" >> "$FOLDER/ingested" ;;
"images import") tar --list > "$FOLDER/imported" ;;
esac
"""
"""Stands for containerd's client: writes down what it is asked for and given."""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "layout")


@pytest.fixture
def image(tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Descriptor:
    """An image with one large layer, and a `ctr` that takes it."""
    large = layout.add(bytes(LINKED_FROM_BYTES), LAYER)
    image = layout.add_image([layout.add(b"small", LAYER), large], RunConfig())
    (tmp_path / "image").write_text(f"{REFERENCE} type {image.digest}\n", encoding="utf-8")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ctr").write_text(CTR, encoding="utf-8")
    (programs / "ctr").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    return image


def sent(folder: Path) -> set[str]:
    """Return the digests of the blobs in the archive that was sent."""
    names = (folder / "imported").read_text(encoding="utf-8").split()
    return {name.removeprefix("blobs/") for name in names if name.startswith("blobs/")}


def test_a_large_layer_is_linked_and_not_sent(tmp_path: Path, layout: Layout, image: Descriptor) -> None:
    (tmp_path / NODE_BLOBS).mkdir(parents=True)
    assert NodeImages(tmp_path / "socket").load(layout, REFERENCE, image)
    *others, large = layout.members(image)
    file = layout.path(large.digest)
    assert file.samefile(tmp_path / NODE_BLOBS / file.name)
    inode, words = (tmp_path / "ingested").read_text(encoding="utf-8").splitlines()
    assert int(inode) == file.stat().st_ino
    assert words == (f"--expected-digest {large.digest} --expected-size {LINKED_FROM_BYTES} athanor-{large.digest}")
    assert sent(tmp_path) == {each.digest.replace(":", "/") for each in others}


def test_a_containerd_without_the_folder_of_a_node_is_sent_everything(
    tmp_path: Path, layout: Layout, image: Descriptor
) -> None:
    assert NodeImages(tmp_path / "socket").load(layout, REFERENCE, image)
    assert sent(tmp_path) == {each.digest.replace(":", "/") for each in layout.members(image)}
    assert not (tmp_path / "ingested").exists()
