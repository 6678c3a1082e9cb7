"""Images of single binaries, as containerd gets them."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from infra import images
from infra.images import COREDNS_IMAGE, PAUSE_IMAGE
from infra.registry import Mirror
from tests.fixtures.local_cluster import quiet_progress
from tests.tables import each_row
from tools.images import containerd, ensure_platform_images, fetch_platform_images, layers, platform_images, registry
from tools.images.oci import Layout, RunConfig
from tools.images.platform_images import (
    ADAPTER,
    GATEWAY,
    MONITORING_IMAGES,
    PLATFORM_IMAGES,
    PlatformImage,
    binary_image,
)
from tools.images.store import open_layout
from tools.toolchain.catalogue import STACKS, tool_of

IMAGE = PlatformImage(reference="localhost/tool:1")


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "layout")


@pytest.fixture
def binary(tmp_path):
    (tmp_path / "built").write_bytes(b"\x7fELF")
    return tmp_path / "built"


@pytest.mark.parametrize(
    ("more", "entrypoint", "user"),
    [
        ({}, ["/tool"], None),
        (
            {"user": "65534:65534", "path": "/bin/other", "arguments": ("--port=1",)},
            ["/bin/other", "--port=1"],
            "65534:65534",
        ),
    ],
    ids=["in the root under its own name", "where its upstream has it"],
)
def test_a_binary_is_what_containers_run_by_default(layout, binary, more, entrypoint, user):
    manifest = binary_image(layout, binary, "tool", replace(IMAGE, **more))
    settings = json.loads(layout.path(layout.members(manifest)[1].digest).read_bytes())["config"]
    assert (settings["Entrypoint"], settings.get("User")) == (entrypoint, user)


def test_the_local_node_has_every_image_of_monitoring_but_grafanas():
    """Grafana's cannot be built from Go modules: its pages are not in them."""
    made = {PLATFORM_IMAGES[name].reference for name in (*MONITORING_IMAGES, ADAPTER)}
    assert made == {*images.MONITORING_IMAGES} - {images.GRAFANA_IMAGE}


@each_row("name", sorted(PLATFORM_IMAGES))
def test_the_tools_of_the_local_stack_hold_every_binary(name):
    """But two, which are built only where a stack asks for them: `make up` would take longer for everyone."""
    assert (tool_of(name).name in STACKS["local"]) is (name not in {ADAPTER, GATEWAY})


@pytest.fixture
def written(monkeypatch) -> list[Path]:
    """Return which binaries have been read into a layer."""
    write, written = layers.write_binary, []

    def recorded(sink, binary, **where):
        written.append(binary)
        write(sink, binary, **where)

    monkeypatch.setattr(layers, "write_binary", recorded)
    return written


def test_an_unchanged_binary_is_read_once(layout, binary, written):
    first = binary_image(layout, binary, "tool", IMAGE)
    assert binary_image(Layout(layout.folder), binary, "tool", IMAGE) == first
    assert Layout(layout.folder).find(IMAGE.reference) == first
    assert written == [binary]


def test_another_binary_path_or_capability_is_another_layer(tmp_path, layout, binary, written):
    rebuilt = tmp_path / "rebuilt"
    rebuilt.write_bytes(b"\x7felf")
    images = [IMAGE, replace(IMAGE, path="/bin/tool"), replace(IMAGE, capability=10)]
    made = {binary_image(layout, binary, "tool", image).digest for image in images}
    status = binary.stat()
    rebuilt.replace(binary)
    os.utime(binary, ns=(status.st_atime_ns, status.st_mtime_ns))
    made.add(binary_image(layout, binary, "tool", images[0]).digest)
    assert len(made) == len(written) == 4


@pytest.mark.parametrize("loss", ["layer", "record"])
def test_what_has_left_the_cache_is_built_again(layout, binary, written, loss):
    manifest = binary_image(layout, binary, "tool", IMAGE)
    if loss == "layer":
        *_, layer = layout.members(manifest)
        layout.path(layer.digest).unlink()
    else:
        (layout.folder / "binary-layers.json").write_text("[half of")
    assert binary_image(layout, binary, "tool", IMAGE) == manifest
    assert len(layout.members(manifest)) == 3
    assert len(written) == 2


def test_a_node_that_has_all_images_is_asked_once(tmp_path, layout, binary, monkeypatch):
    asked = []
    made = {name: binary_image(layout, binary, name, PlatformImage(reference=f"localhost/{name}:1")) for name in "ab"}

    def answer(command):
        asked.append(command)
        return "REF TYPE DIGEST\n" + "".join(f"localhost/{name}:1 t {made[name].digest}\n" for name in made)

    monkeypatch.setattr(containerd, "run", answer)
    node = containerd.NodeImages(tmp_path / "socket")
    assert [node.load(layout, f"localhost/{name}:1", made[name]) for name in made] == [False, False]
    assert [command[-2:] for command in asked] == [["images", "ls"]]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Stand in for the machine: programs that it has, images that registries give, and what they were asked for."""

    class Machine:
        def __init__(self):
            self.present, self.offered = set(), set()
            self.asked, self.built, self.loaded = [], [], {}

        def fetch(self, *names, **options):
            return fetch_platform_images(names, quiet_progress(tmp_path), **options)

        def load(self, *names, **options):
            return ensure_platform_images(tmp_path / "socket", names, quiet_progress(tmp_path), **options)

    here = Machine()

    def pull(sources, _):
        here.asked.append(dict(sources))
        with open_layout() as layout:
            for reference in here.offered & sources.keys():
                image = layout.add_image([], RunConfig(entrypoint=("upstream's", reference)))
                layout.tag(f"{reference}@{image.digest}", image)

    def ensure(names, _):
        here.built += sorted(names)
        for name in names:
            (tmp_path / name).write_bytes(b"\x7fELF")
        return {name: tmp_path / name for name in names}

    def load(_self, layout, reference, manifest):
        config = json.loads(layout.path(layout.members(manifest)[1].digest).read_bytes())["config"]
        here.loaded[reference] = config["Entrypoint"][0]
        return True

    monkeypatch.setenv("ATHANOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ATHANOR_TOOL_SOURCES", raising=False)
    monkeypatch.setattr(registry, "pull", pull)
    monkeypatch.setattr(registry, "DIGESTS", {})  # which are those of the real images
    monkeypatch.setattr(platform_images, "ensure", ensure)
    monkeypatch.setattr(platform_images, "is_present", lambda name: name in here.present)
    monkeypatch.setattr(platform_images.NodeImages, "load", load)
    return here


def test_what_a_registry_gives_is_not_built(machine):
    machine.offered |= {PAUSE_IMAGE}
    assert machine.load("pause", "coredns") == {"pause": PAUSE_IMAGE, "coredns": COREDNS_IMAGE}
    assert machine.loaded == {PAUSE_IMAGE: "upstream's", COREDNS_IMAGE: "/coredns"}
    assert machine.built == ["coredns"]


def test_what_is_here_is_not_asked_for(machine):
    machine.present.add("coredns")
    machine.offered |= {PAUSE_IMAGE, COREDNS_IMAGE}
    assert machine.fetch("pause", "coredns") == {"pause"}
    assert machine.fetch("pause", "coredns") == {"pause"}
    assert machine.asked == [{PAUSE_IMAGE: PAUSE_IMAGE}]


def test_where_vendors_are_not_wanted_even_a_pulled_image_is_not_taken(machine, monkeypatch):
    machine.offered.add(PAUSE_IMAGE)
    machine.load("pause")
    monkeypatch.setenv("ATHANOR_TOOL_SOURCES", "path,build")
    assert machine.fetch("pause") == set()
    machine.load("pause")
    assert machine.loaded == {PAUSE_IMAGE: "/pause"}
    assert len(machine.asked) == 1


def test_a_mirror_gives_the_images_and_the_node_has_them_by_its_name(machine):
    place = Mirror(registry="mirror.example/team", flatten=True)
    machine.offered.add(COREDNS_IMAGE)
    assert machine.load("pause", "coredns", place=place) == {
        "pause": "mirror.example/team/pause:3.10",
        "coredns": "mirror.example/team/coredns-coredns:v1.14.1",
    }
    assert machine.asked == [
        {PAUSE_IMAGE: "mirror.example/team/pause:3.10", COREDNS_IMAGE: "mirror.example/team/coredns-coredns:v1.14.1"}
    ]
    assert machine.loaded == {
        "mirror.example/team/pause:3.10": "/pause",
        "mirror.example/team/coredns-coredns:v1.14.1": "upstream's",
    }


def test_images_of_other_versions_are_forgotten_however_they_came(machine):
    repository = PAUSE_IMAGE.rpartition(":")[0]
    machine.offered.add(PAUSE_IMAGE)
    with open_layout() as layout:
        old = layout.add_image([], RunConfig())
        for name in (f"{repository}:1.0", f"{repository}:1.0@{old.digest}", "other/pause:1.0"):
            layout.tag(name, old)
    machine.load("pause")
    with open_layout() as layout:
        assert [name.partition("@")[0] for name in layout.references()] == ["other/pause:1.0", PAUSE_IMAGE]
