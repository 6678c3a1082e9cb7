"""PyTorchJob: refusals, torchrun's command, all pods or none, and a name that changes with the content."""

from __future__ import annotations

import dataclasses
import re

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.workload_labels import JOB_LABEL, KIND_LABEL, OWNER_LABEL
from tests.pod_security import pod_specs
from tests.recording_engine import UNKNOWN, Recording, record
from tests.tables import each_row
from tests.unit.workloads.job_cases import PLATFORM, plain_platform
from workloads.accelerators import SharedGpu
from workloads.git_source import GitSource
from workloads.job import named_job_manifest
from workloads.owner import owner_label
from workloads.pytorch import RENDEZVOUS_PORT, PyTorchJob, PyTorchJobArgs, pytorch_shape, torchrun_command
from workloads.resolved import ResolvedJob
from workloads.resources import Resources
from workloads.volcano_job import RANK_METRICS_PORT, job_manifest

ARGS = PyTorchJobArgs(program=("-m", "trainer.train", "--epochs=3"), workers=2)
RESOLVED = ResolvedJob(platform=PLATFORM, owner=owner_label("athanor", "local"), queue="training", image="trainer:1")


def _args(**changes: object) -> PyTorchJobArgs:
    return dataclasses.replace(ARGS, **changes)


def _manifest(args: PyTorchJobArgs = ARGS, resolved: ResolvedJob = RESOLVED):
    return job_manifest("train", "train-0123abcd", args, pytorch_shape("train-0123abcd", args), resolved)


def content_name(name: str, args: PyTorchJobArgs, resolved: ResolvedJob) -> str:
    manifest = named_job_manifest(name, args, lambda job_name, _: pytorch_shape(job_name, args), resolved)
    return manifest["metadata"]["name"]


def _flag(command: list[str], name: str) -> str:
    [value] = [word.partition("=")[2] for word in command if word.startswith(f"--{name}=")]
    return value


@each_row(
    ("changes", "words"),
    [
        ({"workers": 0}, ("workers = 0", "1 to 1000")),
        ({"workers": 1001}, ("workers = 1001", "1 to 1000")),
        ({"processes_per_worker": 0}, ("processes_per_worker = 0", "1 to 16")),
        ({"processes_per_worker": 17}, ("processes_per_worker = 17", "1 to 16")),
        ({"max_restarts": -1}, ("max_restarts = -1", "0 to 1000")),
        ({"grace_period_seconds": 9}, ("grace_period_seconds = 9", "10 to 3600")),
        ({"program": ()}, ("program", "is empty", "trainer.train")),
        (
            {"resources": Resources(gpus=8), "processes_per_worker": 3},
            ("processes_per_worker = 3", "8 GPUs", "normally 8"),
        ),
    ],
)
def test_what_cannot_run_is_refused(changes, words):
    with pytest.raises(RefusalError) as caught:
        _args(**changes)
    assert all(word in str(caught.value) for word in words)
    assert "Fix:" in str(caught.value)


@given(st.integers(1, 1000), st.integers(1, 16))
def test_torchrun_sees_as_many_nodes_as_there_are_pods(workers, processes):
    args = _args(workers=workers, processes_per_worker=processes)
    [task] = _manifest(args)["spec"]["tasks"]
    command = torchrun_command("train-0123abcd", args)
    assert int(_flag(command, "nnodes")) == task["replicas"] == _manifest(args)["spec"]["minAvailable"] == workers
    assert int(_flag(command, "nproc-per-node")) == processes


def test_the_rendezvous_is_worker_0_by_its_stable_name():
    command = torchrun_command("train-0123abcd", ARGS)
    assert command[:2] == ["python3", "-c"]
    assert command[3:7] == ["train-0123abcd-worker-0.train-0123abcd", str(RENDEZVOUS_PORT), "$(VC_TASK_INDEX)", "2"]
    assert _flag(command, "master-addr") == "train-0123abcd-worker-0.train-0123abcd"
    assert _flag(command, "master-port") == str(RENDEZVOUS_PORT)
    assert _flag(command, "node-rank") == "$(VC_TASK_INDEX)"
    # A lost rank restarts the whole job: a restart inside one pod would wait for the others in vain.
    assert _flag(command, "max-restarts") == "0"
    assert _flag(command, "rdzv-conf") == "timeout=1800", "an image that loads for long must not cost a restart"


def test_the_program_comes_last_and_whole():
    assert torchrun_command("train", ARGS)[-3:] == ["-m", "trainer.train", "--epochs=3"]


def test_the_plugins_give_what_the_command_relies_on():
    """`env` sets VC_TASK_INDEX; `svc` creates the headless Service, which must answer before the pods are ready."""
    plugins = _manifest()["spec"]["plugins"]
    assert "env" in plugins
    assert "--publish-not-ready-addresses=true" in plugins["svc"]
    assert "--disable-network-policy=true" in plugins["svc"]


def test_host_names_fit_into_a_dns_label():
    name = content_name("a" * 40, ARGS, RESOLVED)
    assert len(f"{name}-worker-999") <= 63


def test_what_ranks_did_when_a_collective_hung_is_kept_on_the_volume():
    [container] = _manifest()["spec"]["tasks"][0]["template"]["spec"]["containers"]
    [prefix] = [entry["value"] for entry in container["env"] if entry["name"] == "TORCH_FR_DUMP_TEMP_FILE"]
    assert prefix == "/data/output/flight-recorder-train-0123abcd-rank-"


def test_volcano_places_the_job_in_its_queue():
    spec = _manifest()["spec"]
    assert (spec["schedulerName"], spec["queue"]) == ("volcano", "training")
    assert "priorityClassName" not in spec
    assert _manifest(_args(priority_class="high"))["spec"]["priorityClassName"] == "high"


def test_a_save_fits_between_sigterm_and_sigkill():
    for grace in (10, 60, 3600):
        [pod] = pod_specs(_manifest(_args(grace_period_seconds=grace)))
        env = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"] if "value" in entry}
        assert pod["terminationGracePeriodSeconds"] == grace
        assert 0 < int(env["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) < grace


@each_row(
    ("changes", "bound"),
    [
        ({"resources": Resources(gpus=8), "processes_per_worker": 8}, True),
        ({"resources": Resources(gpus=8), "processes_per_worker": 8, "minimum_workers": 1}, True),
        ({"resources": Resources(gpus=8)}, True),
        ({"resources": Resources(gpus=8), "processes_per_worker": 4, "program": ("-m", "own")}, False),
        ({}, False),
        ({"resources": Resources(gpus=SharedGpu()), "workers": 1}, False),
        # Nobody knows whether the image has numactl, nor whether the kubelet's cores are next to the GPU.
        ({"resources": Resources(gpus=1), "image": "registry.example/own:1"}, False),
        ({"resources": Resources(gpus=1), "image": "registry.example/own:1", "numa_binding": True}, True),
        ({"resources": Resources(cpu="8", gpus=1, guaranteed=True)}, False),
        ({"resources": Resources(cpu="8", gpus=1, guaranteed=True), "numa_binding": True}, True),
        ({"resources": Resources(gpus=1), "numa_binding": False}, False),
    ],
)
def test_ranks_with_a_gpu_each_are_bound_to_the_cores_next_to_it(changes, bound):
    command = torchrun_command("train-0123abcd", _args(**changes))
    assert ("--numa-binding=node" in command) is bound
    if bound:  # else torchrun would take it for an argument of the program
        assert command.index("--numa-binding=node") < command.index("-m", 3)


@each_row("resources", [Resources(), Resources(gpus=SharedGpu())])
def test_binding_without_a_gpu_for_each_rank_is_refused(resources):
    with pytest.raises(RefusalError, match="numa_binding = True"):
        _args(workers=1, resources=resources, numa_binding=True)


def test_the_program_knows_its_own_job_and_network():
    [pod] = pod_specs(_manifest(_args(env={"NCCL_DEBUG": "INFO", "EXTRA": "1"})))
    env = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"] if "value" in entry}
    assert env["ATHANOR_JOB"] == "train-0123abcd"
    assert (env["GLOO_SOCKET_IFNAME"], env["NCCL_SOCKET_IFNAME"]) == ("eth0", "=eth0")
    assert (env["NCCL_DEBUG"], env["EXTRA"]) == ("INFO", "1")


@given(st.integers(1, 128), st.integers(1, 16))
def test_all_processes_of_a_pod_share_the_cores_it_asked_for(cores, processes):
    """Without a limit each would start a thread per core of the node and all would wait for each other."""
    args = _args(resources=Resources(cpu=str(cores)), processes_per_worker=processes)
    [pod] = pod_specs(_manifest(args))
    env = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"] if "value" in entry}
    threads = int(env["OMP_NUM_THREADS"])
    assert threads >= 1
    assert threads * processes <= max(cores, processes)


def test_preparation_runs_first_with_the_input_writable_and_the_output_not():
    [pod] = pod_specs(_manifest(_args(prepare=("python", "prepare.py"))))
    [prepare] = pod["initContainers"]
    assert prepare["args"] == ["python", "prepare.py"]
    read_only = {mount["mountPath"]: mount.get("readOnly") for mount in prepare["volumeMounts"]}
    assert (read_only["/data/data"], read_only["/data/output"]) == (False, True)
    [training] = pod["containers"]
    assert {m["mountPath"]: m.get("readOnly") for m in training["volumeMounts"]}["/data/data"] is True


def test_without_preparation_there_is_no_first_step():
    [pod] = pod_specs(_manifest())
    assert pod["initContainers"] == []


def test_ports_are_the_ones_that_the_rest_uses():
    [pod] = pod_specs(_manifest())
    ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    assert ports == {"rendezvous": RENDEZVOUS_PORT, "metrics": RANK_METRICS_PORT}


CHANGES = [
    ("image", {}, {"image": "trainer:2"}),
    ("queue", {}, {"queue": "other"}),
    ("claim", {}, {"platform": dataclasses.replace(PLATFORM, output_claim="elsewhere")}),
    ("program", {"program": ("-m", "trainer.train", "--epochs=4")}, {}),
    ("workers", {"workers": 3}, {}),
    ("processes", {"processes_per_worker": 2}, {}),
    ("memory", {"resources": Resources(memory="2Gi")}, {}),
    ("gpus", {"resources": Resources(gpus=1)}, {}),
    ("env", {"env": {"A": "1"}}, {}),
    ("prepare", {"prepare": ("prepare",)}, {}),
    ("priority", {"priority_class": "high"}, {}),
    ("restarts", {"max_restarts": 1}, {}),
    ("grace", {"grace_period_seconds": 61}, {}),
    ("deadline", {"deadline_seconds": 60}, {}),
    ("rerun", {"rerun": 1}, {}),
    ("source", {"source": GitSource(repository="https://git.example/a.git", branch="main")}, {}),
]


@each_row(("args", "resolved"), [change[1:] for change in CHANGES], ids=[c[0] for c in CHANGES])
def test_whatever_changes_the_job_changes_its_name(args, resolved):
    changed = content_name("train", _args(**args), dataclasses.replace(RESOLVED, **resolved))
    assert changed != content_name("train", ARGS, RESOLVED)
    assert re.fullmatch(r"train-[0-9a-f]{8}", changed)


def test_what_does_not_change_the_job_keeps_its_name():
    same = [
        _args(program=list(ARGS.program)),
        _args(image="ignored:1"),  # the platform's part holds the image
        _args(env={}),
        _args(labels={"team": "vision"}),
        _args(wait_seconds=60),
    ]
    assert {content_name("train", args, RESOLVED) for args in same} == {content_name("train", ARGS, RESOLVED)}
    one, other = _args(env={"A": "1", "B": "2"}), _args(env={"B": "2", "A": "1"})
    assert content_name("train", one, RESOLVED) == content_name("train", other, RESOLVED)


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z]{1,4}", fullmatch=True),
        st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=4),
        max_size=4,
    ),
    st.integers(1, 9),
)
def test_equal_jobs_have_equal_names_and_others_do_not(env, workers):
    args = _args(env=env, workers=workers)
    name = content_name("train", args, RESOLVED)
    assert name == content_name("train", _args(env=dict(reversed(env.items())), workers=workers), RESOLVED)
    assert name != content_name("train", _args(env=env, workers=workers + 1), RESOLVED)


def _record(
    args: PyTorchJobArgs, *, preview: bool = False, image: object = "trainer:1", name: str = "train"
) -> Recording:
    def program() -> None:
        platform = dataclasses.replace(plain_platform(), trainer_image=image)
        pulumi.export("job", PyTorchJob(name, platform, args).job_name)

    return record(program, preview=preview)


@each_row("preview", [True, False])
def test_logical_names_stay_when_the_content_changes(preview):
    before, after = _record(ARGS, preview=preview), _record(_args(workers=5), preview=preview)
    assert set(before.resources) == set(after.resources)
    assert before.exports["job"] != after.exports["job"]


def test_the_job_is_named_after_its_own_content():
    recording = _record(ARGS)
    job = recording.one("train", "Job").inputs
    assert job["metadata"]["name"] == recording.exports["job"] == content_name("train", ARGS, RESOLVED)
    command = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["args"]
    assert _flag(command, "master-addr").startswith(f"{recording.exports['job']}-worker-0.")


def test_the_arguments_go_before_the_platforms_defaults():
    recording = _record(_args(image="own:2", queue="own"))
    spec = recording.one("train", "Job").inputs["spec"]
    assert spec["queue"] == "own"
    assert spec["tasks"][0]["template"]["spec"]["containers"][0]["image"] == "own:2"


def test_an_unknown_image_is_planned_without_failing():
    """The same resources are declared while the image is still being built."""

    def program_image() -> object:
        return kubernetes.core.v1.ConfigMap("build", data={}).id

    def program() -> None:
        PyTorchJob("train", dataclasses.replace(plain_platform(), trainer_image=program_image()), ARGS)

    planned, updated = record(program, preview=True), record(program, preview=False)
    assert set(planned.resources) == set(updated.resources)
    assert planned.one("train", "Job").inputs["spec"] is UNKNOWN
    assert updated.one("train", "Job").inputs["spec"]["minAvailable"] == 2


def test_the_pods_and_the_policy_carry_one_label():
    recording = _record(ARGS)
    [policy] = recording.of_kind("NetworkPolicy")
    job = recording.one("train", "Job").inputs
    labels = {JOB_LABEL: "train", OWNER_LABEL: RESOLVED.owner}
    assert policy.inputs["spec"]["podSelector"]["matchLabels"] == labels
    assert labels.items() <= job["spec"]["tasks"][0]["template"]["metadata"]["labels"].items()
    assert job["metadata"]["labels"] == {**labels, KIND_LABEL: "PyTorchJob"}


def test_a_bad_name_is_refused_before_anything_is_declared():
    with pytest.raises(RefusalError, match="job name = 'Train'"):
        _record(ARGS, name="Train")
