from __future__ import annotations

import os

import pytest

from trainer.common.files import read_number, write_atomically


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


@pytest.mark.parametrize(
    ("content", "number"),
    [('{"step": 3}', 3), ('{"step": "3"}', 0), ('{"step": null}', 0), ("{}", 0), ("[3]", 0), ('{"step"', 0), (None, 0)],
)
def test_a_file_without_the_number_counts_as_0(tmp_path, content, number):
    file = tmp_path / "file.json"
    if content is not None:
        file.write_text(content)
    assert read_number(file, "step") == number
