"""The hardware check: each of its steps as a miniature on the CPU, its time, and what it reports."""

from __future__ import annotations

import contextlib
import json
import threading
import warnings
from types import SimpleNamespace

import pytest
import torch

from trainer.common.validation import SettingsError
from trainer.hardware_check import __main__ as program
from trainer.hardware_check import (
    more_steps,
    observed_training,
    older_torch,
    report,
    steps,
    torchscript_speed,
    training_steps,
)
from trainer.hardware_check.site import FULL, MINIATURE, Site, SkippedError, StepError
from trainer.helpers import hardware
from trainer.network_benchmark.all_reduce import AllReduce
from trainer.network_benchmark.result import read_all
from trainer.pytorch.config import parse

pytestmark = pytest.mark.long

STEPS = (
    *(
        "machine",
        "digits",
        "plain-loop-nano",
        "gpt-nano-fp32",
        "checkpoint",
        "sharded",
        "lost-rank",
        "network",
        "stop-and-resume",
    ),
    *("out-of-memory", "images-workers", "server", "gpt-nano-bf16-compiled"),
)
"""One of each kind: of the others, the command lines and what is made of the results are tested below."""


@pytest.fixture(scope="module")
def launch(trainer_imported):
    """Start programs in processes that have imported torch already."""
    started = []

    def start(words, output, variables):
        process = trainer_imported.start(*words, variables={"PYTHONPATH": "", **variables})

        def copy() -> None:
            with output.open("a") as file:
                for line in process.stdout:
                    file.write(line)
                    file.flush()
            process.stdout.close()

        thread = threading.Thread(target=copy)
        thread.start()
        started.append((process, thread))
        return process

    yield start
    for process, thread in started:
        thread.join()
        process.wait()


@pytest.fixture(scope="module")
def done(launch, tmp_path_factory):
    """The whole check on a machine without GPUs: the results of its steps by name."""
    folder = tmp_path_factory.mktemp("check")
    (folder / "work").mkdir()
    config = program.HardwareCheckConfig(minutes=10, output=folder / "report.json", steps=STEPS)
    site = Site(folder / "work", MINIATURE, gpus=0, launch=launch)
    results = {each.name: each for each in program.check(config, site)}
    return SimpleNamespace(results=results, folder=folder, site=site)


def test_every_step_works_as_a_miniature_or_says_what_it_lacks(done):
    assert {name: each.reason for name, each in done.results.items() if each.outcome == "failed"} == {}
    assert {name: each.reason for name, each in done.results.items() if each.outcome == "skipped"} == {
        "out-of-memory": "no GPU: on a CPU the kernel ends a process without a message",
        "gpt-nano-bf16-compiled": "compiling takes longer than a miniature",
    }


def test_what_the_steps_measured(done):
    figures = {name: each.figures for name, each in done.results.items()}
    assert figures["digits"]["device"] == "cpu"
    assert figures["digits"]["accuracy"] > 0.3
    assert figures["gpt-nano-fp32"]["tokens_per_second"] > 0
    assert figures["gpt-nano-fp32"]["synchronisations_per_step"] == 0
    assert 0 <= figures["gpt-nano-fp32"]["data_wait"] < 1
    assert figures["plain-loop-nano"]["tokens_per_second"] > 0
    assert figures["checkpoint"]["equal"]
    assert figures["checkpoint"]["values"] > 20
    assert (figures["stop-and-resume"]["resumed_at_step"], figures["stop-and-resume"]["steps"]) == (5, 8)
    assert figures["stop-and-resume"]["losses_equal"]
    assert figures["machine"]["torch"] is None or figures["machine"]["torch"]["gpus"] == []
    assert figures["sharded"]["tokens_per_second"] > 0
    assert figures["network"]["backend"] == "gloo"
    assert figures["network"]["largest_bytes"] == MINIATURE.largest_all_reduce
    assert figures["images-workers"]["samples_per_second"] > 0
    assert "another rank is gone" in figures["lost-rank"]["error"]
    assert figures["server"]["requests_per_second"] > 0


def test_two_ranks_did_what_needs_two_ranks(done):
    """Their ranks saw each other: one alone would measure the same figures."""
    sharded = done.site.folder / "sharded"
    assert {file.name for file in sharded.glob("observed-*.json")} == {"observed-0.json", "observed-1.json"}
    [result] = read_all(done.site.folder / "network")
    assert (result.world_size, result.network) == (2, "this-machine")


def test_the_report_shows_each_step_as_json_and_as_a_table(done):
    content = json.loads((done.folder / "report.json").read_text())
    assert [each["name"] for each in content["steps"]] == list(done.results) == list(STEPS)
    text = (done.folder / "report.md").read_text()
    assert "no GPU: miniatures on the CPU" in text
    header, *rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert header == "| step | result | seconds | figures |"
    for row, each in zip(rows, content["steps"], strict=True):
        assert each["figures"] == json.loads(json.dumps(done.results[each["name"]].figures))
        assert row.startswith(f"| {each['title']} | {each['outcome']} | {each['seconds']:g} | ")
        if each["outcome"] == "skipped":
            assert each["reason"] in row
        # A figure that has no place in a table is in the JSON alone.
        in_table = set(each["figures"]) - set(report._LEFT_TO_JSON)
        missing = [name for name in in_table if each["figures"][name] and report._words(name) not in row]
        assert missing == [], each["name"]


def test_a_checkpoint_with_other_bits_is_noticed(done, monkeypatch):
    stored = training_steps._stored

    def changed(folder, step):
        values = stored(folder, step)
        if folder.name == "checkpoint-async" and step == 4:
            name = next(name for name, each in values.items() if isinstance(each, torch.Tensor) and each.ndim == 2)
            values[name] = values[name].clone()
            values[name][0, 0] += 1e-6
        return values

    monkeypatch.setattr(training_steps, "_stored", changed)
    monkeypatch.setattr(Site, "trained", lambda *_, **__: SimpleNamespace(events=lambda _kind: []))
    with pytest.raises(StepError, match=r"step 4: 1 of .* values differ, such as"):
        training_steps.checkpoint(done.site)


class Process:
    """One that runs until it is killed, or has ended with a status."""

    def __init__(self, status=None):
        self.status, self.signals = status, []

    def poll(self):
        return self.status

    def send_signal(self, number):
        self.signals.append(number)

    def kill(self):
        self.status = -9


@pytest.fixture
def site(tmp_path):
    """A site whose next process is `site.process`."""

    def launch(_words, output, variables):
        output.write_text("what it said\n")
        made.variables.append(variables)
        return made.process

    made = Site(tmp_path, MINIATURE, gpus=4, launch=launch)
    made.process, made.variables = Process(), []
    return made


def step(run, seconds=60.0):
    return steps.Step(name="step", title="A step", seconds=seconds, run=run)


def test_a_step_that_takes_too_long_is_ended_and_the_next_one_begins(site):
    def hang(site):
        site.finished(site.start("hang", ("module",)))

    hanging, other = steps.results([step(hang, 0.1), step(lambda _: {"x": 1})], site, seconds=60)
    assert (hanging.outcome, other.outcome, other.figures) == ("failed", "done", {"x": 1})
    assert hanging.reason == "its time was over before the end of it:\nwhat it said"
    assert site.process.status == -9


def test_a_step_that_the_end_of_the_check_cuts_off_says_so(site):
    def hang(site):
        site.allow(0.1)
        site.finished(site.start("hang", ("module",)))

    [result] = steps.results([step(hang, 60)], site, seconds=30)
    assert (result.outcome, result.reason) == ("skipped", "no time left; give more --minutes")


def test_a_step_that_has_no_time_left_is_not_begun(site):
    [result] = steps.results([step(lambda _: pytest.fail("it began"))], site, seconds=1)
    assert (result.outcome, result.reason) == ("skipped", "no time left; give more --minutes")


def test_what_a_step_raises_is_its_own_result(site):
    def skips(_site):
        raise SkippedError("one GPU")

    def breaks(_site):
        raise KeyError("loss")

    skipped, broken = steps.results([step(skips), step(breaks)], site, seconds=60)
    assert (skipped.outcome, skipped.reason) == ("skipped", "one GPU")
    assert (broken.outcome, broken.reason) == ("failed", "KeyError: 'loss'")


def test_a_program_sees_as_many_gpus_as_it_has_ranks(site, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    site.start("one", ("module",))
    site.start("two", ("module",), ranks=2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-5,GPU-7")
    site.start("given", ("module",))
    assert [each["CUDA_VISIBLE_DEVICES"] for each in site.variables] == ["0", "0,1", "0,1", "GPU-5"]
    assert [(each.get("RANK"), each.get("WORLD_SIZE")) for each in site.variables] == [
        *((None, None), ("0", "2"), ("1", "2"), (None, None))
    ]


def test_two_gpus_are_needed_for_what_two_ranks_do(site):
    site.gpus = 1
    for run in (more_steps.sharded, more_steps.lost_rank, more_steps.network):
        with pytest.raises(SkippedError, match="shows one GPU, and the step needs two"):
            run(site)


def test_waits_for_a_gpu_are_counted_by_step_and_place(monkeypatch, tmp_path):
    modes = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    observed = observed_training.Observed()
    with observed.step(torch.device("cuda", 0)):
        for _ in range(2):
            warnings.warn("called a synchronizing CUDA operation (function warn)", stacklevel=1)
    with observed.step(torch.device("cuda", 0)):
        pass
    observed.write(tmp_path)
    seen = json.loads((tmp_path / "observed-0.json").read_text())
    assert modes == ["warn", "default"] * 2
    assert (seen["device"], seen["synchronisations"]) == ("cuda:0", [2, 0])
    assert [(place.rpartition("/")[2].partition(":")[0], n) for place, n in seen["places"].items()] == [
        ("test_hardware_check.py", 2)
    ]


def test_too_little_memory_must_say_what_helps(site, monkeypatch):
    monkeypatch.setattr(training_steps, "gpt_options", lambda *_: ())
    monkeypatch.setattr(site, "_launch", lambda _words, output, _variables: (output.write_text(said), Process(1))[1])
    said = "out of memory: needs 5 GiB. Fix: a lower --batch_size"
    assert training_steps.out_of_memory(site) == {"status": 1, "message": said}
    said = "Traceback\nout of memory. Fix: x"
    with pytest.raises(StepError, match="does not say what helps"):
        training_steps.out_of_memory(site)


def test_a_step_that_does_not_exist_is_refused_by_name(site, tmp_path):
    config = program.HardwareCheckConfig(output=tmp_path / "report.json", steps=("speed",))
    with pytest.raises(SettingsError, match="steps=speed: must be of machine, digits"):
        program.check(config, site)


def test_a_table_cell_holds_what_a_step_said():
    results = [
        steps.Result(name="a", title="A", outcome="failed", seconds=1.5, reason="one | two\nthree"),
        steps.Result(
            name="b",
            title="B",
            outcome="done",
            figures={"memory_peak_bytes": 2_500_000_000, "least_bytes": 4_096, "mfu": 0.41},
        ),
    ]
    content = report.document(results, date="today", minutes=1, torch_version="2.15")
    rows = report.markdown(json.loads(json.dumps(content))).splitlines()[-2:]
    assert rows == [
        "| A | failed | 1.5 | one \\| two / three |",
        "| B | done | 0 | memory peak 2.50 GB, least 4.10 kB, mfu 0.41 |",
    ]


def test_steps_come_in_the_order_of_what_they_tell():
    names = [each.name for each in steps.all_steps(("125m", "350m"))]
    assert names[:4] == ["machine", "digits", "gpt-125m-bf16", "gpt-350m-bf16"]
    assert names[-1] == "gpt-350m-bf16-deterministic"
    assert len(set(names)) == len(names)


def test_the_trainer_accepts_the_command_line_of_every_step(site):
    asked = []

    def launch(words, _output, _variables):
        asked.append(words)
        return Process(1)

    site._launch, site.gpus = launch, 0
    site.allow(60)
    for each in steps.all_steps(("nano",)):
        if each.name.startswith(("gpt", "images", "sharded", "lost")):
            with contextlib.suppress(SkippedError, StepError):
                each.run(site)
    trained = [words for words in asked if words[0] == "trainer.hardware_check.observed_training"]
    configs = [parse(words[3:]) for words in trained]
    assert {config.precision.precision for config in configs} == {"fp32", "bf16", "bf16_autocast"}
    assert {config.data.workers for config in configs} == {None, 0, MINIATURE.image_workers}
    assert {config.parallel.data_parallel_shard for config in configs} == {1, 2}
    assert {config.precision.float32_matmul for config in configs} == {"highest", "high"}
    assert all(config.checkpoint.checkpoint_interval_steps > MINIATURE.steps for config in configs)


def test_the_figures_of_the_network_are_those_of_its_benchmark(site, monkeypatch):
    sizes = [
        AllReduce(num_bytes=size, microseconds=10.04, algorithm_gb_per_second=1, bus_gb_per_second=size / 1e9)
        for size in (1024, 1 << 30)
    ]
    result = SimpleNamespace(backend="nccl", all_reduce=sizes)
    monkeypatch.setattr(more_steps, "read_all", lambda _folder: [result])
    site.process = Process(0)
    site.allow(60)
    assert more_steps.network(site) == {
        "backend": "nccl",
        "smallest_microseconds": 10.0,
        "largest_bytes": 1 << 30,
        "bus_gb_per_second": 1.07,
    }


def test_torchscript_on_a_cpu():
    figures = torchscript_speed.measured("cpu")
    assert figures["fp32_images_per_second"] > 0
    assert "fp16_images_per_second" not in figures


def test_an_older_torch_dumps_collectives_to_the_same_file(monkeypatch, tmp_path):
    asked = []

    def dump(**options) -> bytes:
        asked.append(options)
        return b"pickled"

    older = SimpleNamespace(_dump_nccl_trace=dump, _dump_fr_trace=None)
    monkeypatch.setattr(older_torch, "c10d", older)
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", str(tmp_path / "rank-"))
    monkeypatch.delattr(torch.distributed, "set_timeout")
    older_torch.adapt()
    assert torch.distributed.set_timeout is torch.distributed.distributed_c10d._set_pg_timeout
    older._dump_fr_trace_file(3, includeStackTraces=False, backend="nccl")
    assert (tmp_path / "rank-3").read_bytes() == b"pickled"
    assert asked == [{"includeCollectives": True, "includeStackTraces": False, "onlyActive": False}]


def test_what_the_machine_reports_decides_the_batch(site):
    gpu = {"name": "NVIDIA A10", "memory_bytes": 23_000_000_000}
    line = json.dumps({hardware.KEY: {"torch": {"gpus": [gpu]}, "driver": "580"}})
    site._launch = lambda _words, output, _variables: (output.write_text(f"started\n{line}\n"), Process(0))[1]
    site.scale = FULL
    site.allow(60)
    assert more_steps.machine(site)["driver"] == "580"
    assert site.gpt_batch == FULL.gpt_batch // 2
    line = json.dumps({hardware.KEY: {"torch": {"gpus": []}, "driver": None}})
    with pytest.raises(StepError, match="torch sees 0 GPUs"):
        more_steps.machine(site)
