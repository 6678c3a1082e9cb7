"""The commands as a person sees them."""

import io
import json
import unicodedata

import pytest
from rich.console import Console

import tools.__main__ as program
from infra.errors import RefusalError
from tests.unit.athanor.inspection.cluster_objects import (
    NAMESPACE,
    claim,
    container,
    event,
    gpu_node,
    gpu_spec,
    job,
    pod,
    pods,
    queue,
    task,
)
from tests.unit.tools.operations.stored_logs import StoredLogs
from tools.operations import commands
from tools.operations.logs import NoPodsLeftError
from tools.operations.rerun import Request, Rerun
from tools.operations.search_logs import Search
from tools.operations.target import Place, Target
from tools.terminal import terminal


@pytest.fixture
def screen(monkeypatch, kubectl) -> Console:
    monkeypatch.setattr(commands, "resolve", lambda *_: Target(kubectl=kubectl, namespace=NAMESPACE, local=True))
    return Console(file=io.StringIO(), width=140, highlight=False)


def text(screen: Console) -> str:
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


KINDS = {
    "jobs": "Job", "pods": "Pod", "nodes": "Node", "queues": "Queue", "persistentvolumeclaims": "PersistentVolumeClaim",
    "events": "Event",
}  # fmt: skip


def answer(fake_program, **items: list) -> None:
    given = {"queues": [queue()], "persistentvolumeclaims": [claim()], **items}
    typed = {name: [{**each, "kind": KINDS[name]} for each in objects] for name, objects in given.items()}
    for together in (("jobs.batch.volcano.sh", "persistentvolumeclaims", "events"), ("pods", "queues", "nodes")):
        objects = [each for name in together for each in typed.get(name.partition(".")[0], [])]
        fake_program.answer(f"get {together[0]},", json.dumps({"items": objects}))
    for name, objects in typed.items():
        fake_program.answer(f"get {name}", json.dumps({"items": objects}))
    fake_program.answer(" get ", json.dumps({"items": []}))


def test_why_ends_with_the_sentence(fake_program, screen, report):
    run = job("my-run", task("worker", 4, gpu_spec(4)))
    answer(fake_program, jobs=[run], pods=pods(run), nodes=[gpu_node("a10-0")])
    commands.why(Place(), "my-run", screen, report.progress)
    *_, last = text(screen).strip().splitlines()
    assert last.startswith("Why: the gang of my-run is incomplete: 2 of the 4 waiting worker pods can be placed")


def test_why_shows_the_last_words_of_what_failed(fake_program, screen, report):
    run = job(phase="Failed")
    ended = container(terminated={"exitCode": 1, "reason": "Error"})
    failed = [pod(run, node="a10-0", phase="Failed", containerStatuses=[ended])]
    fake_program.answer("logs my-run-0a1b2c3d-worker-0 -n athanor -c worker", "ValueError: no [/data] there\n")
    answer(fake_program, jobs=[run], pods=failed)
    commands.why(Place(), "my-run", screen, report.progress)
    assert "my-run-0a1b2c3d-worker-0: ValueError: no [/data] there" in text(screen)


HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b31m\x08\u202eeslaf [/] [link=http://evil]x"


def hostile_pod(run: dict, **status: object) -> dict:
    """A pod of a job whose every text is somebody's own."""
    hostile = pod(run, node=HOSTILE, **status)
    hostile["status"]["reason"] = HOSTILE
    return hostile


def hostile_cases() -> dict[str, dict[str, list]]:
    """Jobs in all states in which the cluster's words are repeated."""
    failed, waits, new = job(phase="Failed"), job(), job(phase="")
    ended = container(HOSTILE, terminated={"exitCode": 1, "reason": HOSTILE, "message": HOSTILE})
    held = {"reason": "ErrImagePull", "message": HOSTILE}
    unknown = container(HOSTILE, image=HOSTILE, waiting={"reason": HOSTILE, "message": HOSTILE})
    pull = container(image=HOSTILE, waiting=held)
    start = container(waiting={"reason": "CreateContainerError", "message": HOSTILE})
    starting = pod(waits, node="a10-0", phase="Pending")
    strange = job(phase="Failed", status={"state": {"phase": "Aborted", "message": HOSTILE}}, queue=HOSTILE)
    strange["metadata"]["labels"] = {}
    strange["metadata"]["annotations"] = {"athanor.dev/job": HOSTILE, "athanor.dev/kind": HOSTILE}
    tainted = gpu_node(HOSTILE, taints=[{"key": HOSTILE, "value": HOSTILE, "effect": "NoSchedule"}])
    return {
        "failed": {"jobs": [failed], "pods": [hostile_pod(failed, phase="Failed", containerStatuses=[ended])]},
        "evicted": {"jobs": [failed], "pods": [hostile_pod(failed, phase="Failed", message=HOSTILE)]},
        "image": {"jobs": [waits], "pods": [hostile_pod(waits, phase="Pending", containerStatuses=[pull])]},
        "start": {"jobs": [waits], "pods": [hostile_pod(waits, phase="Pending", containerStatuses=[start])]},
        "unknown": {"jobs": [waits], "pods": [hostile_pod(waits, phase="Pending", containerStatuses=[unknown])]},
        "refused": {"jobs": [new], "events": [event(new, "FailedCreate", HOSTILE)]},
        "plugin": {"jobs": [new], "events": [event(new, "PluginError", HOSTILE)]},
        "mount": {"jobs": [waits], "pods": [starting] * 2, "events": [event(starting, "FailedMount", HOSTILE)]},
        "taint": {"jobs": [waits], "nodes": [tainted], "pods": pods(waits)},
        "volume": {"jobs": [waits], "persistentvolumeclaims": [claim(HOSTILE)], "pods": pods(waits)},
        "name": {"jobs": [strange], "pods": []},
    }


@pytest.mark.parametrize("name", hostile_cases())
def test_nothing_that_the_cluster_says_reaches_the_terminal_as_more_than_text(
    monkeypatch, kubectl, fake_program, report, name
):
    monkeypatch.setattr(commands, "resolve", lambda *_: Target(kubectl=kubectl, namespace=NAMESPACE, local=True))
    screen = terminal(io.StringIO())
    given = hostile_cases()[name]
    fake_program.answer(" logs ", f"{HOSTILE}\n" + json.dumps({"message": HOSTILE}))
    answer(fake_program, **{"nodes": [gpu_node("a10-0")], **given})
    [one] = given["jobs"]
    commands.why(Place(), one["metadata"]["name"], screen, report.progress)
    commands.status(Place(), screen, report.progress)
    said = text(screen)
    assert "eslaf" in said
    assert {each for each in said if unicodedata.category(each) in {"Cc", "Cf"}} <= {"\n"}


def test_why_and_status_say_what_they_could_not_read(fake_program, screen, report):
    forbidden = "Error from server (Forbidden): nodes is forbidden"
    for resources in (",nodes", "get nodes"):
        fake_program.answer(resources, stderr=forbidden, status=1)
    answer(fake_program, jobs=[job()])
    commands.status(Place(), screen, report.progress)
    commands.why(Place(), "my-run", screen, report.progress)
    assert text(screen).count("Not displayed, because this user does not have the right to list nodes.") == 2


def test_status_shows_the_tables(fake_program, screen, report):
    run = job("my-run", phase="Running")
    answer(fake_program, jobs=[run], pods=pods(run, "a10-0"), nodes=[gpu_node("a10-0", 16)])
    commands.status(Place(), screen, report.progress)
    for title in ("Jobs", "Pods", "GPUs by queue", "GPUs by node"):
        assert title in text(screen)


def test_rerun_says_what_runs(monkeypatch, screen, report):
    asked = []

    def run_again(stack, request, _, __):
        asked.append((stack, request))
        return Rerun(name=f"{request.job}-0a1b2c3d", code="Its code is commit [x].")

    monkeypatch.setattr(commands, "run_again", run_again)
    request = Request(job="my-run", force=True)
    commands.rerun(Place(stack="dev"), request, screen, report.progress)
    assert asked == [("dev", request)]
    assert "my-run runs again as my-run-0a1b2c3d. `make why JOB=my-run` shows its state." in text(screen)
    assert "Its code is commit [x]." in text(screen)
    assert "continues from the checkpoints under /data/output/my-run-0a1b2c3d;" in text(screen)


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
    monkeypatch.setattr(commands, "status", lambda *arguments: asked.append(arguments[:1]))
    monkeypatch.setattr(program.local, "status", lambda *_: asked.append((Place(stack="local"),)))
    monkeypatch.setattr(commands, "why", lambda *arguments: asked.append(arguments[:2]))
    monkeypatch.setattr(commands, "logs", lambda *arguments: asked.append((*arguments[:2], arguments[3])))
    monkeypatch.setattr(commands, "rerun", lambda *arguments: asked.append(arguments[:2]))
    searched: list[tuple] = []
    monkeypatch.setattr(commands, "search_logs", lambda *arguments: searched.append(arguments[:2]))
    monkeypatch.setenv("QUERY", "level:error")
    assert program.main(["search-logs", *words, "--since=2d", "--limit=7"]) == 0
    assert searched == [(place, Search(query="level:error", since="2d", limit=7, namespace=place.namespace))]
    again, rerun = ["j", "--force", "--commit=same"], Request(job="j", force=True, commit="same")
    for name, further in (("status", []), ("why", ["j"]), ("logs", ["j", "--follow"]), ("rerun", again)):
        assert program.main([name, *words, *further]) == 0
    assert asked == [(place,), (place, "j"), (place, "j", commands.LogView(follow=True)), (place, rerun)]


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


RUNNING = job(phase="Running")


@pytest.mark.usefixtures("stored", "screen")
@pytest.mark.parametrize(
    ("cluster", "how"),
    [
        pytest.param({"jobs": [job(phase="Completed")]}, {}, id="the job is there"),
        pytest.param({"jobs": []}, {}, id="the job is gone"),
        pytest.param({"jobs": [RUNNING], "pods": pods(RUNNING)}, {"past": True}, id="asked for while there are pods"),
    ],
)
def test_logs_of_pods_that_are_gone_come_from_the_store(fake_program, report, capfd, cluster, how):
    answer(fake_program, **cluster)
    commands.logs(Place(), "my-run", report.progress, commands.LogView(**how))
    assert capfd.readouterr().out == "[worker-0] from the store\n"


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
