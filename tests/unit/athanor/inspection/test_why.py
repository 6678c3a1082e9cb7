"""What a job's own state and its containers say: each cause one sentence with a next step."""

from __future__ import annotations

import pytest

from athanor.inspection.case import Case
from athanor.inspection.commands import ATHANOR
from athanor.inspection.why import why
from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.athanor.inspection.cluster_objects import (
    case,
    claim,
    container,
    event,
    gpu_node,
    gpu_spec,
    group,
    job,
    pod,
    pod_spec,
    pods,
    sentence_about,
    snapshot,
    task,
)

EXIT_1 = {"exitCode": 1, "reason": "Error"}


# --- over, or going


def test_a_completed_job_says_when_and_how_it_runs_again():
    done = job(phase="Completed")
    said = sentence_about(case(done, pods=pods(done, "a10-0", phase="Succeeded")), "completed")
    assert said == ("my-run completed at 2026-11-21 10:05:00 UTC; next: `make rerun JOB=my-run` runs it again.")


def test_a_failed_job_names_the_exit_code_and_its_log():
    lost = job(phase="Failed", status={"retryCount": 11})
    failed = pods(lost, "a10-0", phase="Failed", containerStatuses=[container(terminated=EXIT_1)])
    situation = case(lost, pods=failed)
    said = sentence_about(situation, "failed")
    assert "failed at 2026-11-21 10:05:00 UTC after 10 restarts: container" in said
    assert "container worker of worker-0 failed (exit code 1)" in said
    log = why(situation).log
    assert log is not None
    assert (log.pod, log.container, log.previous) == ("my-run-0a1b2c3d-worker-0", "worker", False)


def test_a_deadline_that_ended_the_pods_is_named():
    late = job(phase="Failed")
    message = "Pod was active on the node longer than the specified deadline"
    killed = [container(terminated={"exitCode": 137, "reason": "Error"})]
    ended = pods(late, "a10-0", phase="Failed", reason="DeadlineExceeded", message=message, containerStatuses=killed)
    said = sentence_about(case(late, pods=ended), "failed")
    assert f"worker-0 ended with DeadlineExceeded: {message}" in said
    assert "raise its time limit or reduce its work" in said


def test_a_stopped_job_says_so_and_how_it_goes_on():
    said = sentence_about(case(job(phase="Aborted"), commands=ATHANOR), "aborted")
    assert said == "my-run was stopped at 2026-11-21 10:05:00 UTC; next: `athanor resume my-run` continues it."


@pytest.mark.parametrize("phase", ["Failed", "Terminated"])
@each_row(
    ("ended", "step"),
    [
        (EXIT_1, "correct the program, then start it again with `athanor run --replace --name my-run …`"),
        (
            {"exitCode": 137, "reason": "OOMKilled"},
            "raise --memory to 3Gi (/dev/shm counts towards it, it had 1536Mi), or use less, then start it again",
        ),
        ({"exitCode": 137, "reason": "Error"}, "`athanor rerun my-run` runs it again"),
    ],
)
def test_what_helps_depends_on_how_a_failed_job_ended(phase, ended, step):
    lost = job(phase=phase)
    failed = pods(lost, "a10-0", phase="Failed", containerStatuses=[container(terminated=ended)])
    limited = [{"name": "worker", "resources": {"limits": {"memory": "1536Mi"}}}]
    failed = [{**each, "spec": {**each["spec"], "containers": limited}} for each in failed]
    said = sentence_about(case(lost, pods=failed, commands=ATHANOR), "failed")
    assert step in said


def test_a_job_that_is_deleted_waits_for_its_pods():
    going = job(phase="Running", deletionTimestamp="2026-11-21T10:06:00Z")
    assert "is being deleted and 2 of its pods" in sentence_about(case(going, pods=pods(going, "a10-0")), "deleting")


def test_a_job_that_is_stopped_waits_for_its_pods():
    going = job(phase="Aborting")
    assert "is aborting and 2 of its pods" in sentence_about(case(going, pods=pods(going, "a10-0")), "stopping")


def test_a_running_job_is_reported_to_run():
    fine = job(phase="Running", status={"retryCount": 2})
    said = sentence_about(case(fine, pods=pods(fine, "a10-0")), "running")
    assert "my-run is running: 2 of 2 pods since 2026-11-21 10:05:00 UTC, after 2 restarts; next" in said


def test_a_job_that_starts_again_says_how_often_it_did():
    again = job(phase="Restarting", status={"retryCount": 3})
    ending = pods(again, "a10-0")
    ending[0]["metadata"]["deletionTimestamp"] = "2026-11-21T10:06:00Z"
    assert "(3 restarts), and 1 of its pods are terminating" in sentence_about(case(again, pods=ending), "restarting")


# --- not there yet


def test_a_job_that_is_not_there_names_the_near_ones():
    with pytest.raises(RefusalError, match=r"not accepted yet .* did you mean my-run\?"):
        Case.of(snapshot(jobs=[job()]), "my-rum")


def test_a_job_is_found_by_its_objects_name_and_of_several_the_latest_counts():
    old, new = job(), job(created="2026-11-21T11:00:00Z")
    new["metadata"]["name"] = "my-run-ffffffff"
    assert Case.of(snapshot(jobs=[new, old]), "my-run").job is new
    assert Case.of(snapshot(jobs=[new, old]), "my-run-0a1b2c3d").job is old


def test_a_job_that_no_controller_has_seen_is_accepted():
    assert "has not processed it yet" in sentence_about(case(job(phase=""), pod_groups=[]), "accepted")


def test_a_job_whose_pods_nobody_creates_is_overlooked():
    sized = job("my-run", task("worker", 1, gpu_spec(8)))
    said = sentence_about(case(sized, nodes=[gpu_node("a10-0")]), "overlooked")
    assert "is admitted, but Volcano's controller has created none of its pods" in said
    assert "`kubectl rollout restart -n volcano-system deployment/volcano-controllers`" in said


def test_a_plugin_that_fails_is_reported_in_volcanos_words():
    new = job(phase="")
    said = "Execute plugin when job add failed, err: secrets is forbidden"
    assert said in sentence_about(case(new, pod_groups=[], events=[event(new, "PluginError", said)]), "controller")


def test_an_exceeded_quota_is_named_with_its_numbers():
    new = job()
    said = (
        'Error creating pods: [pods "my-run-0a1b2c3d-worker-1" is forbidden: exceeded quota: team, requested:'
        " requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8]"
    )
    words = sentence_about(case(new, pods=[pod(new)], events=[event(new, "FailedCreate", said)]), "quota")
    assert "1 of 2 pods of my-run cannot be created: quota 'team' of namespace 'athanor' is exceeded" in words
    assert "requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=8" in words
    assert words.count("limited: requests.nvidia.com/gpu=8)") == 1


GO_STATUS = (
    "Error creating pods: [failed to create pod my-run-0a1b2c3d-worker-0, err:"
    ' &errors.StatusError{ErrStatus:v1.Status{TypeMeta:v1.TypeMeta{Kind:"", APIVersion:""},'
    ' ListMeta:v1.ListMeta{SelfLink:"", ResourceVersion:"", Continue:"", RemainingItemCount:(*int64)(nil)},'
    ' Status:"Failure", Message:"%s", Reason:"Invalid", Details:(*v1.StatusDetails)(0xc00061e3c0), Code:422}}]'
)


def test_a_pod_that_the_api_server_refuses_is_reported_with_field_and_value():
    new = job()
    message = (
        r"Pod \"my-run-0a1b2c3d-worker-0\" is invalid: spec.containers[0].volumeMounts[4].mountPath: Invalid value:"
        r" \"C:\\data\": must be unique"
    )
    said = sentence_about(case(new, events=[event(new, "FailedCreate", GO_STATUS % message)]), "refused")
    assert 'volumeMounts[4].mountPath: Invalid value: "C:\\data": must be unique)' in said
    assert "StatusError" not in said


def test_a_quota_in_the_api_servers_answer_is_found():
    new = job()
    message = r"pods \"a\" is forbidden: exceeded quota: team, requested: pods=2, used: pods=8, limited: pods=8"
    words = sentence_about(case(new, events=[event(new, "FailedCreate", GO_STATUS % message)]), "quota")
    assert (
        "quota 'team' of namespace 'athanor' is exceeded (requested: pods=2, used: pods=8, limited: pods=8);" in words
    )


def test_of_several_failed_pods_the_first_one_is_reported():
    lost = job(phase="Failed")
    ended = [
        pod(lost, index=index, node="a10-0", phase="Failed", containerStatuses=[container(terminated=state)])
        for index, state in enumerate(
            (
                {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-21T10:04:59Z"},
                {"exitCode": 7, "reason": "Error", "finishedAt": "2026-11-21T10:04:42Z"},
            )
        )
    ]
    situation = case(lost, pods=ended)
    assert "container worker of worker-1 failed (exit code 7)" in sentence_about(situation, "failed")
    log = why(situation).log
    assert log is not None
    assert log.pod == "my-run-0a1b2c3d-worker-1"


def test_a_pod_that_the_namespaces_level_forbids_is_reported():
    new = job()
    said = 'Error creating pods: [pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged]'
    assert "Pod Security level forbids" in sentence_about(
        case(new, events=[event(new, "FailedCreate", said)]), "security"
    )


def test_an_event_of_the_run_before_does_not_count():
    new = job()
    old = event(new, "FailedCreate", "exceeded quota: team, requested: a=1, used: a=1, limited: a=1")
    old["involvedObject"]["uid"] = "another"
    assert why(case(new, pods=pods(new), events=[old])).cause != "quota"
    assert why(case(new, pods=[], events=[old])).cause != "quota"


def test_a_quota_without_room_is_seen_before_volcano_tries():
    spec = {"hard": {"requests.nvidia.com/gpu": "8", "pods": "100"}, "used": {"requests.nvidia.com/gpu": "0"}}
    nodes = [gpu_node("a10-0"), gpu_node("a10-1")]
    said = sentence_about(case(job(), nodes=nodes, quotas=[{"metadata": {"name": "team"}, "status": spec}]), "quota")
    assert "quota 'team' of namespace 'athanor' has no room for my-run: requests.nvidia.com/gpu needs 16" in said


def test_a_quota_that_volcano_waits_for_is_reported_in_its_words_where_the_numbers_are_unknown():
    new = job()
    pending = group(new, "Pending")
    said = "resource quota insufficient, requested: map[limits.cpu:{{9 0}}], used: map[], limited: map[limits.cpu:{}]"
    nodes = [gpu_node("a10-0"), gpu_node("a10-1")]
    situation = case(new, nodes=nodes, pod_groups=[pending], events=[event(pending, "Unschedulable", said)])
    assert f"the quota of namespace 'athanor' has no room for my-run ({said})" in sentence_about(situation, "quota")


# --- containers and volumes

PULL = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x": not found'}


@each_row(
    ("image", "local", "fix"),
    [
        ("localhost/athanor/trainer:1", True, "`make image FRAMEWORK=pytorch`"),
        ("localhost/athanor/serving:1", True, "`make image FRAMEWORK=pytorch`"),
        ("localhost/athanor/trainer-tensorflow:1", True, "`make image FRAMEWORK=tensorflow`"),
        ("localhost/athanor/trainer:1", False, "push it to a registry that the nodes can reach"),
        ("registry.example/team/train:9", True, "check the name and the tag"),
    ],
)
def test_an_image_that_cannot_be_pulled_is_named_with_its_fix(image, local, fix):
    new = job()
    status = {"phase": "Pending", "containerStatuses": [container(image=image, waiting=PULL)]}
    said = sentence_about(case(new, local=local, pods=[pod(new, node="a10-0", **status)]), "image")
    assert f"the image {image} of worker-0 cannot be pulled (Back-off pulling image" in said
    assert fix in said


def test_a_secret_that_a_container_names_is_reported_to_be_missing():
    new = job()
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "git" not found'}
    worker = pod(new, node="a10-0", phase="Pending", containerStatuses=[container(waiting=waiting)])
    said = sentence_about(case(new, pods=[worker]), "config")
    assert 'container worker of worker-0 cannot be started (secret "git" not found)' in said


def test_a_crash_loop_names_exit_code_restarts_and_the_log_before():
    new = job(phase="Running")
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}
    status = container(restarts=4, waiting=waiting, last={"exitCode": 137, "reason": "OOMKilled"})
    situation = case(new, pods=[pod(new, node="a10-0", containerStatuses=[status]), pod(new, index=1, node="a10-0")])
    said = sentence_about(situation, "crash")
    assert "worker of worker-0 keeps failing (exit code 137, OOMKilled, 4 restarts so far)" in said
    assert "resources.memory" in said
    log = why(situation).log
    assert log is not None
    assert log.previous


def test_a_failing_init_container_is_reported_as_one():
    new = job()
    status = {"initContainerStatuses": [container("prepare", terminated=EXIT_1)]}
    said = sentence_about(case(new, pods=[pod(new, node="a10-0", phase="Pending", **status)]), "init-failed")
    assert "init container prepare of worker-0 failed (exit code 1)" in said


@each_row(
    ("name", "words"),
    [
        ("source", "which waits for the code that the job's source pod fetches from git"),
        ("wait-for-hosts", "which waits for the other pods (worker-0 not running yet)"),
        ("prepare", "init container prepare (since 2026-11-21T10:06:00Z);"),
    ],
)
def test_an_init_container_that_takes_its_time_is_named(name, words):
    new = job("my-run", task("launcher", 1, pod_spec(pool=None)), task("worker", 1, gpu_spec(1)))
    waits = container(name, running={"startedAt": "2026-11-21T10:06:00Z"})
    first = pod(new, "launcher", node="a10-0", phase="Pending", initContainerStatuses=[waits])
    situation = case(new, pods=[first, pod(new, node="a10-0", phase="Pending")])
    assert words in sentence_about(situation, "init")
    log = why(situation).log
    assert log is not None
    assert log.container == name


def test_a_missing_volume_is_named_with_those_that_there_are():
    said = sentence_about(case(job(), claims=[claim("other")]), "volume")
    assert "worker mounts the volume 'training-data', which namespace 'athanor' does not have" in said
    assert "or use one of other" in said


def test_an_unbound_volume_is_reported_with_the_clusters_words():
    unbound = claim(phase="Pending")
    said = 'storageclass.storage.k8s.io "nas" not found'
    words = sentence_about(case(job(), claims=[unbound], events=[event(unbound, "ProvisioningFailed", said)]), "volume")
    assert f"'training-data' of worker is Pending, not Bound ({said})" in words


def test_a_volume_that_is_bound_with_its_first_pod_keeps_nobody_waiting():
    unbound = claim(phase="Pending")
    situation = case(job(), claims=[unbound], events=[event(unbound, "WaitForFirstConsumer", "waiting")])
    assert why(situation).cause != "volume"


def test_a_volume_that_a_node_cannot_mount_is_reported():
    new = job()
    starting = [pod(new, index=index, node="a10-0", phase="Pending") for index in range(2)]
    said = 'MountVolume.SetUp failed for volume "ssh" : secret "my-run-ssh" not found'
    situation = case(new, pods=starting, events=[event(starting[1], "FailedMount", said)])
    assert f"a10-0 cannot mount a volume of worker-1 ({said})" in sentence_about(situation, "volume")


def test_pods_that_start_are_reported_to_start():
    new = job(status={"retryCount": 2})
    starting = [pod(new, index=index, node="a10-0", phase="Pending") for index in range(2)]
    said = sentence_about(case(new, pods=starting), "starting")
    assert "2 of 2 pods of my-run have nodes (a10-0) and their containers are starting (after 2 restarts)" in said
