"""What every workload's pods share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from tests.pod_security import violations
from tests.tables import each_row
from workloads.accelerators import GpuMemory, MigInstances, SharedGpu
from workloads.checks import check_name, check_range
from workloads.pods import Claims, Container, GpuAccess, pod_spec
from workloads.resources import Resources

CLAIMS = Claims(data="data", output="output")


def _container(**changes: object) -> Container:
    given_fields = {"name": "main", "image": "image:1", "command": ("run",), "resources": Resources(), **changes}
    return Container(**given_fields)


def _pod(container: Container | None = None, claims: Claims = CLAIMS, **more: object):
    return pod_spec(container or _container(), claims, **{"grace_period_seconds": 9, "gpus": GpuAccess(), **more})


@each_row(
    ("fields", "words"),
    [
        ({"cpu": "4Gi"}, ("resources.cpu", "'4Gi'", "500m")),
        ({"cpu": ""}, ("resources.cpu", "''", "500m")),
        ({"cpu": "-1"}, ("resources.cpu", "'-1'", "500m")),
        ({"cpu": "0.5m"}, ("resources.cpu", "'0.5m'", "500m")),
        ({"cpu": "٣"}, ("resources.cpu", "'٣'", "500m")),
        ({"cpu": "1\n"}, ("resources.cpu", "'1\\n'", "500m")),
        ({"memory": "4GB"}, ("resources.memory", "'4GB'", "4Gi")),
        ({"memory": "4 Gi"}, ("resources.memory", "'4 Gi'", "4Gi")),
        ({"shared_memory": "half"}, ("resources.shared_memory", "'half'", "4Gi")),
        ({"gpus": -1}, ("resources.gpus", "-1", "0 to 16")),
        ({"gpus": 17}, ("resources.gpus", "17", "0 to 16")),
    ],
)
def test_wrong_resources_are_refused(fields, words):
    with pytest.raises(RefusalError) as caught:
        Resources(**fields)
    assert all(word in str(caught.value) for word in words)


@given(st.integers(0, 10**6), st.sampled_from(["", "m"]))
def test_every_cpu_quantity_of_whole_numbers_is_accepted(number, unit):
    assert Resources(cpu=f"{number}{unit}").manifest()["requests"]["cpu"] == f"{number}{unit}"


@given(st.text(max_size=8))
def test_what_is_accepted_as_memory_is_a_number_with_a_known_unit(text):
    try:
        Resources(memory=text)
    except RefusalError:
        return
    digits = text.rstrip("KMGTik")
    assert float(digits) >= 0
    assert text[len(digits) :] in {"", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"}


@each_row(
    ("cpu", "cores"), [("0", 1), ("1m", 1), ("500m", 1), ("1999m", 1), ("2000m", 2), ("0.5", 1), ("3.9", 3), ("64", 64)]
)
def test_whole_cpus_are_counted_down_but_never_to_none(cpu, cores):
    assert Resources(cpu=cpu).whole_cpus == cores


def test_memory_is_limited_cpu_is_not():
    manifest = Resources(cpu="2", memory="4Gi").manifest()
    assert manifest == {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}}


def test_gpus_are_requested_and_limited_alike():
    manifest = Resources(gpus=8).manifest()
    assert manifest["requests"]["nvidia.com/gpu"] == manifest["limits"]["nvidia.com/gpu"] == "8"


@each_row("name", ["", "A", "1a", "-a", "a-", "a_b", "a.b", "a" * 41, "ä", "a\n"])
def test_names_that_cannot_be_host_names_are_refused(name):
    with pytest.raises(RefusalError, match="job name"):
        check_name("job name", name)


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True))
def test_accepted_names_leave_room_for_suffixes(name):
    check_name("job name", name)
    assert len(f"{name}-0123abcd-worker-999") <= 63


@each_row("value", [0, 11])
def test_a_number_out_of_range_is_refused_with_both_limits(value):
    with pytest.raises(RefusalError, match="must be 1 to 10"):
        check_range("workers", value, 1, 10)
    for limit in (1, 10):
        check_range("workers", limit, 1, 10)


def test_pods_are_admitted_at_restricted():
    assert violations(_pod(init_containers=[_container(name="early")])) == []


def test_the_writable_places_are_volumes():
    pod = _pod()
    [container] = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert set(mounts) == {"/data/data", "/data/output", "/tmp", "/dev/shm"}
    assert {mount["name"] for mount in mounts.values()} == {volume["name"] for volume in pod["volumes"]}


@each_row(("writes_data", "writes_output"), [(True, False), (False, True)])
def test_volumes_are_writable_only_where_asked(writes_data, writes_output):
    manifest = _container(writes_data=writes_data, writes_output=writes_output).manifest(GpuAccess())
    read_only = {mount["mountPath"]: mount.get("readOnly") for mount in manifest["volumeMounts"]}
    assert (read_only["/data/data"], read_only["/data/output"]) == (not writes_data, not writes_output)


def test_shared_memory_is_sized_and_in_memory():
    pod = _pod(_container(resources=Resources(memory="16Gi", shared_memory="8Gi")))
    [shared] = [volume for volume in pod["volumes"] if volume["name"] == "shared-memory"]
    assert shared["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}


def test_under_mps_the_shared_memory_is_the_nodes():
    """A volume of the pod's at /dev/shm would hide what the device plugin mounts there."""
    one = _container(resources=Resources(gpus=SharedGpu()))
    pod = _pod(one, init_containers=[_container(name="early")], gpus=GpuAccess(through_mps=True))
    assert "shared-memory" not in str(pod)
    assert "/dev/shm" not in str(pod)


def _visible(container: Container, gpus: GpuAccess) -> str | None:
    env = {entry["name"]: entry["value"] for entry in container.manifest(gpus)["env"]}
    return env.get("NVIDIA_VISIBLE_DEVICES")


def test_a_container_without_gpus_sees_none_whatever_its_image_says():
    for gpus in (GpuAccess(), GpuAccess(by_variable=False)):
        assert _visible(_container(), gpus) == "void"


def test_the_variable_of_a_container_with_gpus_is_left_to_a_device_plugin_that_sets_it():
    for asked in (1, SharedGpu(), MigInstances(profile="1g.10gb")):
        one = _container(resources=Resources(gpus=asked))
        assert _visible(one, GpuAccess()) is None
        assert _visible(one, GpuAccess(by_variable=False)) == "void"


def test_a_guaranteed_pod_has_limits_like_its_requests_in_all_containers():
    one = _container(resources=Resources(cpu="8", memory="32Gi", gpus=2, guaranteed=True))
    pod = _pod(one, init_containers=[_container(name="early")])
    for container in (*pod["containers"], *pod["initContainers"]):
        assert container["resources"]["limits"] == container["resources"]["requests"]
        assert set(container["resources"]["limits"]) >= {"cpu", "memory"}
    assert pod["initContainers"][0]["resources"]["limits"]["cpu"] == "1"


@each_row(("cpu", "fix"), [("500m", "cpu='1'"), ("0", "cpu='1'"), ("2.5", "cpu='2'"), ("7900m", "cpu='7'")])
def test_a_guaranteed_pod_asks_for_whole_cores(cpu, fix):
    with pytest.raises(RefusalError) as caught:
        Resources(cpu=cpu, guaranteed=True)
    assert caught.value.field == "resources.cpu"
    assert fix in caught.value.fix
    assert Resources(cpu="2000m", guaranteed=True).manifest()["limits"]["cpu"] == "2000m"


@each_row(
    ("resources", "memory", "shared"),
    [
        (Resources(), "1Gi", "256Mi"),
        (Resources(memory="128Mi"), "128Mi", "128Mi"),
        (Resources(gpus=1), "8Gi", "1Gi"),
        (Resources(gpus=8), "64Gi", "8Gi"),
        (Resources(gpus=8, memory="512Gi"), "512Gi", "8Gi"),
        (Resources(gpus=8, memory="4Gi"), "4Gi", "4Gi"),
        (Resources(gpus=SharedGpu()), "4Gi", "1Gi"),
        (Resources(gpus=GpuMemory(gib=6)), "4Gi", "1Gi"),
        (Resources(gpus=2, shared_memory="12Gi"), "16Gi", "12Gi"),
    ],
)
def test_memory_follows_the_gpus_unless_it_is_given(resources, memory, shared):
    manifest = resources.manifest()
    assert manifest["requests"]["memory"] == manifest["limits"]["memory"] == resources.memory_size == memory
    assert resources.shared_memory_size == shared


def test_claims_are_mounted_by_the_platforms_names():
    pod = _pod(claims=Claims(data="in", output="out"))
    claims = {
        v["name"]: v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v
    }
    assert claims == {"data": "in", "output": "out"}


def test_pods_hold_no_token_and_no_service_variables():
    pod = _pod()
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["terminationGracePeriodSeconds"] == 9


def test_the_environment_is_written_in_one_order():
    """Else an equal job would have another hash, and be replaced."""
    one = _container(env={"B": "2", "A": "1"}).manifest(GpuAccess())
    other = _container(env={"A": "1", "B": "2"}).manifest(GpuAccess())
    assert one == other
    assert [entry["name"] for entry in one["env"]] == ["A", "B", "NVIDIA_VISIBLE_DEVICES"]
