"""The logs of all ranks: merged by time, prefixed, each line once."""

import json

import pytest

from infra.errors import RefusalError
from tests.unit.athanor.inspection.cluster_objects import NAMESPACE, job, pod
from tools.operations import logs

RUN = job("run", phase="Running")
DONE = job("run", phase="Completed")
NAME = "run-0a1b2c3d"


def line(pod_name: str, seconds: str, text: str, container: str = "worker") -> str:
    return f"[pod/{NAME}-{pod_name}/{container}] 2026-11-21T10:00:{seconds}Z {text}\n"


def answer(fake_program, of=DONE, count: int = 2) -> None:
    fake_program.answer("get jobs.batch.volcano.sh", json.dumps({"items": [of]}), once=of is RUN)
    pods = [pod(of, index=index, node="a10-0") for index in range(count)]
    fake_program.answer(f"-l volcano.sh/job-name={NAME} -o json", json.dumps({"items": pods}))


@pytest.fixture
def lines_of(kubectl, capfdbinary, monkeypatch):
    """Return a function that shows the logs of a job and returns what was printed."""
    monkeypatch.setattr(logs, "POLL_SECONDS", 0)

    def show(name: str = "run", **how: bool) -> list[str]:
        logs.show(kubectl, NAMESPACE, name, **how)
        return capfdbinary.readouterr().out.decode().splitlines()

    return show


def text_of(written: bytes) -> list[str]:
    return [logs.written(each, {}, timestamps=False).decode() for each in logs.merged(written)]


def test_lines_of_all_pods_come_in_the_order_of_time(fake_program, lines_of):
    answer(fake_program)
    one = line("worker-1", "01.5", "one") + line("worker-1", "03", "three [/data]")
    two = line("worker-0", "02.123456789", "two") + line("worker-0", "03.000000001", "four")
    fake_program.answer("logs", one + two)
    assert lines_of() == ["[worker-1] one", "[worker-0] two", "[worker-1] three [/data]", "[worker-0] four"]
    [asked] = [each for each in fake_program.lines if " logs " in each]
    for words in (f"-l volcano.sh/job-name={NAME}", "--all-containers", "--prefix", "--timestamps", "--tail=-1"):
        assert words in asked


def test_a_line_that_was_written_after_later_ones_is_neither_lost_nor_out_of_order(fake_program, lines_of):
    answer(fake_program)
    output, error = line("worker-0", "02.000000900", "to the output"), line("worker-0", "02.000000100", "to the error")
    fake_program.answer("logs", line("worker-0", "01", "first") + output + error + line("worker-1", "02", "elsewhere"))
    assert lines_of() == [
        "[worker-0] first",
        "[worker-1] elsewhere",
        "[worker-0] to the error",
        "[worker-0] to the output",
    ]


def test_following_shows_a_line_that_was_written_after_later_ones(fake_program, lines_of):
    answer(fake_program, RUN)
    answer(fake_program)
    output, error = line("worker-0", "02.000000900", "to the output"), line("worker-0", "02.000000100", "to the error")
    fake_program.answer("logs", output, once=True)
    fake_program.answer("logs", output + error)
    assert lines_of(follow=True) == ["[worker-0] to the output", "[worker-0] to the error"]


def test_a_container_that_has_not_started_hides_no_other_and_timestamps_are_shown_on_request(fake_program, lines_of):
    answer(fake_program)
    waiting = 'error: container "worker" in pod "x" is waiting to start: PodInitializing\n'
    fake_program.answer("--ignore-errors", waiting + line("worker-1", "01.5", "one"))
    assert lines_of() == ["[worker-1] one"]
    assert lines_of(timestamps=True) == ["[worker-1] 2026-11-21T10:00:01.5Z one"]


def test_further_containers_are_named():
    trained = job("run")
    first = pod(trained)
    first["spec"]["initContainers"] = [{"name": "prepare"}]
    prefixes = logs.prefixes(trained, [first])
    assert list(prefixes.values()) == ["worker-0/prepare", "worker-0"]


def test_following_shows_each_line_once_and_ends_with_the_job(fake_program, lines_of):
    for _ in range(3):
        answer(fake_program, RUN)
    answer(fake_program)
    first, second = line("worker-0", "01", "same"), line("worker-0", "01", "other")
    fake_program.answer("logs", first, once=True)
    fake_program.answer("logs", first + second, once=True)
    fake_program.answer("logs", first + second + line("worker-1", "00.5", "late"), once=True)
    fake_program.answer("logs", second + line("worker-0", "50", "last"))
    printed = lines_of(follow=True)
    assert printed == ["[worker-0] same", "[worker-0] other", "[worker-1] late", "[worker-0] last"]
    asked = [each for each in fake_program.lines if " logs " in each]
    since = [each.rpartition("--since-time=")[2] for each in asked if "--since-time" in each]
    assert since == ["2026-11-21T09:59:31Z", "2026-11-21T09:59:31Z"], "half a minute before what the last but one saw"


def test_following_waits_for_pods_that_are_not_there_yet(fake_program, lines_of):
    answer(fake_program, RUN, count=0)
    answer(fake_program)
    fake_program.answer("logs", "", once=True)
    fake_program.answer("logs", line("worker-0", "01", "one"))
    assert lines_of(follow=True) == [f"[{NAME}-worker-0/worker] one"]


def test_many_pods_with_many_lines_are_merged():
    pods = range(500)
    written = b"".join(
        line(f"worker-{index}", f"{second:02}.{index:03}", f"{second} {index}").encode()
        for index in pods
        for second in range(20)
    )
    printed = [each.partition("] ")[2].strip() for each in text_of(written)]
    assert printed == [f"{second} {index}" for second in range(20) for index in pods]


def test_no_line_does_anything_to_the_terminal():
    raw = line("worker-0", "01", "x").encode().replace(b"x\n", b"\xff\x1b[31mred\x1b[0m\x07\r[worker-1] lie\n")
    assert text_of(raw) == [f"[{NAME}-worker-0/worker] [worker-1] lie\n"]


def test_structured_lines_are_sentences_and_tracebacks_keep_their_pod():
    fields = {"time": "2026-11-21T10:00:01.5", "level": "critical", "message": "no", "traceback": "Traceback:\n  x"}
    before = f"[{NAME}-worker-0/worker] "
    [printed] = text_of(line("worker-0", "01", json.dumps(fields)).encode())
    assert printed.splitlines() == [f"{before}2026-11-21 10:00:01,5 CRITICAL no", f"{before}Traceback:", f"{before}  x"]


@pytest.mark.parametrize(
    ("of", "asked", "words", "kind"),
    [
        (RUN, "run", "no pods yet.*`make why JOB=run`", logs.NoPodsYetError),
        (DONE, "run", "they were cleaned up.*`make why JOB=run`", logs.NoPodsLeftError),
        (DONE, "runs", "did you mean run", RefusalError),
    ],
    ids=["no pods yet", "no pods any more", "an unknown job"],
)
def test_a_job_without_pods_points_to_why(*, fake_program, lines_of, of, asked, words, kind):
    answer(fake_program, of, count=0)
    with pytest.raises(kind, match=words) as caught:
        lines_of(asked)
    assert type(caught.value).__name__ == kind.__name__
