from __future__ import annotations

import enum
import errno
import json
import math
import os
import pickle
import re
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING
from torch.serialization import get_crc32_options

from trainer.pytorch.checkpoints import evaluated, folders, writer
from trainer.pytorch.checkpoints import manager as manager_module
from trainer.pytorch.checkpoints import manifest as manifest_module
from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.checkpoints.errors import CheckpointError
from trainer.pytorch.checkpoints.manager import CheckpointManager
from trainer.pytorch.checkpoints.manifest import MANIFEST, Manifest
from trainer.pytorch.checkpoints.reader import CheckpointReader, load_state
from trainer.pytorch.checkpoints.stored import whole_weights

pytestmark = pytest.mark.long

SETTINGS = {"batch_size": 64, "seed": 0}


@pytest.fixture
def manager(tmp_path, alone):
    def make(settings=SETTINGS, **keep) -> CheckpointManager:
        config = CheckpointConfig(checkpoint_interval_steps=1, **keep)
        return CheckpointManager(config, tmp_path, alone, settings)

    return make


def state(value: float) -> dict:
    return {"model": {"w": torch.full((3, 2), value)}, "progress": {"step": int(value), "lr": value / 10}}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_loaded_is_what_was_saved(manager):
    checkpoints = manager()
    assert checkpoints.find_latest() is None
    assert checkpoints.save(7, state(7)) > 0
    latest = checkpoints.find_latest()
    assert (latest.step, latest.world_size) == (7, 1)
    into = state(0)
    checkpoints.load(latest, into)
    assert torch.equal(into["model"]["w"], torch.full((3, 2), 7.0))
    assert into["progress"] == {"step": 7, "lr": 0.7}


def test_a_large_state_is_in_several_files_whose_content_is_checked(manager, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "_BYTES_OF_A_FILE", 100)
    monkeypatch.setattr(manager_module, "usable_cores", lambda: 3)
    saved = {"model": {f"w{number}": torch.full((40,), float(number)) for number in range(10)}}
    checkpoints = manager()
    checkpoints.save(1, saved)
    checkpoints.save(2, saved)
    files = sorted((tmp_path / "step-00000002").glob("*.distcp"))
    assert len(files) == 3
    assert get_crc32_options()
    content = bytearray(files[-1].read_bytes())
    content[len(content) // 2] ^= 1
    files[-1].write_bytes(content)
    into = {"model": {name: torch.zeros(40) for name in saved["model"]}}
    latest = checkpoints.find_latest()
    checkpoints.load(latest, into)
    assert latest.step == 1
    assert all(torch.equal(into["model"][name], each) for name, each in saved["model"].items())


def test_keeps_the_latest_in_the_order_of_steps(manager, tmp_path):
    checkpoints = manager(keep_latest_k=2)
    for step in (9, 10, 100):
        checkpoints.save(step, state(step))
    assert names(tmp_path) == ["step-00000010", "step-00000100"]
    assert checkpoints.find_latest().step == 100


def test_keeps_every_tenth_step(manager, tmp_path):
    checkpoints = manager(keep_latest_k=1, keep_every_n_steps=10)
    for step in (10, 15, 20, 25, 26):
        checkpoints.save(step, state(step))
    assert names(tmp_path) == ["step-00000010", "step-00000020", "step-00000026"]


def test_keeps_the_best_until_a_better_one_is_saved(manager, tmp_path):
    checkpoints = manager(keep_latest_k=1, keep_best="loss")
    for step, loss in ((1, 3.0), (2, 1.0), (3, math.nan), (4, 2.0), (5, 1.0)):
        checkpoints.save(step, state(step))
        evaluated.remember(tmp_path, step, {"loss": loss}, saved=steps(tmp_path), best_by="loss")
    assert steps(tmp_path) == [2, 5]
    evaluated.remember(tmp_path, 6, {"loss": 0.5}, saved=steps(tmp_path), best_by="loss")
    assert evaluated.best(tmp_path, steps(tmp_path)) == 6
    checkpoints.save(7, state(7))
    assert steps(tmp_path) == [2, 7], "one that was never saved is not the best"
    checkpoints.save(8, state(8))
    evaluated.remember(tmp_path, 8, {"loss": 0.9}, saved=steps(tmp_path), best_by="loss")
    checkpoints.save(9, state(9))
    assert steps(tmp_path) == [8, 9]


def steps(folder: Path) -> list[int]:
    return [step for step, _ in folders.by_step(folder)]


def test_steps_that_are_never_saved_cannot_be_kept():
    with pytest.raises(
        ValueError, match=r"keep_every_n_steps=150: must be a multiple of checkpoint_interval_steps=100"
    ):
        CheckpointConfig(keep_every_n_steps=150)


def test_checkpoints_of_former_releases_are_read_and_those_of_later_ones_refused(manager, tmp_path):
    checkpoints = manager()
    checkpoints.save(1, state(1))
    marker = tmp_path / "step-00000001" / MANIFEST
    document = json.loads(marker.read_text())
    del document["sha256"]
    marker.write_text(json.dumps({**document, "format_version": 1}))
    into = state(0)
    checkpoints.load(checkpoints.find_latest(), into)
    assert torch.equal(into["model"]["w"], state(1)["model"]["w"])
    marker.write_text(json.dumps({**document, "format_version": 3}))
    with pytest.raises(CheckpointError, match=r"format_version=3: this release reads 1 to 2\. Fix: the image"):
        checkpoints.find_latest()
    assert names(tmp_path) == ["step-00000001"], "a later release finds it where it was"


def test_a_writer_that_outlived_its_run_cannot_publish_what_a_restart_removed(manager, tmp_path, monkeypatch):
    checkpoints = manager()
    checkpoints.save(1, state(1))
    manifest_write = Manifest.write

    def restart_first(manifest: Manifest, folder: Path) -> None:
        manifest_write(manifest, folder)
        assert checkpoints.find_latest().step == 1

    monkeypatch.setattr(Manifest, "write", restart_first)
    with pytest.raises(
        CheckpointError,
        match=r"checkpoint of step 2 not saved: .*No such file or directory.*; another process has removed",
    ):
        checkpoints.save(2, state(2))
    assert names(tmp_path) == ["step-00000001"]


def test_a_step_that_another_start_has_saved_meanwhile_counts_as_saved(manager, tmp_path, monkeypatch, caplog):
    checkpoints, other = manager(), manager()
    manifest_write = Manifest.write
    saved_by_other: list[int] = []

    def other_first(manifest: Manifest, folder: Path) -> None:
        manifest_write(manifest, folder)
        monkeypatch.setattr(Manifest, "write", manifest_write)
        other.save(2, state(2))
        saved_by_other.append((tmp_path / "step-00000002").stat().st_ino)

    monkeypatch.setattr(Manifest, "write", other_first)
    checkpoints.save(2, state(2))
    assert names(tmp_path) == ["step-00000002"]
    assert [(tmp_path / "step-00000002").stat().st_ino] == saved_by_other
    assert "step-00000002: another process has saved this step meanwhile. Fix: " in caplog.text


def test_saving_a_step_again_leaves_the_first_one_alone(manager, tmp_path):
    checkpoints = manager()
    checkpoints.save(5, state(5))
    before = (tmp_path / "step-00000005").stat().st_ino
    assert checkpoints.save(5, state(5)) == 0
    assert (tmp_path / "step-00000005").stat().st_ino == before


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("cut", r"__0_0\.distcp has [\d,]+ bytes instead of [\d,]+"),
        ("changed", r"__0_0\.distcp has SHA-256 \w{12}… instead of \w{12}…"),
        ("missing file", r"\.metadata: No such file or directory"),
        ("no marker", r"complete\.json: No such file or directory"),
        ("not JSON", r"complete\.json is not JSON"),
        ("a list", r"complete\.json is not a JSON object"),
        ("half a marker", r"complete\.json is not complete: KeyError\('files'\)"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_and_does_not_push_out_good_ones(manager, tmp_path, caplog, damage, what):
    checkpoints = manager(keep_latest_k=1)
    checkpoints.save(1, state(1))
    CheckpointManager(CheckpointConfig(), tmp_path, checkpoints._distributed, SETTINGS).save(2, state(2))
    newest = tmp_path / "step-00000002"
    if damage == "cut":
        file = next(newest.glob("*.distcp"))
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "changed":
        file = next(newest.glob("*.distcp"))
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif damage == "missing file":
        (newest / ".metadata").unlink()
    elif damage in ("not JSON", "a list"):
        (newest / MANIFEST).write_text("{" if damage == "not JSON" else "[]")
    elif damage == "half a marker":
        (newest / MANIFEST).write_text('{"format_version": 2, "step": 2}')
    else:
        (newest / MANIFEST).unlink()
    assert checkpoints.find_latest().step == 1
    assert re.search(rf"step-00000002 is damaged: {what}; looking for the one before, keeping this one as", caplog.text)
    assert [name for name in names(tmp_path) if ".damaged-" in name]
    checkpoints.save(2, state(2))
    assert checkpoints.find_latest().step == 2


@pytest.fixture
def volume(monkeypatch):
    """Let reading one file fail in some threads, in one of three ways, as a network volume in trouble does."""

    def fail(number: int, method: str, name: str, *, thread: str = "MainThread") -> None:
        owner, attribute = (manifest_module, method) if method == "sha256_of" else (Path, method)
        real = getattr(owner, attribute)

        def read(path: Path, *arguments, **words):
            if path.name == name and threading.current_thread().name == thread:
                raise OSError(number, os.strerror(number), str(path))
            return real(path, *arguments, **words)

        monkeypatch.setattr(owner, attribute, read)

    return fail


@pytest.mark.parametrize(
    "failure",
    [
        (errno.EIO, "sha256_of", "__0_0.distcp"),
        (errno.ESTALE, "stat", ".metadata"),
        (errno.EACCES, "read_text", MANIFEST),
    ],
)
def test_a_checkpoint_that_cannot_be_read_now_is_left_alone(manager, tmp_path, monkeypatch, volume, failure):
    number, _, name = failure
    checkpoints = manager()
    checkpoints.save(1, state(1))
    checkpoints.save(2, state(2))
    volume(*failure)
    message = rf"step-00000002/{re.escape(name)}: cannot be read: {os.strerror(number)}\. Fix: start again once"
    with pytest.raises(CheckpointError, match=message):
        checkpoints.find_latest()
    monkeypatch.undo()
    assert names(tmp_path) == ["step-00000001", "step-00000002"]
    assert checkpoints.find_latest().step == 2


class Rank:
    """One of two ranks that are threads of this process."""

    world_size = 2
    barrier = threading.Barrier(2, timeout=30)
    answers: ClassVar[dict[int, object]] = {}

    def __init__(self, rank: int) -> None:
        self.rank, self.is_main = rank, rank == 0

    def gather(self, value):
        self.answers[self.rank] = value
        self.barrier.wait()
        both = [self.answers[0], self.answers[1]]
        self.barrier.wait()
        return both

    def on_main(self, work):
        return self.gather(work() if self.is_main else None)[0]


def test_no_rank_falls_back_alone_when_another_cannot_read_its_share(manager, tmp_path, volume):
    manager().save(1, state(1))
    manager().save(2, state(2))
    second_share = sorted(json.loads((tmp_path / "step-00000002" / MANIFEST).read_text())["sha256"])[1]
    volume(errno.EIO, "sha256_of", second_share, thread="rank-1")
    said: dict[str, str] = {}

    def find(rank: int) -> None:
        with pytest.raises(CheckpointError) as error:
            CheckpointManager(CheckpointConfig(), tmp_path, Rank(rank), SETTINGS).find_latest()
        said[threading.current_thread().name] = str(error.value)

    threads = [threading.Thread(target=find, args=(rank,), name=f"rank-{rank}") for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(said) == {"rank-0", "rank-1"}
    assert len(set(said.values())) == 1
    assert "Input/output error" in said["rank-0"]
    assert names(tmp_path) == ["step-00000001", "step-00000002"]


def test_a_volume_that_fails_while_a_checkpoint_is_loaded_costs_no_checkpoint(manager, monkeypatch):
    checkpoints = manager()
    checkpoints.save(1, state(1))
    latest = checkpoints.find_latest()

    def fail(*_arguments, **_words):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(FileSystemReader, "read_data", fail)
    with pytest.raises(CheckpointError, match=r"cannot be loaded: .*Input/output error\. Fix: start again$"):
        checkpoints.load(latest, state(0))


def test_a_run_without_an_intact_checkpoint_says_that_it_begins_again(manager, tmp_path, caplog):
    checkpoints = manager()
    assert checkpoints.find_latest() is None
    assert "begins again" not in caplog.text
    for step in (1, 2):
        checkpoints.save(step, state(step))
    (tmp_path / "step-00000001" / ".metadata").unlink()
    for file in (tmp_path / "step-00000002").glob("*.distcp"):
        file.write_bytes(bytes(file.stat().st_size))
    assert checkpoints.find_latest() is None
    assert f"{tmp_path}: no checkpoint is intact: the run begins again at its first step" in caplog.text


def test_other_settings_are_refused_by_name_and_value(manager):
    manager().save(1, state(1))
    other = manager({"batch_size": 32, "seed": 0})
    with pytest.raises(
        CheckpointError, match=r"batch_size=32 \(was 64\)\. Fix: the former values, or another --run_name"
    ):
        other.find_latest()


class Program:
    """Creates a folder when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self):
        return os.mkdir, (str(self.made),)


def run_from_metadata(metadata: Path) -> None:
    metadata.write_bytes(pickle.dumps(Program(metadata.parent / "made")))


def run_from_a_field(metadata: Path) -> None:
    content = CheckpointReader(metadata.parent).read_metadata()
    content.planner_data = Program(metadata.parent / "made")
    metadata.write_bytes(pickle.dumps(content))


class Attribute:
    """Is unpickled as an attribute of an object."""

    def __init__(self, owner: object, name: str) -> None:
        self.of = owner, name

    def __reduce__(self):
        return getattr, self.of


def take_an_attribute(metadata: Path) -> None:
    metadata.write_bytes(pickle.dumps(Attribute(_MEM_FORMAT_ENCODING, "__subclasses__")))


def read_elsewhere(metadata: Path) -> None:
    content = CheckpointReader(metadata.parent).read_metadata()
    for place in content.storage_data.values():
        place.relative_path = "../elsewhere"
    metadata.write_bytes(pickle.dumps(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            run_from_metadata,
            r"\.metadata: holds posix\.mkdir, which could run code; must be what describes its tensors",
        ),
        (run_from_a_field, r"\.metadata: holds posix\.mkdir, which could run code"),
        (take_an_attribute, r"\.metadata: holds builtins\.getattr\(<enum '_MEM_FORMAT_ENCODING'>, '__subclasses__'\)"),
        (read_elsewhere, r"\.metadata: names a file of another folder: \.\./elsewhere\. Fix: remove its folder"),
        (lambda metadata: metadata.write_bytes(pickle.dumps([])), "holds a list in place of a checkpoint's metadata"),
        (lambda metadata: metadata.write_bytes(b"\x80"), r"\.metadata: .*Fix: remove its folder"),
    ],
)
def test_metadata_runs_nothing_and_leads_to_no_other_folder(manager, change, message):
    checkpoints = manager()
    checkpoints.save(1, state(1))
    latest = checkpoints.find_latest()
    change(latest.path / ".metadata")
    for read in (
        checkpoints.names,
        lambda each: whole_weights(each.path),
        lambda each: checkpoints.load(each, state(0)),
    ):
        with pytest.raises(CheckpointError, match=message):
            read(latest)
    assert not (latest.path / "made").exists()


def test_metadata_of_another_python_is_read(manager, monkeypatch):
    """Python 3.11.2, which Debian 12 and so the images have, pickles members of an enumeration by `getattr`."""
    checkpoints = manager()
    monkeypatch.setattr(_MEM_FORMAT_ENCODING, "__reduce_ex__", enum.pickle_by_enum_name)
    checkpoints.save(1, state(1))
    latest = checkpoints.find_latest()
    assert b"getattr" in (latest.path / ".metadata").read_bytes()
    into = state(0)
    checkpoints.load(latest, into)
    assert torch.equal(into["model"]["w"], state(1)["model"]["w"])


def test_a_value_runs_nothing(manager, tmp_path):
    checkpoints = manager()
    checkpoints.save(1, {"progress": {"lr": Program(tmp_path / "made"), "betas": (0.9, 0.99), "name": None}})
    latest, into = checkpoints.find_latest(), {"progress": {"lr": 0.1, "betas": (0.0, 0.0), "name": "a"}}
    message = r"progress\.lr: holds posix\.mkdir, which could run code; must be tensors, numbers, text and what torch"
    with pytest.raises(CheckpointError, match=message):
        checkpoints.load(latest, into)
    with pytest.raises(pickle.UnpicklingError, match=message):
        load_state(latest.path, into, alone=True)
    assert not (tmp_path / "made").exists()
    del into["progress"]["lr"]
    checkpoints.load(latest, into)
    assert into == {"progress": {"betas": (0.9, 0.99), "name": None}}


def test_a_state_of_another_shape_is_refused(manager):
    checkpoints = manager()
    checkpoints.save(1, state(1))
    with pytest.raises(CheckpointError, match=r"step-00000001: cannot be loaded: .*Fix:"):
        checkpoints.load(checkpoints.find_latest(), {"model": {"other": torch.zeros(1)}})


def test_a_full_disk_is_reported_and_leaves_the_former_checkpoint(manager, tmp_path, monkeypatch):
    checkpoints = manager()
    checkpoints.save(1, state(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, limits[1]))
    try:
        with pytest.raises(
            CheckpointError, match=r"not saved: rank 0: .*; a checkpoint takes about 0\.4 MB, .* are free in"
        ) as error:
            checkpoints.save(2, {"model": {"w": torch.zeros(100_000)}})
        assert "Fix" not in str(error.value), "this disk has more space than that"
        usage = SimpleNamespace(free=300_000, used=0, total=2_000_000)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
        with pytest.raises(CheckpointError, match=r"are free in .*\. Fix: more space, or a lower --keep_latest_k"):
            checkpoints.save(2, {"model": {"w": torch.zeros(100_000)}})
        with pytest.raises(CheckpointError, match=r"are free in .*\. Fix: more space$"):
            manager(keep_latest_k=1).save(2, {"model": {"w": torch.zeros(100_000)}})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path) == ["step-00000001"]
    assert checkpoints.find_latest().step == 1


def test_a_folder_that_vanished_is_reported(manager, tmp_path):
    checkpoints = manager()
    tmp_path.rmdir()
    try:
        with pytest.raises(CheckpointError, match="No such file or directory"):
            checkpoints.save(1, state(1))
    finally:
        tmp_path.mkdir()


def test_a_kill_at_any_file_operation_leaves_a_whole_checkpoint(tmp_path):
    script = Path(__file__).with_name("kill_during_save.py")
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(root), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    kills = [json.loads(line) for line in done.stdout.splitlines()]
    assert {kill["operation"] for kill in kills} >= {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
    assert all(kill["whole"] and not kill["leftovers"] for kill in kills), kills
    steps = [kill["step"] for kill in kills]
    assert steps == sorted(steps), "once step 2 is complete, a later kill must not take it away"
    assert set(steps) == {1, 2}
