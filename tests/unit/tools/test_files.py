from pathlib import Path

import pytest

from tools.files import write_atomically


def test_written_files_are_private_and_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomically(file, "old")
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "\ud800")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
