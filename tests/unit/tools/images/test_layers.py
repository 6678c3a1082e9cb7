import io
import os
import tarfile

from tools.images.layers import CAP_NET_BIND_SERVICE, write_binary, write_tree
from tools.images.oci import Sink


def layer_of(write, *arguments, **options):
    stream = io.BytesIO()
    write(Sink(stream), *arguments, **options)
    return stream.getvalue()


def members_of(layer):
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        return {member.name: member for member in archive}


def make_tree(root):
    (root / "usr/local/bin").mkdir(parents=True)
    (root / "usr/local/bin/tool").write_text("#!/bin/sh\n")
    (root / "usr/local/bin/tool").chmod(0o4711)
    (root / "usr/local/note").write_text("text")
    (root / "usr/local/note").chmod(0o600)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "bin").symlink_to("usr/bin")
    os.mkfifo(root / "pipe")


def test_binary_is_the_only_file_and_executable(tmp_path):
    binary = tmp_path / "built"
    binary.write_bytes(b"\x7fELF")
    binary.chmod(0o600)
    (member,) = members_of(layer_of(write_binary, binary, path="/pause")).values()
    assert (member.name, member.mode, member.uid, member.mtime) == ("pause", 0o755, 0, 0)
    assert member.pax_headers == {}


def test_folders_above_a_binary_are_in_its_layer(tmp_path):
    (tmp_path / "built").write_bytes(b"\x7fELF")
    members = members_of(layer_of(write_binary, tmp_path / "built", path="/usr/bin/tool"))
    assert list(members) == ["usr", "usr/bin", "usr/bin/tool"]
    assert [(member.isdir(), member.mode, member.uid) for member in members.values()] == [
        (True, 0o755, 0), (True, 0o755, 0), (False, 0o755, 0),
    ]  # fmt: skip


def test_layer_of_a_binary_depends_on_its_content_alone(tmp_path):
    layers = []
    for name, time in (("a", 1), ("b", 2)):
        binary = tmp_path / name
        binary.write_bytes(b"same")
        os.utime(binary, (time, time))
        layers.append(layer_of(write_binary, binary, path="/tool"))
    assert layers[0] == layers[1]


def test_file_capability_is_the_kernels_structure(tmp_path):
    binary = tmp_path / "coredns"
    binary.write_bytes(b"\x7fELF")
    layer = layer_of(write_binary, binary, path="/coredns", capability=CAP_NET_BIND_SERVICE)
    (member,) = members_of(layer).values()
    # setcap cap_net_bind_service=ep: revision 2 with the effective flag, then bit 10 of the permitted set.
    expected = bytes.fromhex("0100000200040000000000000000000000000000")
    assert member.pax_headers["SCHILY.xattr.security.capability"].encode() == expected


def test_tree_is_normalised(tmp_path):
    make_tree(tmp_path)
    members = members_of(layer_of(write_tree, tmp_path, mtime_seconds=7))
    assert members["usr/local/bin/tool"].mode == 0o755  # and not setuid
    assert members["usr/local/note"].mode == 0o644
    assert members["tmp"].mode == 0o1777
    assert members["bin"].linkname == "usr/bin"
    assert "pipe" not in members
    assert {(member.uid, member.gid, member.mtime) for member in members.values()} == {(0, 0, 7)}
    assert list(members) == sorted(members, key=lambda name: name.split("/"))


def test_same_tree_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        make_tree(tmp_path / name)
    os.utime(tmp_path / "two/usr/local/note", (1, 1))
    one, two = (layer_of(write_tree, tmp_path / name, mtime_seconds=7) for name in ("one", "two"))
    assert one == two


def test_part_of_a_tree_keeps_its_place(tmp_path):
    make_tree(tmp_path)
    members = members_of(layer_of(write_tree, tmp_path, below="usr/local", mtime_seconds=7))
    assert set(members) == {"usr/local/bin", "usr/local/bin/tool", "usr/local/note"}
