"""The logs of pods that are gone: the right run, by time, each line once, a page at a time."""

import json

import pytest

from infra.errors import RefusalError
from tests.unit.tools.operations.stored_logs import StoredLogs
from tools.operations import past_logs
from tools.operations.past_logs import Run, prefixes, show_past

JOB_LABEL = "kubernetes.pod_labels.athanor.dev/job"
RUN_LABEL = "kubernetes.pod_labels.volcano.sh/job-name"
FIRST, SECOND = "digits-0a1b2c3d", "digits-ffffffff"


def add(logs: StoredLogs, microseconds: int, run: str, pod: str, text: str, **more: str) -> None:
    labels = {JOB_LABEL: run.rpartition("-")[0], RUN_LABEL: run}
    logs.add(microseconds, f"{run}-{pod}", text, **{**labels, **more})


@pytest.fixture
def lines_of(store, capfdbinary):
    """Return a function that shows the logs of a job and returns what was printed."""

    def show(name: str = "digits", **how: bool) -> list[str]:
        show_past(store, "ml", name, **how)
        return capfdbinary.readouterr().out.decode().splitlines()

    return show


def test_lines_of_all_pods_come_in_the_order_of_time(logs, lines_of):
    add(logs, 30, FIRST, "worker-0", "three")
    add(logs, 100_000, FIRST, "worker-0", "four")
    add(logs, 20, FIRST, "worker-1", "two")
    add(logs, 10, FIRST, "worker-0", "one")
    assert lines_of() == ["[worker-0] one", "[worker-1] two", "[worker-0] three", "[worker-0] four"]


def test_timestamps_are_shown_on_request(logs, lines_of):
    add(logs, 500_000, FIRST, "worker-0", "one")
    assert lines_of(timestamps=True) == ["[worker-0] 2026-11-21T10:00:00.5Z one"]


def test_the_latest_run_is_shown_and_the_others_are_named_and_can_be_asked_for(logs, store, capfd):
    add(logs, 10, SECOND, "worker-0", "first run")
    add(logs, 5_000_000, FIRST, "worker-0", "second run")
    show_past(store, "ml", "digits")
    printed = capfd.readouterr()
    assert printed.out == "[worker-0] second run\n"
    assert f"Previous runs: JOB={SECOND}" in printed.err
    show_past(store, "ml", SECOND)
    assert capfd.readouterr() == ("[worker-0] first run\n", "")


def test_jobs_and_namespaces_are_kept_apart(logs, lines_of):
    add(logs, 10, FIRST, "worker-0", "mine")
    add(logs, 11, "digits-test-0a1b2c3d", "worker-0", "of another job whose name goes on")
    add(logs, 12, "my-digits-0a1b2c3d", "worker-0", "of another job whose name ends so")
    logs.rows.append({**logs.rows[0], "_stream": logs.rows[0]["_stream"].replace('"ml"', '"kube-system"')})
    assert lines_of() == ["[worker-0] mine"]


def test_a_job_that_volcano_knows_by_the_same_name_is_found(logs, lines_of):
    logs.add(1, "plain-master-0", "hello", container="main", **{RUN_LABEL: "plain"})
    assert lines_of("plain") == ["[master-0] hello"]


def test_a_line_handed_over_twice_is_shown_once(logs, lines_of):
    for _ in range(2):
        add(logs, 10, FIRST, "worker-0", "same")
    add(logs, 10, FIRST, "worker-1", "same")
    add(logs, 11, FIRST, "worker-0", "same")
    assert lines_of() == ["[worker-0] same", "[worker-1] same", "[worker-0] same"]


def test_no_line_passes_for_another_pods_nor_moves_the_cursor(logs, lines_of):
    forged = {"kubernetes.pod_name": f"{FIRST}-worker-7", RUN_LABEL: "digits-99999999", JOB_LABEL: "digits"}
    add(logs, 10, FIRST, "worker-0", "\x1b[2Jok\r[worker-1] lie", **forged)
    add(logs, 11, FIRST, "worker-0", "one\n[worker-1] two")
    assert lines_of() == ["[worker-0] [worker-1] lie", "[worker-0] one\\x0a[worker-1] two"]


def test_structured_lines_are_sentences(logs, lines_of):
    line = {"time": "2026-11-21T10:00:00.125+00:00", "level": "warning", "rank": "3", "step": "9", "job": "digits"}
    add(logs, 10, FIRST, "worker-3", "slow", **line)
    add(logs, 11, FIRST, "worker-3", "missing _msg field; see the docs", **{"loss": "0.5", "deep.a": "1"})
    add(logs, 12, FIRST, "worker-3", "no", **{**line, "level": "critical", "traceback": "Traceback:\n  File x"})
    assert lines_of() == [
        "[worker-3] 2026-11-21 10:00:00,125 WARNING rank 3: slow",
        "[worker-3] deep.a=1 loss=0.5",
        "[worker-3] 2026-11-21 10:00:00,125 CRITICAL rank 3: no",
        "[worker-3] Traceback:",
        "[worker-3]   File x",
    ]


def test_further_containers_are_named():
    pod = f"{FIRST}-parameter-server-0"
    sources = {(pod, "parameter-server"), (pod, "prepare"), (f"{FIRST}-chief-0", "anything")}
    run = Run(name=FIRST, sources=frozenset(sources), first="", last="", lines=0)
    assert set(prefixes(run).values()) == {"parameter-server-0", "parameter-server-0/prepare", "chief-0"}


@pytest.mark.parametrize(
    ("name", "known", "words"),
    [
        ("digit", [], r"the store has no logs of such a job.*did you mean digits\?"),
        ("digits-nee", ["digits-new"], r"Fix: did you mean digits-new, digits\?"),
        ("digits-new", ["digits-new"], r"Fix: `make why JOB=digits-new`"),
        *((hostile, [], "no logs of such a job") for hostile in ('digits" or "', "digits-.*", "(", "", "*")),
    ],
)
def test_a_job_without_logs_is_not_taken_for_another_and_names_the_near_ones(*, logs, store, name, known, words):
    add(logs, 10, FIRST, "worker-0", "x")
    with pytest.raises(RefusalError, match=words):
        show_past(store, "ml", name, known=known)


@pytest.mark.parametrize("gap", [1, 137, 10_000, 3_600_000_000])
def test_a_long_log_comes_in_pages(logs, lines_of, monkeypatch, gap):
    monkeypatch.setattr(past_logs, "PAGE_LINES", 50)
    for place in range(1000):
        add(logs, place * gap, FIRST, f"worker-{place % 3}", f"{place:04}")
    assert [line.partition("] ")[2] for line in lines_of()] == [f"{place:04}" for place in range(1000)]
    # Within a millisecond nothing is cut any more.
    assert logs.most_rows <= 50 if gap > 20 else logs.most_rows <= 1000


def test_a_burst_within_a_quiet_day_is_cut_further(logs, lines_of, monkeypatch):
    monkeypatch.setattr(past_logs, "PAGE_LINES", 50)
    add(logs, 0, FIRST, "worker-0", "first")
    for place in range(1000):
        add(logs, 40_000_000_000 + place * 100, FIRST, "worker-0", f"{place:04}")
    add(logs, 86_400_000_000, FIRST, "worker-0", "last")
    lines = [line.partition("] ")[2] for line in lines_of()]
    assert lines == ["first", *(f"{place:04}" for place in range(1000)), "last"]
    assert logs.most_rows <= 50
    assert len(logs.asked) < 60, json.dumps(logs.asked, indent=1)
