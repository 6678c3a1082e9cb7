"""Volcano as this project configures it, on simulated GPU nodes: who runs, who waits, who gives way.

The jobs are those that users get: manifests of workloads' own builders.
"""

from __future__ import annotations

import copy
import http.client
import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from athanor.inspection.case import Case
from athanor.inspection.estimate import deadline, running_jobs, start
from athanor.inspection.why import why
from infra.build import simulated_node_manifest
from infra.workload_labels import JOB_LABEL
from tests.documentation import command_with
from tests.fixtures.cluster_api import NAMESPACE, PATHS
from tests.fixtures.local_cluster import quiet_progress
from tests.fixtures.scheduling import (
    GPU,
    GPUS_PER_NODE,
    INSTANCE_TYPE,
    POOL,
    SchedulingPlatform,
    claim,
    scheduling_platform,
    volume,
)
from tests.waiting import wait_for_count, wait_until
from tools.kubectl import Kubectl
from tools.operations.rerun import Request, rerun
from tools.operations.target import Target
from tools.toolchain import ensure
from workloads.topology import Together

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from athanor.inspection.containers import Finding
    from infra.manifests import Manifest


PODS = int(os.environ.get("ATHANOR_SCALE_PODS", "200"))
"""A multiple of PODS_PER_JOB, at least 200; `python -m benchmarks scale` takes 5,000."""
NODES = PODS // 5
"""Each has room for eight."""
PODS_PER_JOB = 50
LOOK_EVERY = PODS // 5
"""Pods that must have begun to run between two looks at all pods, each of which is many MB."""
_TASK = ("spec", "tasks", 0)
_POD = (*_TASK, "template", "spec")
_CONTAINER = (*_POD, "containers", 0)
_ON_FAILURE = {"action": "RestartJob", "event": "PodFailed"}
MALFORMED: tuple[tuple[tuple[str | int, ...], object], ...] = (
    (("spec", "minAvailable"), "1"),
    (("spec", "plugins"), {"svc": "--disable-network-policy"}),
    (("spec", "runningEstimate"), "soon"),
    (("spec", "policies"), [{**_ON_FAILURE, "timeout": "5 minutes"}]),
    (("spec", "volumes"), [{"mountPath": 5}]),
    ((*_TASK, "replicas"), 1.5),
    ((*_TASK, "replicas"), 3_000_000_000),
    ((*_TASK, "template", "metadata", "labels"), {"a": 1}),
    ((*_POD, "containers"), [None]),
    ((*_POD, "terminationGracePeriodSeconds"), 1e300),
    ((*_POD, "nodeSelector"), {"a": True}),
    ((*_CONTAINER, "name"), 5),
    ((*_CONTAINER, "command"), "train"),
    ((*_CONTAINER, "env"), [{"name": "A", "value": 5}]),
    ((*_CONTAINER, "ports"), [{"containerPort": 99_999_999_999}]),
    ((*_CONTAINER, "livenessProbe"), {"tcpSocket": {"port": 99_999_999_999}}),
    ((*_CONTAINER, "resources", "requests"), {"cpu": "abc"}),
    ((*_CONTAINER, "resources", "requests"), {"cpu": "1e1.5"}),
    ((*_CONTAINER, "resources", "requests"), {"cpu": "1e-99999999"}),
)
"""Values that Go cannot decode, or not within hours, each for a field of a job."""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchedulingPlatform]:
    folder = tmp_path_factory.mktemp("scheduling")
    with scheduling_platform(folder, "scheduling", quiet_progress(folder)) as platform:
        platform.up(queues=[{"name": "a"}, {"name": "b"}])
        yield platform


@pytest.fixture
def platform(started: SchedulingPlatform) -> Iterator[SchedulingPlatform]:
    """The platform, without jobs before and after."""
    yield started
    started.clear()


@pytest.fixture(scope="class")
def equal_queues(started: SchedulingPlatform) -> None:
    started.configure(queues=[{"name": "a"}, {"name": "b"}])


@pytest.fixture(scope="class")
def guaranteed(started: SchedulingPlatform) -> None:
    started.configure(queues=[{"name": "a", "guaranteed_percent": 50}, {"name": "b"}])


@pytest.fixture(scope="class")
def kept_and_limited(started: SchedulingPlatform) -> None:
    started.configure(queues=[{"name": "a", "reclaimable": False}, {"name": "b", "maximum_percent": 50}])


@pytest.fixture(scope="class")
def quota(started: SchedulingPlatform) -> None:
    started.configure(queues=[{"name": "a"}, {"name": "b"}], quota={"resources": {GPU: "8"}})


@pytest.fixture(scope="class")
def many_nodes(equal_queues: None, started: SchedulingPlatform) -> None:
    del equal_queues
    started.api.create("nodes", *(
        simulated_node_manifest(f"scale-{number}", INSTANCE_TYPE, f"simulated-{'ab'[number % 2]}")
        for number in range(NODES)
    ))  # fmt: skip
    wait_for_count(lambda: len(started.ready_nodes(POOL)), NODES + 2, "the simulated nodes to be ready")


def _changed(job: Manifest, place: tuple[str | int, ...], value: object) -> Manifest:
    """Return a copy of a job with another value in one place."""
    changed = copy.deepcopy(job)
    at: Any = changed
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    return changed


def why_not(platform: SchedulingPlatform, job: str) -> Finding:
    """Return what `make why` finds."""
    return why(Case.of(platform.snapshot(), job))


@pytest.mark.usefixtures("equal_queues")
class TestEqualQueues:
    def test_a_gang_starts_as_a_whole_or_not_at_all(self, platform: SchedulingPlatform) -> None:
        platform.submit(platform.gpu_job("gang", pods=3))

        platform.refused("gang")

        assert [pod["spec"].get("nodeName") for pod in platform.pods("gang")] == [None] * 3
        finding = why_not(platform, "gang")
        assert finding.cause == "gang"
        assert "2 of the 3 waiting worker pods can be placed" in finding.sentence

    def test_a_command_of_arena_from_the_page(self, platform: SchedulingPlatform, tmp_path: Path) -> None:
        """docs/user.md's, as it is printed there; the programs of simulated nodes' pods do not run."""
        platform.api.create("volumes", volume("imagenet"))
        platform.api.create("claims", claim("imagenet"))
        platform.own_command(command_with("--name=resnet50"), tmp_path)
        try:
            workers = platform.runs("resnet50", pods=2)
            assert len(set(workers.values())) == 2
            [launcher] = [pod for pod in platform.pods("resnet50") if "-launcher-" in pod["metadata"]["name"]]
            container = launcher["spec"]["containers"][0]
            said = " ".join([*container["command"], *container["args"]])
            assert "/examples/tensorflow_synthetic_benchmark.py --model ResNet50" in said
        finally:
            platform.own_command("athanor delete resnet50", tmp_path)

    def test_an_elastic_run_starts_with_the_workers_that_fit_and_continues_with_fewer(
        self, platform: SchedulingPlatform, tmp_path: Path
    ) -> None:
        (tmp_path / "own").mkdir()
        (tmp_path / "own" / "train.py").write_text("print()", encoding="utf-8")
        platform.submit(platform.gpu_job("holds"))
        platform.runs("holds")
        words = f"--name elastic --workers 2 --elastic 1 --gpus {GPUS_PER_NODE} --pool {POOL}"
        platform.own_command(f"athanor run {words} -- python train.py", tmp_path)
        [(first, node)] = platform.runs("elastic").items()
        [worker] = [pod for pod in platform.pods("elastic") if pod["metadata"]["uid"] == first]
        assert "--nnodes=1:2" in worker["spec"]["containers"][0]["args"]

        platform.end("holds")
        both = platform.runs("elastic", pods=2)
        assert both[first] == node

        platform.submit(platform.gpu_job("urgent", priority_class="high"))
        [taken] = platform.runs("urgent").values()
        [left] = platform.running("elastic")
        assert both[left] != taken

    def test_a_queue_that_is_not_there_is_named(self, platform: SchedulingPlatform) -> None:
        status, answer = platform.api.ask("POST", PATHS["jobs"], platform.gpu_job("queueless", queue="vision"))
        assert status == http.client.FORBIDDEN
        assert "spec.queue = vision: " in answer["message"]
        assert "Fix: use a or b" in answer["message"]

    def test_pods_that_the_api_server_refuses_are_reported_with_the_field(self, platform: SchedulingPlatform) -> None:
        job = platform.gpu_job("refused")
        [container] = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
        container["volumeMounts"].append({"name": "missing", "mountPath": "/elsewhere"})
        platform.submit(job)
        finding = wait_until(
            lambda: reason if (reason := why_not(platform, "refused")).cause == "refused" else None,
            lambda: f"the refusal; {platform.said('refused')}",
        )
        assert '].name: Not found: "missing"' in finding.sentence
        assert "spec.containers[0].volumeMounts[" in finding.sentence
        assert "StatusError" not in finding.sentence

    def test_malformed_jobs_of_one_team_are_rejected_and_stop_nobody(self, platform: SchedulingPlatform) -> None:
        """Volcano decodes the jobs of all namespaces as one list: a stored job that it cannot decode would end that."""
        platform.submit(platform.gpu_job("runs"))
        before = platform.runs("runs")
        theirs = platform.gpu_job("theirs")
        theirs["metadata"]["namespace"] = "default"
        jobs = PATHS["jobs"].replace(NAMESPACE, "default")
        platform.api.request("POST", f"{jobs}?dryRun=All", theirs)

        for place, value in MALFORMED:
            status, answer = platform.api.ask("POST", jobs, _changed(theirs, place, value))
            assert status == http.client.UNPROCESSABLE_ENTITY, f"{place} {value!r}: {answer}"

        platform.submit(platform.gpu_job("next"))
        platform.runs("next")
        assert platform.running("runs") == before

    def test_a_job_of_somebody_elses_program_runs_again_as_it_is(
        self, platform: SchedulingPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ATHANOR_HOME", str(tmp_path))
        job, cluster = platform.gpu_job("theirs", pods=2), platform.api.cluster
        address = f"{PATHS['jobs']}/{job['metadata']['name']}"
        platform.api.request("PATCH", f"{address}?fieldManager=their-engine", job, "application/apply-patch+yaml")
        pods = platform.runs("theirs", 2)
        before = platform.api.request("GET", address)
        kubectl = Kubectl(
            program=ensure(["kubectl"])["kubectl"], kubeconfig=cluster.kubeconfig, context=cluster.context
        )
        target = Target(kubectl=kubectl, namespace=NAMESPACE, local=False)

        again = rerun(None, Request(job="theirs", force=True), target, quiet_progress(tmp_path))

        assert again.name == job["metadata"]["name"]
        after = platform.api.request("GET", address)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["spec"] == before["spec"]
        applied = [each["manager"] for each in after["metadata"]["managedFields"] if each["operation"] == "Apply"]
        assert applied == ["their-engine"], "its program's next update finds its own"
        assert not set(platform.runs("theirs", 2)) & set(pods)

    def test_a_high_priority_takes_the_place_of_a_low_one_which_returns(self, platform: SchedulingPlatform) -> None:
        platform.submit(platform.gpu_job("low", pods=2, priority_class="low"))
        before = platform.runs("low", 2)

        platform.submit(platform.gpu_job("high", pods=2, priority_class="high"))
        platform.runs("high", 2)
        wait_until(lambda: len(platform.pods("low")) == 2, "new pods of low to wait")
        platform.refused("low")
        assert not platform.running("low")
        assert len(platform.running("high")) == 2
        assert "high" in why_not(platform, "low").sentence or GPU in why_not(platform, "low").sentence

        platform.end("high")
        assert not set(platform.runs("low", 2)) & set(before)

    def test_jobs_of_one_priority_take_nothing_from_each_other(self, platform: SchedulingPlatform) -> None:
        platform.submit(platform.gpu_job("first", pods=2, priority_class="normal", deadline_seconds=7200))
        before = platform.runs("first", 2)

        platform.submit(platform.gpu_job("second", pods=2, priority_class="normal"))
        platform.refused("second")

        assert platform.running("first") == before
        assert not platform.running("second")
        snapshot = platform.snapshot()
        [end] = [deadline(snapshot, job) for job in running_jobs(snapshot)]
        begin = end and start(Case.of(snapshot, "second"), why_not(platform, "second").cause, [end])
        assert begin, "a start that is known"
        assert (begin.at, begin.after, begin.latest) == (end.at, ["first"], True)

    def test_a_queue_takes_back_its_share_and_no_more(self, platform: SchedulingPlatform) -> None:
        platform.submit(*(platform.gpu_job(name) for name in ("lent-1", "lent-2")))
        before = {**platform.runs("lent-1"), **platform.runs("lent-2")}

        platform.submit(platform.gpu_job("claims-1", queue="b"))
        own = platform.runs("claims-1")
        after = _running(platform, "lent-1", "lent-2")
        assert len(after) == 1
        assert after.items() <= before.items()

        platform.submit(platform.gpu_job("claims-2", queue="b"))
        platform.refused("claims-2")
        assert _running(platform, "lent-1", "lent-2") == after
        assert _running(platform, "claims-1", "claims-2") == own

    def test_small_jobs_share_a_node_and_leave_whole_ones(self, platform: SchedulingPlatform) -> None:
        for number in range(3):
            platform.submit(platform.gpu_job(f"small-{number}", gpus=1))
            platform.runs(f"small-{number}")
        [shared] = set(_running(platform, "small-0", "small-1", "small-2").values())

        platform.submit(platform.gpu_job("whole"))
        assert shared not in platform.runs("whole").values()

    def test_a_job_that_must_stay_together_waits_for_room_in_one_zone(self, platform: SchedulingPlatform) -> None:
        platform.submit(*(platform.gpu_job(name, gpus=5) for name in ("blocks-1", "blocks-2")))
        [freed] = platform.runs("blocks-1").values()
        assert [freed] != list(platform.runs("blocks-2").values())

        platform.submit(platform.gpu_job("near", pods=2, gpus=3, together=Together(within="pool")))
        platform.refused("near")
        assert not platform.running("near")
        platform.submit(platform.gpu_job("anywhere", pods=2, gpus=3))
        assert len(set(platform.runs("anywhere", 2).values())) == 2

        platform.end("anywhere", "blocks-1")
        assert set(platform.runs("near", 2).values()) == {freed}

    def test_a_job_stays_on_its_pool(self, platform: SchedulingPlatform) -> None:
        other = simulated_node_manifest("other-pool", "ecs.gn7i-c8g1.2xlarge", "simulated-a")
        platform.api.create("nodes", other)
        try:
            platform.submit(platform.gpu_job("fills", pods=2))
            nodes = {node["metadata"]["name"]: node for node in platform.api.list("nodes")}
            used = [nodes[name] for name in platform.runs("fills", 2).values()]
            assert {node["metadata"]["labels"]["athanor.dev/pool"] for node in used} == {POOL}

            platform.submit(platform.gpu_job("bound-to-pool", gpus=1))
            platform.refused("bound-to-pool")
            assert not platform.running("bound-to-pool")
        finally:
            platform.api.delete("nodes", "other-pool")

    def test_a_job_without_gpus_never_takes_a_gpu_node(self, platform: SchedulingPlatform) -> None:
        platform.submit(platform.cpu_job("without-gpus", pods=2, cpu="10m"))
        assert set(platform.runs("without-gpus", 2).values()) == {platform.real_node}

        platform.submit(platform.cpu_job("large", pods=1, cpu="100"))
        platform.refused("large")
        assert not platform.running("large")


@pytest.mark.usefixtures("guaranteed")
class TestGuarantee:
    def test_what_is_guaranteed_is_not_lent(self, platform: SchedulingPlatform) -> None:
        platform.submit(platform.gpu_job("other-1", queue="b"))
        before = platform.runs("other-1")
        platform.submit(platform.gpu_job("other-2", queue="b"))
        platform.refused("other-2")
        assert not platform.running("other-2")
        finding = why_not(platform, "other-2")
        assert finding.cause == "queue-limit"

        platform.submit(platform.gpu_job("owner"))
        platform.runs("owner")
        assert _running(platform, "other-1", "other-2") == before


@pytest.mark.usefixtures("kept_and_limited")
class TestKeptAndLimited:
    def test_what_is_not_reclaimable_is_not_taken_back(self, platform: SchedulingPlatform) -> None:
        platform.submit(*(platform.gpu_job(name) for name in ("keeps-1", "keeps-2")))
        before = {**platform.runs("keeps-1"), **platform.runs("keeps-2")}

        platform.submit(platform.gpu_job("asks", queue="b"))
        platform.refused("asks")

        assert _running(platform, "keeps-1", "keeps-2") == before

    def test_a_queue_leaves_nodes_idle_rather_than_pass_its_limit(self, platform: SchedulingPlatform) -> None:
        platform.submit(platform.gpu_job("within", queue="b"))
        platform.runs("within")

        platform.submit(platform.gpu_job("beyond", queue="b"))
        platform.refused("beyond")

        assert not platform.running("beyond")
        finding = why_not(platform, "beyond")
        assert finding.cause == "queue-limit"
        assert "'b'" in finding.sentence


@pytest.mark.usefixtures("quota")
class TestQuota:
    def test_a_job_beyond_the_quota_waits_without_pods(self, platform: SchedulingPlatform) -> None:
        platform.submit(platform.gpu_job("uses"))
        platform.runs("uses")

        platform.submit(platform.gpu_job("over"))
        wait_until(
            lambda: any("resource quota insufficient" in said for said in platform.events("over", "Unschedulable")),
            lambda: f"an event that names the quota; {platform.said('over')}",
        )
        wait_until(lambda: platform.pod_group("over")["status"].get("phase") == "Pending", "the PodGroup to wait")
        assert platform.pods("over") == []
        finding = why_not(platform, "over")
        assert finding.cause == "quota"
        assert "8 of 8 are used" in finding.sentence

        platform.end("uses")
        platform.runs("over")

    def test_a_pod_to_develop_in_counts_in_its_queue_and_in_the_quota(
        self, platform: SchedulingPlatform, tmp_path: Path
    ) -> None:
        """The command itself cannot work in the pod of a simulated node."""
        # a folder has one pod
        one, other = tmp_path / "one", tmp_path / "other"
        for folder in (one, other):
            folder.mkdir()
        dev, said = f"athanor dev --queue b --pool {POOL}", ("waiting: ", "athanor dev: ")
        with platform.own_command_begun(f"{dev} --name first --gpus 1", one) as printed:
            assert any(line.startswith(said) for line in printed)
            [node] = platform.runs("first").values()
        assert node in platform.ready_nodes(POOL)
        wait_until(lambda: platform.allocated("b") == "1", lambda: f"a GPU in its queue, not {platform.allocated('b')}")
        assert platform.allocated("a") == "0"

        with platform.own_command_begun(f"{dev} --name second --gpus {GPUS_PER_NODE}", other) as printed:
            assert any(line.startswith(said) for line in printed)
        refusal = "resource quota insufficient"
        wait_until(
            lambda: any(refusal in event for event in platform.events("second", "Unschedulable")),
            lambda: platform.said("second"),
        )
        assert "1 of 8 are used" in platform.own_command("athanor why second", other)
        assert platform.pods("second") == []

        platform.own_command("athanor dev --stop --name first", one)
        platform.runs("second")
        wait_until(lambda: platform.allocated("b") == "8", lambda: f"its GPUs in its queue, {platform.allocated('b')}")

    def test_a_pod_beyond_the_quota_is_refused(self, platform: SchedulingPlatform) -> None:
        platform.submit(platform.gpu_job("uses-all"))
        platform.runs("uses-all")
        [template] = [task["template"] for task in platform.gpu_job("bare")["spec"]["tasks"]]

        status, answer = platform.api.ask(
            "POST", PATHS["pods"], {"metadata": {"name": "bare", "namespace": NAMESPACE}, "spec": template["spec"]}
        )

        assert status == 403
        assert "exceeded quota" in answer["message"]


def _running(platform: SchedulingPlatform, *jobs: str) -> dict[str, str]:
    return {uid: node for job in jobs for uid, node in platform.running(job).items()}


@pytest.mark.usefixtures("many_nodes")
@pytest.mark.timeout(600 * max(1, PODS // 1000))
class TestScale:
    def test_every_pod_gets_its_node_once_and_no_job_half_of_them(self, platform: SchedulingPlatform) -> None:
        names = [f"scale-{number}" for number in range(PODS // PODS_PER_JOB)]
        platform.submit(*(platform.gpu_job(name, pods=PODS_PER_JOB, gpus=1) for name in names))
        seen: defaultdict[str, set[str]] = defaultdict(set)
        half: set[str] = set()
        looked_at = -LOOK_EVERY

        def running() -> int:
            nonlocal half, looked_at
            running = sum(job.get("status", {}).get("running", 0) for job in platform.api.list("jobs"))
            if running - looked_at >= LOOK_EVERY or running == PODS:
                looked_at = running
                begun = half
                half = look(platform, seen)
                assert not half & begun, "a job that had begun to start has still not all of its pods bound"
            return running

        wait_for_count(running, PODS, lambda: f"all pods to run; bound: {len(seen)}")

        assert half == set()
        assert len(platform.api.list("pods")) == len(seen) == PODS
        assert {len(nodes) for nodes in seen.values()} == {1}
        held = Counter(node for nodes in seen.values() for node in nodes)
        assert max(held.values()) <= GPUS_PER_NODE
        # Nearly: the scheduler looks at a part of so many nodes for each pod.
        assert len(held) <= 1.1 * PODS / GPUS_PER_NODE
        assert set(held) <= platform.ready_nodes(POOL)

        # All of this gang but one pod would fit.
        free = len(platform.ready_nodes(POOL)) - len(held)
        platform.submit(platform.gpu_job("giant", pods=free + 1))
        platform.refused("giant")
        assert not [pod for pod in platform.pods("giant") if "nodeName" in pod["spec"]]


def look(platform: SchedulingPlatform, seen: defaultdict[str, set[str]]) -> set[str]:
    """Add the nodes of all pods to what was seen, and return the jobs of which some pods have one and some have none.

    The scheduler decides for a gang as a whole and then binds its pods one by one: a job may be among these once.
    """
    bound: Counter[str] = Counter()
    for pod in platform.api.list("pods", resourceVersion="0"):
        if node := pod["spec"].get("nodeName"):
            seen[pod["metadata"]["uid"]].add(node)
            bound[pod["metadata"]["labels"][JOB_LABEL]] += 1
    return {job for job, number in bound.items() if number < PODS_PER_JOB}


def test_destroy_leaves_nothing_of_the_scheduler(started: SchedulingPlatform) -> None:
    started.clone.pulumi("destroy", "--yes", "--skip-preview")

    classes = {each["metadata"]["name"] for each in started.api.list("priority_classes")}
    assert not [name for name in classes if name.startswith(f"{NAMESPACE}.")]
    assert [started.api.ask("GET", PATHS[kind])[0] for kind in ("queues", "hyper_nodes", "jobs")] == [404] * 3
