from pathlib import Path

import pytest

from tools.files import write_atomically


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomically(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "\ud800")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_written_files_are_private(tmp_path: Path) -> None:
    write_atomically(tmp_path / "key", "secret")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
