"""What `athanor copy` sends: whole or not at all, and nothing outside of its target."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from athanor.runs.tar_stream import FrameWriter, StreamError, receive, send


def _nothing(_count: int) -> None:
    pass


def sent(path: Path) -> bytes:
    stream = io.BytesIO()
    send(path, stream, _nothing)
    return stream.getvalue()


def came(target: Path, content: bytes, *, name: str = "own", replace: bool = False) -> dict:
    return receive(target, name, io.BytesIO(content), _nothing, replace=replace)


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    writer = FrameWriter(stream, _nothing)
    with tarfile.open(fileobj=writer, mode="w|") as writing:
        for member, content in members:
            member.size = len(content)
            writing.addfile(member, io.BytesIO(content))
    writer.end()
    return stream.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b"content" if kind == tarfile.REGTYPE else b""


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "cifar"
    (folder / "empty").mkdir(parents=True)
    (folder / "größe.bin").write_bytes(bytes(range(256)) * 5000)
    (folder / "link").symlink_to("größe.bin")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    return folder


def test_a_folder_arrives_as_it_is(folder, tmp_path):
    done = came(tmp_path / "back", sent(folder))
    back = tmp_path / "back"
    assert done["path"] == str(back)
    assert done["sha256"] == send(folder, io.BytesIO(), _nothing)["sha256"]
    assert (back / "größe.bin").read_bytes() == (folder / "größe.bin").read_bytes()
    assert (back / "link").readlink() == Path("größe.bin")
    assert (back / "empty").is_dir()
    assert (back / "run.sh").stat().st_mode & 0o100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "cifar"]


def test_a_link_to_a_file_is_sent_as_the_file_and_a_folder_takes_it_inside(folder, tmp_path):
    (tmp_path / "into").mkdir()
    assert came(tmp_path / "into", sent(folder / "link"))["path"] == str(tmp_path / "into" / "own")
    assert (tmp_path / "into" / "own").read_bytes() == (folder / "größe.bin").read_bytes()


def test_files_that_are_one_arrive_as_two(folder, tmp_path):
    (folder / "same").hardlink_to(folder / "größe.bin")
    came(tmp_path / "back", sent(folder))
    assert (tmp_path / "back" / "same").read_bytes() == (folder / "größe.bin").read_bytes()


def test_what_exists_is_replaced_only_when_asked_for(folder, tmp_path):
    target = tmp_path / "new" / "deep" / "own"
    came(target, sent(folder / "run.sh"))
    with pytest.raises(StreamError, match=r"own exists$"):
        came(target, sent(folder / "run.sh"))
    came(target, sent(folder / "größe.bin"), replace=True)
    assert target.stat().st_size == 256 * 5000
    (tmp_path / "own" / "own").mkdir(parents=True)
    with pytest.raises(StreamError, match=r"own/own exists$"):
        came(tmp_path / "own", sent(folder))
    came(tmp_path / "own", sent(folder), replace=True)
    assert (tmp_path / "own" / "own" / "run.sh").exists()
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["own"]


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.9, 0.99, 1 - 1e-6])
def test_an_archive_that_ends_early_leaves_what_was_there(folder, tmp_path, share):
    whole, target = sent(folder), tmp_path / "target"
    target.mkdir()
    (target / "own").write_text("before")
    with pytest.raises(StreamError, match="the other side ended early"):
        came(target, whole[: int(len(whole) * share)], replace=True)
    assert [(path.name, path.read_text()) for path in target.iterdir()] == [("own", "before")]


@pytest.mark.parametrize("at", [5000, -1])
def test_other_bytes_than_were_sent_are_refused(folder, tmp_path, at):
    whole = bytearray(sent(folder / "größe.bin"))
    whole[at] ^= 1
    with pytest.raises(StreamError):
        came(tmp_path / "back", bytes(whole))
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("content", [b"\x7fELF", b"OCI runtime exec failed\n" * 3])
def test_bytes_of_another_kind_are_refused(tmp_path, content):
    with pytest.raises(StreamError):
        came(tmp_path / "back", content)


@pytest.mark.parametrize(
    "hostile",
    [
        [member("../escaped")],
        [member("/tmp/athanor-test-escaped")],
        [member("copy", tarfile.DIRTYPE), member("copy/up", tarfile.SYMTYPE, "../../..")],
        [member("copy", tarfile.SYMTYPE, "/etc/passwd")],
        [member("copy", tarfile.LNKTYPE, "../cifar/run.sh")],
        [member("copy", tarfile.DIRTYPE), member("copy/all", tarfile.SYMTYPE, "")],
        [
            member("copy", tarfile.DIRTYPE),
            member("copy/here", tarfile.SYMTYPE, "."),
            member("copy/up", tarfile.SYMTYPE, "here/.."),
        ],
        [
            member("copy", tarfile.DIRTYPE),
            member("copy/up", tarfile.SYMTYPE, "later/later/later/../../../cifar"),
            member("copy/later", tarfile.SYMTYPE, "."),
            member("copy/own", tarfile.LNKTYPE, "copy/up/run.sh"),
        ],
        [member("copy", tarfile.CHRTYPE)],
        [member("copy", tarfile.FIFOTYPE)],
        [member("copy", tarfile.DIRTYPE), member("copy/in", tarfile.SYMTYPE, "."), member("copy/in/new")],
        [member("copy/../../escaped")],
        [member("other")],
        [member("copy"), member("copy")],
    ],
)
def test_nothing_is_written_or_linked_outside_of_the_target(folder, tmp_path, hostile):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with pytest.raises((StreamError, OSError)):
        came(tmp_path / "sub" / "back", archive(*hostile))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert sorted(path.name for path in tmp_path.rglob("*") if folder not in path.parents) == ["cifar", "sub"]
    assert not Path("/tmp/athanor-test-escaped").exists()


def test_a_full_disk_loses_neither_the_old_nor_the_error(folder, tmp_path, monkeypatch):
    target = tmp_path / "own"
    target.mkdir()
    (target / "own").mkdir()
    (target / "own" / "before").write_text("before")

    def full(self: Path, other: Path) -> None:
        if self.name == "copy":
            raise OSError(28, "No space left on device")
        rename(self, other)

    rename = Path.rename
    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        came(target, sent(folder), replace=True)
    assert (target / "own" / "before").read_text() == "before"
    assert [path.name for path in target.iterdir()] == ["own"]


def test_a_source_that_does_not_exist(tmp_path):
    with pytest.raises(StreamError, match="does not exist"):
        sent(tmp_path / "gone")
