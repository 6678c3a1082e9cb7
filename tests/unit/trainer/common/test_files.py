from __future__ import annotations

import os

import pytest

from trainer.common.files import write_atomically


def test_failed_write_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch):
    file = tmp_path / "file"
    write_atomically(file, b"old")

    def fail(_descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]
