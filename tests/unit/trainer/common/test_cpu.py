from __future__ import annotations

import os

import pytest

from trainer.common import cpu


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 4),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({"cpu.max": "6400000 100000\n"}, 4),
        ({}, 4),
    ],
)
def test_usable_cores_are_the_containers_not_the_nodes(tmp_path, monkeypatch, files, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3})
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu.usable_cores(tmp_path) == cores


@pytest.mark.parametrize(("variable", "threads"), [("3", 3), ("", 2), ("0", 2), ("nonsense", 2)])
def test_threads_are_what_the_user_says_or_a_fair_share(tmp_path, monkeypatch, variable, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3})
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert cpu.threads_per_process(2, tmp_path) == threads
