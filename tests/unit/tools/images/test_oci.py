import hashlib
import io
import json
import tarfile

import pytest

from tools.images.errors import ImageError
from tools.images.oci import CONFIG, LAYER, Descriptor, HashingSink, Layout, RunConfig, Sink


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "layout")


def make_image(layout, content=b"layer", *, user=""):
    return layout.add_image([layout.add(content, LAYER)], RunConfig(entrypoint=("/program",), user=user))


def archive_members(layout, reference, manifest, present=()):
    stream = io.BytesIO()
    layout.write_archive(Sink(stream), reference, manifest, present=present)
    with tarfile.open(fileobj=io.BytesIO(stream.getvalue())) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def files_below(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_blobs_are_named_by_their_sha256_also_when_streamed(layout):
    blob = layout.add(b"content", LAYER)
    assert blob == Descriptor(media_type=LAYER, digest=f"sha256:{hashlib.sha256(b'content').hexdigest()}", size=7)
    assert layout.path(blob.digest).read_bytes() == b"content"
    assert layout.add_stream(lambda sink: [sink.write(b"con"), sink.write(b"tent")], LAYER) == blob


def test_same_input_gives_the_same_bytes_in_every_layout(tmp_path):
    contents = []
    for name in ("one", "two"):
        layout = Layout(tmp_path / name)
        layout.tag("localhost/x:1", make_image(layout, user="65535:65535"))
        contents.append(files_below(layout.folder))
    assert contents[0] == contents[1]


def test_archive_is_deterministic_and_has_what_containerd_and_docker_read(layout):
    manifest = make_image(layout)
    members = archive_members(layout, "localhost/x:1", manifest)
    assert members == archive_members(layout, "localhost/x:1", manifest)
    assert json.loads(members["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(members["index.json"])["manifests"]
    assert entry["digest"] == manifest.digest
    assert entry["annotations"]["io.containerd.image.name"] == "localhost/x:1"
    (docker,) = json.loads(members["manifest.json"])
    assert docker["RepoTags"] == ["localhost/x:1"]
    assert [members[name] for name in docker["Layers"]] == [b"layer"]
    assert json.loads(members[docker["Config"]])["config"]["Entrypoint"] == ["/program"]
    blobs = {name: content for name, content in members.items() if name.startswith("blobs/")}
    assert len(blobs) == 3
    for name, content in blobs.items():
        assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"


def test_blobs_that_the_receiver_has_are_not_sent(layout):
    layer = layout.add(b"big", LAYER)
    manifest = layout.add_image([layer], RunConfig())
    members = archive_members(layout, "localhost/x:1", manifest, present={layer.digest})
    assert f"blobs/sha256/{layer.digest.removeprefix('sha256:')}" not in members
    assert f"blobs/sha256/{manifest.digest.removeprefix('sha256:')}" in members


def test_config_states_one_history_entry_and_one_diff_id_per_layer(layout):
    layers = [layout.add(content, LAYER) for content in (b"a", b"b")]
    _, config, *_ = layout.members(layout.add_image(layers, RunConfig(user="1:1", env={"B": "2", "A": "1"})))
    content = json.loads(layout.path(config.digest).read_bytes())
    assert content["rootfs"]["diff_ids"] == [layer.digest for layer in layers]
    assert len(content["history"]) == 2
    assert content["config"]["User"] == "1:1"
    assert content["config"]["Env"] == ["A=1", "B=2"]


def test_failed_stream_leaves_nothing(layout):
    before = files_below(layout.folder)

    def fail(sink):
        sink.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        layout.add_stream(fail, LAYER)
    assert files_below(layout.folder) == before


def test_truncated_blob_makes_the_image_count_as_missing_until_it_is_added_again(layout):
    layer = layout.add(b"layer", LAYER)
    manifest = layout.add_image([layer], RunConfig())
    layout.tag("localhost/x:1", manifest)
    assert layout.find("localhost/x:1") == manifest
    layout.path(layer.digest).write_bytes(b"la")
    assert layout.find("localhost/x:1") is None
    with pytest.raises(ImageError, match=layer.digest):
        layout.members(manifest)
    layout.add(b"layer", LAYER)
    assert layout.path(layer.digest).read_bytes() == b"layer", "which adds it again"


def test_names_keep_the_order_they_were_last_given_in(layout):
    manifest = make_image(layout)
    for name in ("a:1", "a:2", "a:1"):
        layout.tag(name, manifest)
    assert list(layout.references()) == ["a:2", "a:1"]


def test_garbage_is_what_no_name_leads_to_and_what_killed_runs_left(layout):
    kept = make_image(layout, b"kept")
    layout.tag("a:1", kept)
    layout.tag("a:2", make_image(layout, b"gone"))
    layout.untag(["a:2"])
    (layout.folder / "incoming-killed").write_bytes(b"half")
    (layout.folder / "incoming-folder").mkdir()
    assert layout.collect_garbage() >= len(b"gone") + len(b"half")
    assert layout.find("a:1") == kept
    assert len(list(layout.blobs.iterdir())) == 3
    assert list(layout.folder.glob("incoming-*")) == []


def test_garbage_collection_keeps_blobs_that_images_share(layout):
    shared = layout.add(b"shared", LAYER)
    kept = layout.add_image([shared], RunConfig(user="1"))
    layout.tag("a:1", kept)
    layout.tag("a:2", layout.add_image([shared], RunConfig(user="2")))
    layout.untag(["a:2"])
    layout.collect_garbage()
    assert layout.find("a:1") == kept


def test_sink_counts_what_a_pipe_cannot_tell():
    file = io.BytesIO()
    sink = HashingSink(file)
    sink.write(b"ab")
    sink.write(b"c")
    assert (sink.tell(), file.getvalue()) == (3, b"abc")
    assert sink.digest == f"sha256:{hashlib.sha256(b'abc').hexdigest()}"


def test_manifest_names_its_config_by_type(layout):
    config = layout.add(b"{}", CONFIG)
    manifest = json.loads(layout.path(layout.add_manifest(config, []).digest).read_bytes())
    assert manifest["config"]["mediaType"] == CONFIG
    assert manifest["schemaVersion"] == 2
