"""The stream between two machines: whole, or nothing."""

from __future__ import annotations

import io
import os
import tarfile

import pytest

from athanor.runs.tar_stream import receive, send


def _stream(path):
    content = io.BytesIO()
    send(path, content)
    return content.getvalue()


def test_a_folder_arrives_as_it_is(tmp_path):
    source = tmp_path / "source"
    (source / "a").mkdir(parents=True)
    (source / "a" / "größe.bin").write_bytes(os.urandom(100_000))
    (source / "run.sh").write_text("true", encoding="utf-8")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("run.sh")
    target = tmp_path / "deep" / "target"
    receive(target, io.BytesIO(_stream(source)), replace=False)
    assert (target / "a" / "größe.bin").read_bytes() == (source / "a" / "größe.bin").read_bytes()
    assert (target / "link").readlink().name == "run.sh"
    assert (target / "run.sh").stat().st_mode & 0o100
    assert [each.name for each in target.parent.iterdir()] == ["target"]


def test_a_file_replaces_a_folder_only_on_request(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"new")
    target = tmp_path / "target"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(SystemExit, match="exists"):
        receive(target, io.BytesIO(_stream(tmp_path / "model.pt")), replace=False)
    assert (target / "old").exists()
    receive(target, io.BytesIO(_stream(tmp_path / "model.pt")), replace=True)
    assert target.read_bytes() == b"new"


def test_what_does_not_exist_is_not_sent(tmp_path):
    with pytest.raises(SystemExit, match="does not exist"):
        _stream(tmp_path / "gone")


@pytest.mark.parametrize("kept", [0, 512, 700, 3 * 512])
def test_a_stream_that_ends_early_leaves_what_was_there(tmp_path, kept):
    """Also between two files, where tarfile sees nothing wrong."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_bytes(b"a")
    (source / "b").write_bytes(b"b")
    target = tmp_path / "target"
    target.write_bytes(b"old")
    with pytest.raises((SystemExit, tarfile.ReadError)):
        receive(target, io.BytesIO(_stream(source)[:kept]), replace=True)
    assert target.read_bytes() == b"old"
    assert not (tmp_path / ".target.partial").exists()


def test_a_hostile_stream_writes_nothing_elsewhere(tmp_path):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w|") as archive:
        archive.addfile(tarfile.TarInfo("../../outside"))
    content.seek(0)
    with pytest.raises(tarfile.FilterError):
        receive(tmp_path / "in" / "target", content, replace=False)
    assert not (tmp_path / "outside").exists()
