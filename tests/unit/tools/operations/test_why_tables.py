"""The tables of `make why` say what the objects say."""

from tests.tables import each_row
from tests.unit.athanor.inspection.cluster_objects import NOW, case, container, drawn, gpu_spec, group, job, pod, task
from tools.operations.commands import why_tables


def test_why_shows_the_job_its_place_and_its_pods():
    first, run = job("first"), job("run", task("worker", 2, gpu_spec(8)), created="2026-11-21T11:00:00Z")
    pulls = container(waiting={"reason": "ErrImagePull"})
    situation = case(
        run,
        jobs=[first],
        pod_groups=[group(run), group(first)],
        pods=[pod(run, node="a10-0", phase="Pending", containerStatuses=[pulls]), pod(run, index=1)],
    )
    text = drawn(why_tables(situation, NOW))
    assert "training, number 2 of 2 that wait" in text
    for words in (
        "Job run",
        "run-0a1b2c3d",
        "restarts   0",
        "1h30m",
        "worker: ErrImagePull",
        "waiting for a node",
        "a10-0",
    ):
        assert words in text


@each_row(
    ("status", "words"),
    [
        ({"containerStatuses": [container(terminated={"exitCode": 3, "reason": "Error"})]}, "worker: Error (exit 3)"),
        ({"initContainerStatuses": [container("prepare", running={})]}, "starting"),
        ({"initContainerStatuses": [container("prepare", running={"startedAt": "x"})]}, "init prepare"),
        ({"containerStatuses": [container(waiting={"reason": "ContainerCreating"})]}, "starting"),
        ({"phase": "Succeeded"}, "Succeeded"),
    ],
)
def test_a_pods_state_is_what_holds_it(status, words):
    run = job("run")
    worker = pod(run, node="a10-0", **{"phase": "Pending", **status})
    assert words in drawn(why_tables(case(run, pods=[worker]), NOW))


def test_the_code_of_a_job_is_named_with_the_commit_that_its_pods_have():
    words = ["--repository=https://git.example/project.git", "--branch=main"]
    step = {"name": "source", "command": ["python3", "-m", "trainer.source", *words]}
    run = job("my-run", task("worker", 1, {**gpu_spec(8), "initContainers": [step]}))
    assert "branch main of https://git.example/project.git" in drawn(why_tables(case(run), NOW))
    done = container("source", terminated={"exitCode": 0, "message": f'{{"commit": "{"a" * 40}"}}'})
    worker = pod(run, node="a10-0", initContainerStatuses=[done])
    assert f"commit {'a' * 40} (branch main of https://" in drawn(why_tables(case(run, pods=[worker]), NOW))
    assert " code " not in drawn(why_tables(case(job()), NOW))
