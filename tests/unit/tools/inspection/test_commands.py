"""The commands as a person sees them."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

import tools.__main__ as program
from infra.errors import RefusalError
from tests.unit.tools.inspection.cluster_objects import (
    NAMESPACE,
    claim,
    container,
    gpu_node,
    gpu_spec,
    job,
    pod,
    pods,
    queue,
    task,
)
from tests.unit.tools.inspection.stored_logs import StoredLogs
from tools.inspection import commands
from tools.inspection.log_search import Search
from tools.inspection.logs import NoPodsLeftError
from tools.inspection.target import Place, Target


@pytest.fixture
def screen(monkeypatch, kubectl) -> Console:
    monkeypatch.setattr(commands, "resolve", lambda *_: Target(kubectl=kubectl, namespace=NAMESPACE, local=True))
    return Console(file=io.StringIO(), width=140, highlight=False)


def text(screen: Console) -> str:
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def answer(fake_program, **items: list) -> None:
    for kind, found in {"queues": [queue()], "persistentvolumeclaims": [claim()], **items}.items():
        fake_program.answer(f"get {kind}", json.dumps({"items": found}))
    fake_program.answer(" get ", json.dumps({"items": []}))


def test_why_ends_with_the_sentence(fake_program, screen, report):
    run = job("my-run", task("worker", 4, gpu_spec(4)))
    answer(fake_program, jobs=[run], pods=pods(run), nodes=[gpu_node("a10-0")])
    commands.why(Place(), "my-run", screen, report.progress)
    *_, last = text(screen).strip().splitlines()
    assert last.startswith("Why: the gang of my-run is incomplete: 2 of the 4 worker pods that wait can be placed")


def test_why_shows_the_last_words_of_what_failed(fake_program, screen, report):
    run = job(phase="Failed")
    ended = container(terminated={"exitCode": 1, "reason": "Error"})
    failed = [pod(run, node="a10-0", phase="Failed", containerStatuses=[ended])]
    fake_program.answer("logs my-run-0a1b2c3d-worker-0 -n athanor -c worker", "ValueError: no [/data] there\n")
    answer(fake_program, jobs=[run], pods=failed)
    commands.why(Place(), "my-run", screen, report.progress)
    assert "my-run-0a1b2c3d-worker-0: ValueError: no [/data] there" in text(screen)


def test_why_and_status_say_what_they_could_not_read(fake_program, screen, report):
    forbidden = "Error from server (Forbidden): nodes is forbidden"
    fake_program.answer("get nodes", stderr=forbidden, status=1)
    answer(fake_program, jobs=[job()])
    commands.status(Place(), screen, report.progress)
    commands.why(Place(), "my-run", screen, report.progress)
    assert text(screen).count("Not shown, because this user may not read it: nodes.") == 2


def test_status_shows_the_tables(fake_program, screen, report):
    run = job("my-run", phase="Running")
    answer(fake_program, jobs=[run], pods=pods(run, "a10-0"), nodes=[gpu_node("a10-0", 16)])
    commands.status(Place(), screen, report.progress)
    for title in ("Jobs", "Pods", "GPUs by queue", "GPUs by node"):
        assert title in text(screen)


def test_rerun_says_what_runs(monkeypatch, screen, report):
    asked = []

    def run_again(stack, name, _, __, *, force):
        asked.append((stack, name, force))
        return f"{name}-0a1b2c3d"

    monkeypatch.setattr(commands, "run_again", run_again)
    commands.rerun(Place(stack="dev"), "my-run", screen, report.progress, force=True)
    assert asked == [("dev", "my-run", True)]
    assert "my-run runs again as my-run-0a1b2c3d. `make why JOB=my-run` says how it does." in text(screen)


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ([], Place(stack="local")),
        (["--stack=dev", "--context=c"], Place(stack="dev", context="c")),
        (["--kubeconfig=k", "--context=c", "--namespace=n"], Place(kubeconfig="k", context="c", namespace="n")),
    ],
)
def test_every_question_says_where_it_is_asked(monkeypatch, tmp_path, words, place):
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path))
    monkeypatch.setenv("ATHANOR_CACHE", str(tmp_path))
    asked: list[tuple] = []
    monkeypatch.setattr(commands, "status", lambda *found: asked.append(found[:1]))
    monkeypatch.setattr(program.environment, "status", lambda *_: asked.append((Place(stack="local"),)))
    monkeypatch.setattr(commands, "why", lambda *found: asked.append(found[:2]))
    monkeypatch.setattr(commands, "logs", lambda *found: asked.append((*found[:2], found[3])))
    monkeypatch.setattr(commands, "rerun", lambda *found, **flags: asked.append((*found[:2], *flags.values())))
    searched: list[tuple] = []
    monkeypatch.setattr(commands, "search_logs", lambda *found: searched.append(found[:2]))
    monkeypatch.setenv("QUERY", "level:error")
    assert program.main(["search-logs", *words, "--since=2d", "--limit=7"]) == 0
    assert searched == [(place, Search(query="level:error", since="2d", limit=7, namespace=place.namespace))]
    for name, further in (("status", []), ("why", ["j"]), ("logs", ["j", "--follow"]), ("rerun", ["j", "--force"])):
        assert program.main([name, *words, *further]) == 0
    assert asked == [(place,), (place, "j"), (place, "j", commands.LogView(follow=True)), (place, "j", True)]


GONE = "my-run-0a1b2c3d-worker-0"


@pytest.fixture
def stored(fake_program):
    """A store with one line of a pod that is gone."""
    logs = StoredLogs()
    logs.add(1, GONE, "from the store", **{"kubernetes.pod_labels.athanor.dev/job": "my-run"})
    for row in logs.rows:
        row["_stream"] = row["_stream"].replace('"ml"', f'"{NAMESPACE}"')
    with logs.serve() as address:
        fake_program.answer("get service/victoria-logs", "service/victoria-logs")
        fake_program.answer("port-forward", f"Forwarding from {address} -> 9428\n")
        yield logs


def shown_logs(capfd, report, **how: bool) -> str:
    commands.logs(Place(), "my-run", report.progress, commands.LogView(**how))
    return capfd.readouterr().out


@pytest.mark.usefixtures("stored", "screen")
@pytest.mark.parametrize("jobs", [[job(phase="Completed")], []], ids=["the job is there", "the job is gone"])
def test_logs_of_pods_that_are_gone_come_from_the_store(fake_program, report, capfd, jobs):
    answer(fake_program, jobs=jobs)
    assert shown_logs(capfd, report) == "[worker-0] from the store\n"


@pytest.mark.usefixtures("stored", "screen")
def test_the_past_can_be_asked_for_while_there_are_pods(fake_program, report, capfd):
    run = job(phase="Running")
    answer(fake_program, jobs=[run], pods=pods(run))
    assert shown_logs(capfd, report, past=True) == "[worker-0] from the store\n"


@pytest.mark.usefixtures("screen")
@pytest.mark.parametrize(("jobs", "kind"), [([job(phase="Completed")], NoPodsLeftError), ([], RefusalError)])
def test_without_a_store_the_cluster_has_the_last_word(fake_program, report, jobs, kind):
    fake_program.answer("get service", stderr="(NotFound)", status=1)
    answer(fake_program, jobs=jobs)
    with pytest.raises(kind):
        commands.logs(Place(), "my-run", report.progress, commands.LogView())


def test_the_past_does_not_go_on():
    with pytest.raises(RefusalError, match="FOLLOW"):
        commands.LogView(past=True, follow=True)


@pytest.mark.usefixtures("screen")
def test_everything_can_be_searched(stored, report, capfd):
    stored.say.append(lambda handler: handler.send_chunks(200, b'{"n":"7"}\n'))
    commands.search_logs(Place(), Search(query="* | count() n"), report.progress)
    assert capfd.readouterr().out == "n=7\n"


@pytest.mark.parametrize(("named", "asked"), [(None, "monitoring"), ("ml", "ml")])
def test_a_search_needs_no_namespace(monkeypatch, report, named, asked):
    def resolve(place: Place, _: object) -> None:
        assert place == Place(context="c", namespace=asked)
        raise InterruptedError

    monkeypatch.setattr(commands, "resolve", resolve)
    with pytest.raises(InterruptedError):
        commands.search_logs(Place(context="c", namespace=named), Search(query="*"), report.progress)
