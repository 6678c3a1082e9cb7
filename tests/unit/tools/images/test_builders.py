"""The choice of the builder, and what is taken from docker, with stand-ins for the two programs on PATH."""

import io
import json
import tarfile

import pytest

from tools.images import builders
from tools.images.errors import ImageError
from tools.images.oci import LAYER, Layout, RunConfig

BIG = b"x" * (1 << 17)


@pytest.mark.parametrize(
    ("docker", "taken"),
    [
        ("exit 0", builders.Docker),
        ('[ "$1" != version ]', builders.Buildah),
        ('[ "$1" != build ]', builders.Buildah),
        ("while :; do :; done", builders.Buildah),
    ],
    ids=["it works", "no daemon", "no BuildKit", "a daemon that hangs"],
)
def test_docker_is_taken_where_it_can_build_and_else_buildah(programs, tmp_path, monkeypatch, docker, taken):
    monkeypatch.setattr("tools.docker.DAEMON_TIMEOUT_SECONDS", 0.1 if "while" in docker else 60)
    programs("docker", docker)
    programs("buildah", "exit 0")
    assert isinstance(builders.choose_builder(tmp_path), taken)


def test_missing_builder_is_named_with_the_fix(programs, tmp_path):
    del programs
    with pytest.raises(ImageError, match="apt-get install buildah"):
        builders.choose_builder(tmp_path)


def saved_image(layers, *, link=None):
    """Return a `docker save` stream: (name, content) layers, and of `link` a symbolic link (name, target)."""
    stream = io.BytesIO()
    names = [name for name, _ in layers] + ([link[0]] if link else [])
    files = [*layers, ("config.json", b'{"os":"linux"}')]
    files.append(("manifest.json", json.dumps([{"Config": "config.json", "Layers": names}]).encode()))
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files[: len(layers)]:
            add_file(archive, name, content)
        if link:
            member = tarfile.TarInfo(link[0])
            member.type, member.linkname = tarfile.SYMTYPE, link[1]
            archive.addfile(member)
        for name, content in files[len(layers) :]:
            add_file(archive, name, content)
    return io.BytesIO(stream.getvalue())


def add_file(archive, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "layout")


def layer_contents(layout, manifest):
    return [layout.path(layer.digest).read_bytes() for layer in layout.members(manifest)[2:]]


@pytest.mark.parametrize("names", [("a/layer.tar", "b/layer.tar"), ("blobs/sha256/a", "blobs/sha256/b")])
def test_saved_image_of_any_docker_is_taken(layout, names):
    manifest = builders.take_docker_archive(saved_image([(names[0], BIG), (names[1], b"small")]), layout)
    assert layer_contents(layout, manifest) == [BIG, b"small"]


def test_layer_that_appears_twice_is_a_link(layout):
    stream = saved_image([("a/layer.tar", BIG)], link=("b/layer.tar", "../a/layer.tar"))
    manifest = builders.take_docker_archive(stream, layout)
    assert layer_contents(layout, manifest) == [BIG, BIG]


def test_layers_that_the_layout_has_keep_their_digests(layout):
    known = layout.add(BIG, LAYER)
    manifest = builders.take_docker_archive(saved_image([("a/layer.tar", BIG)]), layout)
    assert layout.members(manifest)[2] == known


def test_stream_without_an_image_is_refused(layout):
    stream = io.BytesIO()
    tarfile.open(fileobj=stream, mode="w").close()
    with pytest.raises(ImageError, match=r"manifest\.json"):
        builders.take_docker_archive(io.BytesIO(stream.getvalue()), layout)


@pytest.fixture
def docker(programs, tmp_path, monkeypatch):
    """A docker that notes its command lines, has a base image of earlier content, and saves `saved.tar`."""
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path / "home"))
    (tmp_path / "saved.tar").write_bytes(saved_image([("a/layer.tar", BIG)]).getvalue())
    programs(
        "docker",
        f"""echo "$@" >> {tmp_path}/commands
        case "$*" in
            "images --format"*) echo base:old; echo base:new ;;
            build*) while [ "$1" != --iidfile ]; do shift; done; echo sha256:built > "$2" ;;
            save*) while IFS= read -r _; do :; done; exec /bin/cat {tmp_path}/saved.tar ;;
        esac </dev/null""",
    )
    return lambda: (tmp_path / "commands").read_text().splitlines()


def test_docker_builds_on_the_given_base_and_keeps_no_old_one(docker, layout, tmp_path):
    request = builders.BuildRequest(
        context=tmp_path,
        dockerfile=tmp_path / "Dockerfile",
        base="base:new",
        base_manifest=layout.add_image([layout.add(BIG, LAYER)], RunConfig()),
        arguments={"VARIANT": "cpu"},
    )
    manifest = builders.Docker().build(request, layout)
    assert layer_contents(layout, manifest) == [BIG]
    asked, load, build, save, listed, remove = docker()
    assert asked == "images --quiet base:new"
    assert load.startswith("load --input ")
    assert "--build-arg BASE_IMAGE=base:new --build-arg VARIANT=cpu" in build
    assert save == "save sha256:built"
    assert listed.endswith(" base")
    assert remove == "rmi --force sha256:built base:old"
    assert list(layout.folder.glob("incoming-*")) == []
