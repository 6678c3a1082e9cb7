"""Images of single binaries, as containerd gets them."""

import json

import pytest

from infra import images
from tools.images.oci import Layout
from tools.images.platform_images import MONITORING_IMAGES, PLATFORM_IMAGES, PlatformImage, binary_image
from tools.toolchain.catalogue import STACKS, tool_of


@pytest.fixture
def configuration(tmp_path):
    """Return a function that makes an image and gives what its containers run by default."""
    binary = tmp_path / "built"
    binary.write_bytes(b"\x7fELF")

    def make(name, image):
        layout = Layout(tmp_path / "layout")
        manifest = json.loads(layout.path(binary_image(layout, binary, name, image).digest).read_bytes())
        return json.loads(layout.path(manifest["config"]["digest"]).read_bytes())["config"]

    return make


def test_a_binary_is_in_the_root_under_its_own_name(configuration):
    found = configuration("tool", PlatformImage(reference="localhost/tool:1"))
    assert (found["Entrypoint"], "User" in found) == (["/tool"], False)


def test_a_binary_is_where_its_upstream_has_it(configuration):
    image = PlatformImage(reference="localhost/tool:1", user="65534:65534", path="/bin/other", arguments=("--port=1",))
    found = configuration("tool", image)
    assert (found["Entrypoint"], found["User"]) == (["/bin/other", "--port=1"], "65534:65534")


def test_the_local_node_has_every_image_of_monitoring_but_grafanas():
    """Grafana's cannot be built from Go modules: its pages are not in them."""
    made = {PLATFORM_IMAGES[name].reference for name in MONITORING_IMAGES}
    assert made == {*images.MONITORING_IMAGES} - {images.GRAFANA_IMAGE}


@pytest.mark.parametrize("name", sorted(PLATFORM_IMAGES))
def test_the_tools_of_the_local_stack_hold_every_binary(name):
    assert tool_of(name).name in STACKS["local"]
