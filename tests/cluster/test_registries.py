"""Images pulled by the real skopeo from registries that a server on loopback plays, and their faults. No cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.local_cluster import quiet_progress
from tools.images import registry
from tools.images.layers import write_binary
from tools.images.oci import LAYER, Layout, RunConfig, architecture
from tools.images.store import images_folder, open_layout
from tools.paths import paths
from tools.toolchain.system_packages import SKOPEO, ensure_system_packages

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.vendors import PlayedVendors
    from tools.images.oci import Descriptor

VOLCANO = "docker.io/volcanosh/vc-scheduler:v1"
PAUSE = "registry.k8s.io/pause:3"
OPERATOR = "quay.io/prometheus-operator/prometheus-operator:v0"


@pytest.fixture(scope="module", autouse=True)
def skopeo() -> None:
    ensure_system_packages(packages=[SKOPEO])


@pytest.fixture(autouse=True)
def machine_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put cache and state of every test into its own folder."""
    monkeypatch.setenv("ATHANOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path / "home"))


def an_image(layout: Layout, content: bytes = b"\x7fELF") -> Descriptor:
    """Return an image of one file."""
    binary = layout.folder / "incoming-binary"
    binary.write_bytes(content)
    layer = layout.add_stream(lambda sink: write_binary(sink, binary, path="/it"), LAYER)
    return layout.add_image([layer], RunConfig(entrypoint=("/it",)))


def offer(vendors: PlayedVendors, reference: str, content: bytes = b"\x7fELF") -> tuple[str, Descriptor]:
    """Have a registry serve an image of these contents; return the index's digest and the image."""
    image = an_image(vendors.images, content)
    return vendors.offer(reference, image), image


def pull(tmp_path: Path, *references: str, **sources: str) -> dict[str, Descriptor | None]:
    """Pull images and return what the cache then holds of each."""
    source_of = {reference: sources.get("source", reference) for reference in references}
    registry.pull(source_of, quiet_progress(tmp_path))
    with open_layout() as layout:
        return {reference: registry.find(layout, reference) for reference in references}


def log() -> str:
    return (paths().logs / "images.log").read_text()


def layer_of(vendors: PlayedVendors, image: Descriptor) -> Descriptor:
    return vendors.images.members(image)[2]


def test_images_of_several_registries_are_in_the_cache_as_they_were_published(
    vendors: PlayedVendors, tmp_path: Path
) -> None:
    published = {
        reference: offer(vendors, reference, reference.encode())[1] for reference in (VOLCANO, PAUSE, OPERATOR)
    }

    assert pull(tmp_path, VOLCANO, PAUSE, OPERATOR) == published
    with open_layout() as layout:
        assert all(len(layout.members(image)) == 3 for image in published.values())


def test_nothing_stays_outside_the_cache(vendors: PlayedVendors, tmp_path: Path) -> None:
    offer(vendors, PAUSE)
    pull(tmp_path, PAUSE)

    assert {entry.name for entry in images_folder().iterdir()} == {"layout", "lock", "pull.lock"}
    assert not [entry for entry in (images_folder() / "layout").iterdir() if entry.name.startswith("incoming-")]


def test_the_image_of_this_machines_architecture_is_taken(vendors: PlayedVendors, tmp_path: Path) -> None:
    _, ours = offer(vendors, PAUSE, b"ours")
    theirs = an_image(vendors.images, b"theirs")
    index = vendors.images.references()[PAUSE]
    content = json.loads(vendors.images.path(index.digest).read_bytes())
    other = {"os": "linux", "architecture": {"amd64": "arm64", "arm64": "amd64"}[architecture()]}
    content["manifests"].insert(0, theirs.as_json() | {"platform": other})
    vendors.images.tag(PAUSE, vendors.images.add(json.dumps(content).encode(), index.media_type))

    assert pull(tmp_path, PAUSE) == {PAUSE: ours}


def test_an_image_for_another_machine_alone_is_refused(vendors: PlayedVendors, tmp_path: Path) -> None:
    _, image = offer(vendors, PAUSE)
    manifest = json.loads(vendors.images.path(image.digest).read_bytes())
    config = json.loads(vendors.images.path(manifest["config"]["digest"]).read_bytes()) | {"architecture": "s390x"}
    changed = vendors.images.add(json.dumps(config).encode(), manifest["config"]["mediaType"])
    # As an image without an index, which nothing chooses by architecture.
    vendors.images.tag(PAUSE, vendors.images.add_manifest(changed, [layer_of(vendors, image)]))

    assert pull(tmp_path, PAUSE) == {PAUSE: None}
    assert "it is for linux/s390x" in log()


def test_a_pinned_digest_is_what_is_pulled_whatever_the_tag_names(
    vendors: PlayedVendors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned, image = offer(vendors, PAUSE, b"known")
    offer(vendors, PAUSE, b"moved")
    monkeypatch.setattr(registry, "DIGESTS", {PAUSE: pinned})

    assert pull(tmp_path, PAUSE) == {PAUSE: image}
    assert f"registry.k8s.io/v2/pause/manifests/{pinned}" in vendors.asked


def test_what_was_pulled_before_it_was_pinned_to_another_digest_is_not_taken(
    vendors: PlayedVendors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(vendors, PAUSE, b"first")
    assert pull(tmp_path, PAUSE)[PAUSE]
    pinned, image = offer(vendors, PAUSE, b"second")
    monkeypatch.setattr(registry, "DIGESTS", {PAUSE: pinned})

    with open_layout() as layout:
        assert registry.find(layout, PAUSE) is None
    assert pull(tmp_path, PAUSE) == {PAUSE: image}


@pytest.mark.parametrize("part", ["index", "manifest", "layer"])
def test_what_differs_from_its_digest_is_refused(
    vendors: PlayedVendors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    pinned, image = offer(vendors, PAUSE, b"good" * 100)
    monkeypatch.setattr(registry, "DIGESTS", {PAUSE: pinned})
    changed = {"index": pinned, "manifest": image.digest, "layer": layer_of(vendors, image).digest}[part]
    blob = vendors.images.path(changed)
    # Still JSON, still an image: only its bytes are others.
    blob.write_bytes(blob.read_bytes().replace(b"good", b"evil") if part == "layer" else blob.read_bytes() + b" ")

    assert pull(tmp_path, PAUSE) == {PAUSE: None}
    assert PAUSE in log()


def test_a_part_that_skopeo_let_through_is_refused(
    vendors: PlayedVendors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever pulls: nothing enters the layout under a digest that it does not have."""
    _, image = offer(vendors, PAUSE)
    whole = registry._run_while_growing

    def tampered(command: list[str], folder: Path) -> None:
        whole(command, folder)
        (folder / layer_of(vendors, image).digest.removeprefix("sha256:")).write_bytes(b"evil")

    monkeypatch.setattr(registry, "_run_while_growing", tampered)

    assert pull(tmp_path, PAUSE) == {PAUSE: None}
    assert "the manifest names" in log()


def test_an_image_that_a_registry_lacks_leaves_the_others(vendors: PlayedVendors, tmp_path: Path) -> None:
    _, image = offer(vendors, OPERATOR)

    assert pull(tmp_path, "quay.io/no/such:1", OPERATOR) == {"quay.io/no/such:1": None, OPERATOR: image}
    assert "quay.io/no/such:1" in log()


def test_a_registry_that_hangs_or_cannot_be_reached_is_reported_in_the_log(
    vendors: PlayedVendors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.toolchain.vendor.PROBE_SECONDS", 0.5)
    vendors.silent.add("quay.io")
    _, image = offer(vendors, PAUSE)

    assert pull(tmp_path, OPERATOR, PAUSE, "nowhere.example/it:1") == {
        OPERATOR: None,
        PAUSE: image,
        "nowhere.example/it:1": None,
    }
    assert "no image is pulled from quay.io: " in log()
    assert "no image is pulled from nowhere.example: " in log()


def test_where_no_registry_answers_nothing_is_installed(
    vendors: PlayedVendors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del vendors
    monkeypatch.setattr(registry, "ensure_system_packages", lambda *_: pytest.fail("packages are installed"))

    assert pull(tmp_path, "nowhere.example/it:1") == {"nowhere.example/it:1": None}


def test_a_registry_that_stops_half_way_is_given_up(
    vendors: PlayedVendors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_STALL_SECONDS", 1.0)
    monkeypatch.setattr(registry, "_AT_ONCE", 1)
    _, image = offer(vendors, PAUSE, b"x" * 100_000)
    _, other = offer(vendors, VOLCANO)
    path = "/v2/pause/blobs/" + layer_of(vendors, image).digest
    vendors.half.add(f"registry.k8s.io{path}")
    never_asked = "registry.k8s.io/coredns/coredns:v1"

    assert pull(tmp_path, PAUSE, never_asked, VOLCANO) == {PAUSE: None, never_asked: None, VOLCANO: other}
    assert f"{PAUSE}: received nothing for 1 s" in log()
    assert f"{never_asked}: registry.k8s.io stopped sending" in log()


def test_a_mirror_is_asked_in_the_place_of_the_registry(vendors: PlayedVendors, tmp_path: Path) -> None:
    _, image = offer(vendors, "mirror.example/team/pause:3")

    assert pull(tmp_path, PAUSE, source="mirror.example/team/pause:3") == {PAUSE: image}
    assert {address.partition("/")[0] for address in vendors.asked} == {"mirror.example"}
