"""What images say of themselves changes neither their id nor with each commit."""

import json

from tools.images.oci import LAYER, Layout, RunConfig
from tools.images.trainer_image import annotated, provenance


def image(layout: Layout, content: bytes):
    return layout.add_image([layout.add(content, LAYER)], RunConfig())


def test_an_image_names_its_sources_its_base_and_its_pins(tmp_path):
    base = image(Layout(tmp_path), b"base")
    reference = "localhost:5000/athanor/trainer:0123456789abcdef"
    assert provenance(reference, "localhost/athanor/base:cpu-1", base, "ab" * 32) == {
        "org.opencontainers.image.title": "trainer",
        "org.opencontainers.image.version": "0123456789abcdef",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.base.name": "localhost/athanor/base:cpu-1",
        "org.opencontainers.image.base.digest": base.digest,
        "dev.athanor.image.requirements": f"sha256:{'ab' * 32}",
    }


def test_only_the_manifest_changes(tmp_path):
    layout = Layout(tmp_path)
    plain = image(layout, b"code")
    labelled = annotated(layout, plain, {"a": "b"})
    assert labelled.media_type == plain.media_type
    assert layout.members(labelled)[1:] == layout.members(plain)[1:]
    assert json.loads(layout.path(labelled.digest).read_bytes())["annotations"] == {"a": "b"}


def test_the_same_image_with_the_same_annotations_is_the_same_bytes(tmp_path):
    here, there = Layout(tmp_path / "here"), Layout(tmp_path / "there")
    manifests = [annotated(layout, image(layout, b"code"), {"b": "2", "a": "1"}) for layout in (here, there)]
    assert manifests[0] == manifests[1] == annotated(here, manifests[0], {"a": "1"})
