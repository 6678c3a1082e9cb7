from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trainer.network_benchmark import report
from trainer.network_benchmark.__main__ import build_model, images_per_second, main
from trainer.network_benchmark.all_reduce import LARGEST_BYTES, AllReduce, WrongSumError, bandwidths, measure, sizes
from trainer.network_benchmark.config import parse
from trainer.network_benchmark.result import FOLDER, Result, read_all, write

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[4]


def all_reduce(num_bytes: int, microseconds: float, bus: float) -> AllReduce:
    return AllReduce(num_bytes=num_bytes, microseconds=microseconds, algorithm_gb_per_second=bus, bus_gb_per_second=bus)


def result(network: str = "shared-eni", **changes) -> Result:
    measured = {
        "network": network,
        "run_name": "r",
        "date": "2026-01-01T00:00:00+00:00",
        "world_size": 16,
        "ranks_per_pod": 8,
        "backend": "nccl",
        "device": "NVIDIA V100",
        "hosts": ["a", "b"],
        "torch_version": "2.15.0",
        "all_reduce": [all_reduce(1024, 20.0, 0.1), all_reduce(4096, 30.0, 2.0)],
        "image_batch_size": 32,
        "image_width": 16,
        "images_per_second_per_rank": 10.0,
    }
    return Result(**{**measured, **changes})


@pytest.fixture
def output(tmp_path) -> Path:
    (tmp_path / FOLDER).mkdir()
    return tmp_path


def test_sizes_are_powers_of_4_up_to_the_largest():
    assert sizes(1024) == [1024]
    assert sizes(4095) == [1024]
    assert sizes(64 * 2**20) == [2**exponent for exponent in range(10, 27, 2)]
    assert [sizes(LARGEST_BYTES[kind])[-1] for kind in ("cpu", "cuda")] == [2**26, 2**30]


@pytest.mark.parametrize(("world_size", "factor"), [(2, 1.0), (4, 1.5), (16, 1.875)])
def test_bandwidths_are_those_of_nccl_tests(world_size, factor):
    algorithm, bus = bandwidths(2_000_000_000, 0.5, world_size)
    assert algorithm == 4.0
    assert bus == pytest.approx(4.0 * factor)


def test_wrong_sum_is_refused(alone, monkeypatch):
    monkeypatch.setattr(alone, "sum", lambda buffer: buffer.mul_(2))
    with pytest.raises(WrongSumError, match="1024 bytes over 1 ranks"):
        measure(1024, 1, alone)


def test_time_is_the_median_of_the_rounds(alone, monkeypatch):
    ticks = iter([0, 1, 10, 15, 20, 120])  # rounds of 1, 5 and 100 seconds, 5 calls each
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks))
    measured = measure(4096, 3, alone)
    assert measured.microseconds == 1e6
    assert measured.algorithm_gb_per_second == pytest.approx(4096 / 1e9)


def test_images_per_second_counts_the_images_of_a_step(alone, monkeypatch):
    ticks = iter([0.0, 0.5])
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks))
    assert images_per_second(steps=1, batch_size=2, width=2, distributed=alone) == 4.0


def test_model_is_small_and_takes_32_by_32_images():
    model = build_model(16)
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    assert size == pytest.approx(1160 * 16**2, rel=0.05)


def test_result_is_read_back_as_it_was_written(output):
    written = result(images_per_second_per_rank=None)
    path = write(written, output)
    assert path == output / "network/shared-eni.json"
    assert read_all(output) == [written]
    write(result(run_name="later"), output)
    assert [read.run_name for read in read_all(output)] == ["later"]


def test_oldest_result_comes_first_and_foreign_files_are_left_out(output):
    write(result("a", date="2026-01-02T00:00:00+00:00"), output)
    write(result("b", date="2026-01-01T00:00:00+00:00"), output)
    document = {"format_version": 1, **dataclasses.asdict(result("c"))}
    for name, content in {
        "broken": "{",
        "newer": json.dumps({**document, "format_version": 2}),
        "lacking": json.dumps({name: document[name] for name in document if name != "hosts"}),
    }.items():
        (output / FOLDER / f"{name}.json").write_text(content)
    assert [read.network for read in read_all(output)] == ["b", "a"]


def test_report_compares_all_networks_with_the_first(output, capsys):
    write(result("host", images_per_second_per_rank=8.0), output)
    faster = [all_reduce(1024, 10.0, 0.2), all_reduce(4096, 15.0, 3.0), all_reduce(16384, 1.0, 1.0)]
    write(result("shared-eni", date="2026-01-02", all_reduce=faster), output)
    write(result("no-images", date="2026-01-03", images_per_second_per_rank=None), output)
    write(result("fewer-ranks", date="2026-01-04", world_size=8), output)
    assert report.main(["--output_dir", str(output)]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    header, *rows = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert header[5:] == ["1 KiB us", "x", "4 KiB busbw GB/s", "x", "images/s", "x"]
    assert [[row[0], *row[5:]] for row in rows] == [
        ["host", "20.0", "1.000", "2.000", "1.000", "128.0", "1.000"],
        ["shared-eni", "10.0", "0.500", "3.000", "1.500", "160.0", "1.250"],
        ["no-images", "20.0", "1.000", "2.000", "1.000", "-", "-"],
        ["fewer-ranks", "20.0", "-", "2.000", "-", "80.0", "-"],
    ]


def test_report_without_results_says_how_to_get_some(tmp_path, capsys):
    assert report.main(["--output_dir", str(tmp_path)]) == 1
    assert "no results in network/. Fix: run trainer.network_benchmark" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(512, "512 B"), (1024, "1 KiB"), (1536, "1536 B"), (64 * 2**20, "64 MiB"), (2**40, "1024 GiB")],
)
def test_sizes_are_printed_in_whole_units(num_bytes, text):
    assert report.size_text(num_bytes) == text


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--network=../x", "network='../x': must be"),
        ("--max_bytes=1023", "max_bytes=1023: must be at least 1024"),
        ("--rounds=0", "rounds=0: must be at least 1"),
        ("--image_steps=-1", "image_steps=-1: must be at least 0"),
    ],
)
def test_refuses_what_cannot_be_measured(argument, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        parse(["--network=eni", "--output_dir=/nowhere", argument])
    assert exit_.value.code == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_one_process_alone_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["network_benchmark", "--network=eni", f"--output_dir={tmp_path}"])
    with pytest.raises(SystemExit, match=r"world_size=1: .* Fix: torchrun with two workers or more"):
        main()


def test_two_processes_measure_and_compare(output):
    write(result("host", date="2020-01-01T00:00:00+00:00"), output)
    launcher = ["-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2", "--rdzv-backend=c10d"]
    program = ["--rdzv-endpoint=127.0.0.1:0", "-m", "trainer.network_benchmark", "--network=shared-eni"]
    options = [f"--output_dir={output}", f"--work_dir={output}/work", "--data_dir=/unused", "--num_gpu=0"]
    small = ["--run_name=r2", "--max_bytes=16384", "--rounds=3", "--image_steps=2", "--image_width=2"]
    done = subprocess.run(
        [sys.executable, *launcher, *program, *options, *small],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    _, measured = read_all(output)
    assert (measured.network, measured.run_name) == ("shared-eni", "r2")
    assert (measured.world_size, measured.ranks_per_pod, measured.backend, measured.device) == (2, 2, "gloo", "cpu")
    assert [size.num_bytes for size in measured.all_reduce] == [1024, 4096, 16384]
    assert all(size.bus_gb_per_second == size.algorithm_gb_per_second > 0 for size in measured.all_reduce)
    assert measured.images_per_second > 0
    assert report.all_reduce_table(measured) in done.stdout
    assert report.comparison(read_all(output)) in done.stdout
    logs = [json.loads(line) for line in (output / "r2/logs/rank-00001.jsonl").read_text().splitlines()]
    assert [line["event"] for line in logs] == ["all_reduce"] * 3 + ["finished"]
