"""Checkpoints of any program: which one counts, in which order files are written, and what several ranks write."""

from __future__ import annotations

import json
import os
import random
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.unit.trainer.pod_modules.programs import in_child, status_of
from trainer.pytorch.checkpoints.manifest import read_manifest


@pytest.fixture
def checkpoints(start):
    return start("athanor_checkpoints")


@pytest.fixture
def saved(checkpoints, tmp_path):
    """Three checkpoints, of which two are kept."""
    store = checkpoints.Checkpoints(tmp_path / "saved")
    for step in (5, 10, 15):
        store.save(step, lambda folder: (folder / "weights").write_text("abc"))
    return store


def test_the_latest_ones_are_kept_in_the_format_of_the_trainer(saved):
    assert sorted(path.name for path in saved.folder.iterdir()) == ["step-00000010", "step-00000015"]
    assert saved.latest().name == "step-00000015"
    manifest = read_manifest(saved.latest())
    assert (manifest.step, manifest.world_size, manifest.sizes["weights"]) == (15, 1, 3)
    manifest.check_sizes(saved.latest())


def _cut(folder: Path) -> None:
    (folder / "weights").write_text("ab")


def _without_marker(folder: Path) -> None:
    (folder / "complete.json").unlink()


def _without_file(folder: Path) -> None:
    (folder / "weights").unlink()


def _broken_marker(folder: Path) -> None:
    (folder / "complete.json").write_text('{"step": 15, "files": ["weights"]}')


def _empty_marker(folder: Path) -> None:
    (folder / "complete.json").write_text("")


@pytest.mark.parametrize("damage", [_cut, _without_marker, _without_file, _broken_marker, _empty_marker])
def test_a_damaged_one_does_not_count(saved, damage):
    damage(saved.latest())
    assert saved.latest().name == "step-00000010"


def test_a_write_that_fails_leaves_the_one_before(saved):
    def full(_folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        saved.save(20, full)
    assert saved.latest().name == "step-00000015"
    saved.save(20, lambda _folder: None)
    assert sorted(path.name for path in saved.folder.iterdir()) == ["step-00000015", "step-00000020"]


def test_files_are_on_disk_before_the_marker_and_the_marker_before_the_name(checkpoints, tmp_path, monkeypatch):
    seen: list[tuple[str, list[str]]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        seen.append((path.name, sorted(each.name for each in (tmp_path / "saved").rglob("*"))))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    checkpoints.Checkpoints(tmp_path / "saved").save(1, lambda folder: (folder / "weights").write_text("abc"))
    names = [name for name, _ in seen]
    marker, published = names.index(".complete.json.tmp"), names.index("saved")
    assert {"weights", "athanor-rank-00000.json", ".step-00000001.partial"} <= set(names[:marker])
    assert not any("complete.json" in there for _, there in seen[:marker])
    assert "complete.json" in seen[marker + 1][1]
    assert not any("step-00000001" in there for _, there in seen[:published])
    assert "step-00000001" in seen[published][1]


def test_nothing_is_there_before_the_first(checkpoints, tmp_path):
    store = checkpoints.Checkpoints(tmp_path / "saved")
    assert store.latest() is None
    (tmp_path / "saved" / "step-00000001").mkdir(parents=True)
    assert store.latest() is None
    with pytest.raises(ValueError, match=r"keep=0: must be at least 1"):
        checkpoints.Checkpoints(tmp_path, keep=0)


def test_random_numbers_and_data_continue_only_on_the_same_number_of_ranks(checkpoints, tmp_path, monkeypatch):
    checkpoints.save_state(tmp_path)
    expected = random.random()
    checkpoints.restore_state(tmp_path)
    assert random.random() == expected
    monkeypatch.setenv("WORLD_SIZE", "2")
    checkpoints.restore_state(tmp_path)
    assert random.random() != expected


def test_the_sampler_gets_the_number_of_each_epoch(checkpoints):
    class Loader(list):
        def set_epoch(self, epoch: int) -> None:
            self[:] = [10 * epoch, 10 * epoch + 1]

    data = checkpoints.Batches(Loader())
    assert [list(data), list(data)] == [[0, 1], [10, 11]]
    iterator = iter(data)
    assert next(iterator) == 20
    state = json.loads(json.dumps(data.state_dict()))
    again = checkpoints.Batches(Loader())
    again.load_state_dict(state)
    assert [list(again), list(again)] == [[21], [30, 31]]


def _rank(checkpoints, number: int, folder: Path) -> None:
    """Stop at the step in which rank 1 alone gets a signal; each rank writes a file of its own."""
    import athanor_ranks  # noqa: PLC0415 - just imported
    import torch.distributed as dist  # noqa: PLC0415

    os.environ.update(RANK=str(number), WORLD_SIZE="2")
    store = dist.FileStore(str(folder / "rendezvous"), 2)
    dist.init_process_group("gloo", store=store, rank=number, world_size=2, timeout=timedelta(seconds=60))
    assert athanor_ranks.agreed([False, number == 0]) == [False, True]
    for step in range(5):
        if athanor_ranks.agreed([number == 1 and step == 2])[0]:
            saved = checkpoints.Checkpoints(folder / "saved")
            saved.save(step, lambda to: (to / f"of-{number}").write_text("x" * number), every_rank=True)
            break
    dist.destroy_process_group()


def test_ranks_stop_at_the_same_step_and_write_one_checkpoint(checkpoints, tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    children = [in_child(partial(_rank, checkpoints, number, tmp_path)) for number in range(2)]
    assert [status_of(child) for child in children] == [0, 0]
    latest = checkpoints.Checkpoints(tmp_path / "saved").latest()
    assert latest.name == "step-00000002"
    names = {"of-0", "of-1", "athanor-rank-00000.json", "athanor-rank-00001.json"}
    assert set(read_manifest(latest).sizes) == names
