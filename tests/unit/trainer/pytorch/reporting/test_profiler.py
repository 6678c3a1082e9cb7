"""Windows of the profiler in real runs of one process."""

from __future__ import annotations

import gzip
import json
import resource
import signal
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from tests.unit.trainer.pytorch.small_runs import StopAt
from trainer.pytorch.distributed import DistributedConfig
from trainer.pytorch.loop import Trainer
from trainer.pytorch.reporting.config import ProfileConfig, ReportConfig
from trainer.pytorch.reporting.profiler import StepProfiler

pytestmark = pytest.mark.long


def run(config, stop_at: int | None = None) -> list[dict]:
    """Train; return the events `profiled`."""
    trainer = Trainer(config)
    try:
        trainer.train(StopAt(trainer, stop_at))
    finally:
        trainer.close()
    lines = [json.loads(line) for line in (config.folders.logs / "rank-00000.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == "profiled"]


def profiled(**profile) -> ReportConfig:
    return ReportConfig(profile=ProfileConfig(**profile))


def traces(config) -> list[str]:
    return sorted(path.name for path in config.folders.logs.iterdir() if path.name[0] == "." or "trace" in path.name)


def test_a_window_is_a_trace_that_perfetto_reads_and_a_table_of_operators(small, caplog):
    caplog.set_level("INFO", logger="trainer")
    config = small(report=profiled(profile_steps=2, profile_start_step=4))
    [event] = run(config)
    assert traces(config) == ["trace-rank-00000-steps-4-5.json.gz"]
    assert (event["first_step"], event["step"]) == (4, 5)
    assert event["trace"] == str(config.folders.logs / "trace-rank-00000-steps-4-5.json.gz")
    # the JSON of Chrome's Trace Event Format
    events = json.loads(gzip.decompress((config.folders.logs / traces(config)[0]).read_bytes()))["traceEvents"]
    names = [each["name"] for each in events if each.get("cat") == "cpu_op"]
    # once in each recorded step, and not in the others
    assert names.count("aten::nll_loss_forward") == 2
    assert all(each["dur"] >= 0 for each in events if each["ph"] == "X")
    [table] = [message for message in caplog.messages if message.startswith("the 10 costliest operators:\n")]
    rows = [
        line for line in table.splitlines() if line.lstrip().startswith(("aten::", "autograd::", "Optimizer", "c10d"))
    ]
    assert 5 <= len(rows) <= 10
    assert "aten::mkldnn_convolution" in table or "aten::convolution" in table


def test_other_steps_are_the_same_with_and_without_a_profiler(small, tmp_path):
    losses = []
    for name, report in (("plain", ReportConfig()), ("profiled", profiled(profile_steps=3, profile_start_step=3))):
        config = small(output_dir=tmp_path / name, report=report)
        run(config)
        lines = [json.loads(line) for line in (config.folders.logs / "rank-00000.jsonl").read_text().splitlines()]
        losses.append([line["loss"] for line in lines if line["event"] == "step"])
    assert losses[0] == losses[1]


def test_a_run_that_stops_within_the_window_writes_what_it_has(small):
    config = small(report=profiled(profile_steps=50, profile_start_step=3))
    [event] = run(config, stop_at=5)
    assert event["step"] == 5
    assert traces(config) == ["trace-rank-00000-steps-3-5.json.gz"]


@pytest.mark.parametrize("stopped_at", [3, 4])
def test_a_run_that_stops_before_the_window_and_resumes_records_nothing(small, stopped_at):
    config = small(report=profiled(profile_steps=2, profile_start_step=5))
    assert run(config, stop_at=stopped_at) == []
    assert run(config) == []
    assert traces(config) == []


def test_the_ranks_that_are_not_named_record_nothing(small, caplog):
    caplog.set_level("INFO", logger="trainer")
    config = small(report=profiled(profile_steps=2, profile_ranks=(1, 2)))
    assert run(config) == []
    assert "costliest" not in caplog.text


def test_of_several_ranks_one_prints_the_table(tmp_path, caplog):
    caplog.set_level("INFO", logger="trainer")
    events = SimpleNamespace(write=lambda *_, **__: None)
    config = ProfileConfig(profile_steps=1, profile_start_step=3, profile_ranks=(2, 1))
    for rank in (1, 2):
        profiler = StepProfiler(config, rank=rank, device=torch.device("cpu"), folder=tmp_path)
        for step in (1, 2, 3):
            torch.ones(8, 8).exp()
            profiler.on_step(step, events)
    assert caplog.text.count("costliest") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"trace-rank-0000{rank}-steps-3-3.json.gz" for rank in (1, 2)
    ]


@pytest.mark.parametrize("ranks", [(0,), (1,)], ids=["this rank records", "another one does"])
def test_a_trace_is_written_within_the_limit_of_a_checkpoint_on_every_rank(small, monkeypatch, ranks):
    limits: list[tuple[int, float]] = []
    own = DistributedConfig(init_timeout_seconds=900, train_timeout_seconds=60, checkpoint_timeout_seconds=700)
    report = profiled(profile_start_step=5, profile_steps=2, profile_ranks=ranks)
    trainer = Trainer(small(distributed=own, report=report))
    monkeypatch.setattr(dist, "set_timeout", lambda limit: limits.append((trainer.step + 1, limit.total_seconds())))
    trainer.train(SimpleNamespace(requested=False, arrived=lambda: False))
    trainer.close()
    # the step at whose end it is written, and the next one, in which the other ranks wait for the one that writes
    assert [limit for limit in limits if 4 < limit[0] < 9] == [(5, 700), (5, 60), (6, 700), (8, 60)]


@pytest.fixture
def full_disk():
    """Let files become no larger than 20,000 bytes, which ends writing with EFBIG."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_costs_the_trace_and_leaves_no_part_of_it(tmp_path, caplog, full_disk):
    caplog.set_level("WARNING", logger="trainer")
    profiler = StepProfiler(
        ProfileConfig(profile_steps=1, profile_start_step=3), rank=0, device=torch.device("cpu"), folder=tmp_path
    )
    profiler.on_step(1, None)
    profiler.on_step(2, None)
    for _ in range(300):
        torch.ones(8, 8).exp()
    full_disk()
    profiler.on_step(3, None)
    assert "trace-rank-00000-steps-3-3.json.gz: trace not written: torch could not write it" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_the_trace(tmp_path, caplog):
    caplog.set_level("WARNING", logger="trainer")
    config = ProfileConfig(profile_steps=1, profile_start_step=3)
    profiler = StepProfiler(config, rank=0, device=torch.device("cpu"), folder=tmp_path / "gone")
    for step in (1, 2, 3):
        profiler.on_step(step, None)
    assert "trace not written" in caplog.text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"profile_steps": 101}, r"profile_steps=101: must be from 0 to 100"),
        ({"profile_start_step": 2}, r"profile_start_step=2: must be at least 3"),
        ({"profile_ranks": (0, -1)}, r"profile_ranks=-1: must be at least 0"),
        ({"profile_steps": 1, "profile_ranks": ()}, r"profile_ranks=\(\): nobody records the 1 steps\. Fix: "),
    ],
)
def test_windows_without_a_meaning_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        ProfileConfig(**values)


def test_a_window_after_the_end_is_refused_before_training(small):
    with pytest.raises(ValueError, match=r"profile_start_step=12: the run has 11 steps\. Fix: an earlier step"):
        Trainer(small(report=profiled(profile_steps=1, profile_start_step=12)))
