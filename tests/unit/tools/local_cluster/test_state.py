from pathlib import Path

from tests.tables import each_row
from tools.local_cluster import state


def test_state_is_read_back(tmp_path: Path) -> None:
    stored = state.State(block="10.64.0.0/18", control_plane="abc", binaries={"etcd": "/x/etcd"})
    state.save(tmp_path / "state.json", stored)
    assert state.load(tmp_path / "state.json") == stored


@each_row("content", ["", "{", "[]", '{"block": "10.64.0.0/18", "unknown": 1}', '{"control_plane": "x"}'])
def test_a_file_that_is_not_a_state_counts_as_none(tmp_path: Path, content: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(content)
    assert state.load(file) is None
