"""Lines of pods find their way into the store and out of it: the real collector and store, on files like a node's."""

from __future__ import annotations

import json
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from athanor.inspection.log_store import Origin, RejectedQueryError, origin
from infra.monitoring.logs import (
    CONTAINER_FIELD,
    JOB_FIELD,
    LEVEL_FIELD,
    MESSAGE_FIELD,
    NAMESPACE_FIELD,
    NODE_FIELD,
    POD_FIELD,
    RANK_FIELD,
    RUN_FIELD,
    STEP_FIELD,
    TIME_FIELD,
)
from tests.fixtures.local_cluster import quiet_progress
from tests.fixtures.log_node import NODE
from tests.fixtures.log_pipeline import COLLECTOR, STORE, LogPipeline
from tools.operations import past_logs
from tools.operations.search_logs import Search, search
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

RUN = "digits-0a1b2c3d"
POD = f"{RUN}-worker-0"
LABELS = {"athanor.dev/job": "digits", "volcano.sh/job-name": RUN}
EVERY_LINE = "*"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return ensure([STORE, COLLECTOR], quiet_progress(tmp_path_factory.mktemp("progress")))


@pytest.fixture
def pipeline(programs: Mapping[str, Path], tmp_path: Path) -> Iterator[LogPipeline]:
    log_pipeline = LogPipeline(programs, tmp_path)
    with log_pipeline.node.serve(log_pipeline.kubeconfig):
        try:
            log_pipeline.start(STORE)
            yield log_pipeline
        finally:
            log_pipeline.close()


def numbered(start: int, stop: int) -> list[str]:
    return [f"line {number:05}" for number in range(start, stop)]


def texts(pipeline: LogPipeline, count: int) -> Counter[str]:
    return Counter(row[MESSAGE_FIELD] for row in pipeline.rows(EVERY_LINE, count))


def test_a_line_is_found_by_what_it_says_and_by_whose_it_is(pipeline: LogPipeline) -> None:
    pipeline.node.start_pod(POD, LABELS)
    said = {"time": "2020-01-01T00:00:00Z", "level": "info", "message": "step loss=0.25", "job": "digits", "rank": 3}
    pipeline.node.write(POD, json.dumps({**said, "step": 7, "loss": 0.25}), "plain \x1b[31mred\x1b[0m", "x" * 40_000)
    pipeline.start(COLLECTOR)
    pipeline.rows(EVERY_LINE, 3)
    filters = {JOB_FIELD: "digits", RUN_FIELD: RUN, RANK_FIELD: "3", STEP_FIELD: "7", LEVEL_FIELD: "info"}
    query = " ".join(f'"{field}":="{value}"' for field, value in filters.items())
    [line] = pipeline.rows(query, 1)
    fields = {MESSAGE_FIELD: "step loss=0.25", POD_FIELD: POD, NAMESPACE_FIELD: "ml", CONTAINER_FIELD: "worker"}
    assert line.items() >= {**fields, NODE_FIELD: NODE, "loss": "0.25"}.items()
    assert not line[TIME_FIELD].startswith("2020"), "the runtime's time counts"
    assert [row[MESSAGE_FIELD] for row in pipeline.rows("red", 1)] == ["plain red"]
    assert len(pipeline.rows('_msg:~"x{1000}"', 1)[0][MESSAGE_FIELD]) == 40_000


def test_a_line_cannot_say_whose_it_is_nor_hide_its_neighbours(pipeline: LogPipeline) -> None:
    pipeline.node.start_pod(POD, LABELS)
    forged = {POD_FIELD: "other", NAMESPACE_FIELD: "kube-system", TIME_FIELD: "2020-01-01T00:00:00Z", "_stream": "{}"}
    pipeline.node.write(POD, "before", json.dumps({"message": "forged", **forged}), '{"broken', "after")
    pipeline.start(COLLECTOR)
    rows = pipeline.rows(EVERY_LINE, 4)
    assert {origin(row) for row in rows} == {Origin(namespace="ml", pod=POD, container="worker")}
    assert not any(row[TIME_FIELD].startswith("2020") for row in rows)


def test_rotation_and_restarts_neither_lose_nor_double_a_line(pipeline: LogPipeline) -> None:
    pipeline.node.start_pod(POD, LABELS)
    pipeline.start(COLLECTOR)
    pipeline.node.write(POD, *numbered(0, 1000))
    pipeline.rows(EVERY_LINE, 1000)
    pipeline.node.rotate(POD)
    pipeline.node.write(POD, *numbered(1000, 1500))
    pipeline.rows(EVERY_LINE, 1500)
    pipeline.stop(COLLECTOR)
    pipeline.node.write(POD, *numbered(1500, 2000))
    pipeline.node.rotate(POD)
    pipeline.node.write(POD, *numbered(2000, 3000))
    pipeline.start(COLLECTOR)
    pipeline.node.write(POD, *numbered(3000, 3100))
    assert texts(pipeline, 3100) == Counter(numbered(0, 3100))


def test_lines_wait_for_a_store_that_is_away(pipeline: LogPipeline) -> None:
    pipeline.node.start_pod(POD, LABELS)
    pipeline.start(COLLECTOR)
    pipeline.node.write(POD, *numbered(0, 100))
    pipeline.rows(EVERY_LINE, 100)
    pipeline.stop(STORE)
    pipeline.node.write(POD, *numbered(100, 600))
    pipeline.await_read(600)
    pipeline.stop(COLLECTOR)
    pipeline.node.remove_pod(POD)
    pipeline.start(COLLECTOR)
    pipeline.start(STORE)
    assert texts(pipeline, 600) == Counter(numbered(0, 600))


def test_a_store_whose_disk_is_full_answers_and_loses_nothing(pipeline: LogPipeline) -> None:
    pipeline.node.start_pod(POD, LABELS)
    pipeline.start(COLLECTOR)
    pipeline.node.write(POD, *numbered(0, 100))
    pipeline.rows(EVERY_LINE, 100)
    pipeline.stop(STORE)
    pipeline.start(STORE, "-storage.minFreeDiskSpaceBytes=1000TiB")
    pipeline.node.write(POD, *numbered(100, 200))
    pipeline.await_read(200)
    assert texts(pipeline, 100) == Counter(numbered(0, 100))
    pipeline.stop(STORE)
    pipeline.start(STORE)
    assert texts(pipeline, 200) == Counter(numbered(0, 200))


def test_the_last_lines_of_a_pod_that_is_removed_are_there(pipeline: LogPipeline) -> None:
    pipeline.node.start_pod(POD, LABELS)
    pipeline.node.write(POD, *numbered(0, 10))
    pipeline.start(COLLECTOR)
    pipeline.rows(EVERY_LINE, 10)
    pipeline.node.write(POD, *numbered(10, 1000))
    pipeline.node.remove_pod(POD)
    assert texts(pipeline, 1000) == Counter(numbered(0, 1000))


def test_lines_that_a_killed_collector_hands_over_again_are_shown_once(
    pipeline: LogPipeline, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pipeline.node.start_pod(POD, LABELS)
    pipeline.start(COLLECTOR)
    pipeline.node.write(POD, *numbered(0, 500))
    pipeline.rows(EVERY_LINE, 500)
    pipeline.stop(COLLECTOR, signal.SIGKILL)
    pipeline.start(COLLECTOR)
    pipeline.node.write(POD, *numbered(500, 600))
    # The store shows what it has in any order: the last line may be found before those ahead of it.
    pipeline.rows(f"{EVERY_LINE} | uniq by ({MESSAGE_FIELD})", 600)
    past_logs.show_past(pipeline.store, "ml", "digits")
    assert capfdbinary.readouterr().out.decode().splitlines() == [f"[worker-0] {line}" for line in numbered(0, 600)]


def test_a_long_log_of_many_ranks_comes_back_in_order_page_by_page(
    pipeline: LogPipeline, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(past_logs, "PAGE_LINES", 1000)
    ranks = [f"{RUN}-worker-{rank}" for rank in range(4)]
    other = "digits-more-0a1b2c3d-worker-0"
    pipeline.node.start_pod(other, {**LABELS, "athanor.dev/job": "digits-more"})
    pipeline.node.write(other, "of another job")
    for pod in ranks:
        pipeline.node.start_pod(pod, LABELS)
    lines = numbered(0, 8000)
    for place, line in enumerate(lines):
        pipeline.node.write(ranks[place % 4], line)
    pipeline.start(COLLECTOR)
    pipeline.rows(EVERY_LINE, 8001)
    past_logs.show_past(pipeline.store, "ml", "digits")
    printed = capfdbinary.readouterr().out.decode().splitlines()
    assert printed == [f"[worker-{place % 4}] {line}" for place, line in enumerate(lines)]


def test_everything_is_searched(pipeline: LogPipeline, capfd: pytest.CaptureFixture[str]) -> None:
    pipeline.node.start_pod(POD, LABELS)
    pipeline.node.write(POD, *(json.dumps({"message": "hello", "rank": rank}) for rank in (0, 1, 1)))
    pipeline.start(COLLECTOR)
    pipeline.rows(EVERY_LINE, 3)
    search(pipeline.store, Search(query="hello rank:=0"))
    [line] = capfd.readouterr().out.splitlines()
    assert line.endswith(f"Z [ml/{POD}/worker] hello rank=0")
    search(pipeline.store, Search(query="* | stats by (rank) count() n | sort by (n)"))
    assert capfd.readouterr().out.splitlines() == ["n=1 rank=0", "n=2 rank=1"]
    search(pipeline.store, Search(query="hello", namespace="default"))
    assert "Nothing in the last 1h" in capfd.readouterr().err
    with pytest.raises(RejectedQueryError, match="rejects the query"):
        search(pipeline.store, Search(query='_msg:"'))


def test_nobody_but_the_collector_puts_lines_into_the_store_through_it(pipeline: LogPipeline) -> None:
    pipeline.start(COLLECTOR)
    for name in (COLLECTOR, STORE):
        assert pipeline.status(name, "/internal/insert") == 400
    assert pipeline.status(COLLECTOR, "/insert/jsonline") == 400
    assert pipeline.status(STORE, "/delete/run_task") >= 400


@pytest.mark.parametrize("path", ["partition/list", "partition/detach?name=20260101", "force_merge", "force_flush"])
def test_nobody_takes_days_out_of_the_store(pipeline: LogPipeline, path: str) -> None:
    for key in ("", "no-such-file"):
        assert pipeline.status(STORE, f"/internal/{path}{'&' if '?' in path else '?'}authKey={key}") == 401
