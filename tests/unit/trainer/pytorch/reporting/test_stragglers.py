"""The slowest rank; two real ranks are in ../test_torchrun.py."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest
import torch

from trainer.pytorch.reporting.config import StragglerConfig
from trainer.pytorch.reporting.reporter import Reporter
from trainer.pytorch.reporting.stragglers import RankTimes, Stragglers, slowest
from trainer.training.metrics import StepReport


def times(own: float, host: str = "w", data_wait: float = 0.0) -> RankTimes:
    return RankTimes(host=host, own=own, data_wait=data_wait, step=0.5)


def report(step: int, own: float, data_wait: float = 0.0) -> StepReport:
    return StepReport(step=step, epoch=0, step_seconds=0.5, samples=8, own_seconds=own, data_wait_seconds=data_wait)


class Others:
    """A process group of this rank and others, whose times are given."""

    def __init__(self, *others: RankTimes) -> None:
        self.world_size = 1 + len(others)
        self.gathered: list[RankTimes] = []
        self._others = others

    def gather(self, own: RankTimes) -> list[RankTimes]:
        self.gathered.append(own)
        return [own, *self._others]


def test_the_slowest_rank_is_named_with_its_host_and_what_it_costs():
    worst = slowest([times(0.1), times(0.12), times(0.3, host="train-worker-2", data_wait=0.2), times(0.11)])
    assert (worst.rank, worst.median_own) == (2, 0.11)
    assert worst.fields() == {
        "slowest_rank": 2,
        "host": "train-worker-2",
        "ratio": pytest.approx(0.3 / 0.11),
        "own_seconds": 0.3,
        "median_own_seconds": 0.11,
        "data_wait_seconds": 0.2,
        "others_wait_seconds": pytest.approx(0.39),
    }


def test_of_two_ranks_the_slower_one_is_compared_with_the_other():
    assert slowest([times(0.4), times(0.2)]).ratio == 2


def test_ranks_compare_the_means_since_the_last_time_without_the_first_step():
    group = Others(times(0.1))
    stragglers = Stragglers(StragglerConfig(straggler_interval_steps=3), group)
    results = [stragglers.on_step(report(step, own)) for step, own in enumerate((9, 0.2, 0.4, 1, 1, 4), start=1)]
    assert [result is not None for result in results] == [False, False, True, False, False, True]
    assert [own.own for own in group.gathered] == pytest.approx([0.3, 2])
    assert group.gathered[0].host == socket.gethostname()
    assert (results[2].rank, results[2].ratio) == (0, pytest.approx(3))


def test_a_process_whose_first_step_ends_an_interval_has_nothing_to_compare():
    group = Others(times(0.1))
    stragglers = Stragglers(StragglerConfig(straggler_interval_steps=10), group)
    assert stragglers.on_step(report(20, 0.2)) is None
    assert group.gathered == []


@pytest.mark.parametrize(("interval", "others"), [(0, (times(0.1),)), (1, ())])
def test_nobody_compares_where_it_is_switched_off_or_a_rank_is_alone(interval, others):
    group = Others(*others)
    stragglers = Stragglers(StragglerConfig(straggler_interval_steps=interval), group)
    assert [stragglers.on_step(report(step, 0.2)) for step in (1, 2, 3)] == [None] * 3
    assert group.gathered == []


def test_only_a_rank_that_is_much_slower_is_logged_but_the_metric_is_always_there(small):
    config = small()
    config.folders.logs.mkdir(parents=True)
    distributed = SimpleNamespace(rank=0, local_rank=0, world_size=2, is_main=True, device=torch.device("cpu"))
    reporter = Reporter(distributed, config.report, config.reported_run())
    try:
        for step, own in ((5, 0.12), (6, 0.15)):
            reporter._report_slowest(step, slowest([times(0.1), times(own)]))
        value = reporter.metrics.registry.get_sample_value
        labels = {"run": "small", "rank": "0"}
        assert value("athanor_training_slowest_rank", labels) == 1
        assert value("athanor_training_slowest_rank_ratio", labels) == pytest.approx(1.5)
    finally:
        reporter.close()
    [line] = reporter.events.path.read_text().splitlines()
    assert '"event": "slow_rank"' in line
    assert '"step": 6' in line


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"straggler_interval_steps": -1}, r"straggler_interval_steps=-1: must be at least 0"),
        ({"straggler_ratio": 0.9}, r"straggler_ratio=0\.9: must be at least 1"),
    ],
)
def test_values_without_a_meaning_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        StragglerConfig(**values)
