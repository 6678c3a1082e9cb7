"""What each step reads out of the account and the cluster, and what it takes for a failure."""

import json

import pytest

from infra.alicloud.node_pool_inputs import pool_labels
from infra.alicloud.rdma_nodes import max_pods
from tests.pod_security import violations
from tools.acceptance import inventory
from tools.acceptance.findings import Findings, SkippedError, StepFailedError
from tools.acceptance.program import measurement_args, probe_args
from tools.acceptance.steps.all_steps import ALL, account, dashboards, networks, spot_loss
from tools.acceptance.steps.cluster import cluster
from tools.acceptance.steps.gpus import gpu_job, hardware_check, reports_in, scale_in, scale_out
from tools.acceptance.steps.leftovers import leftovers
from tools.acceptance.steps.nodes import gpu_nodes, nodes
from tools.acceptance.steps.sharing import shared_gpu_pod, sharing
from tools.acceptance.workload_requests import check, from_data, measurements, probe, to_data
from trainer.common import command_line
from trainer.hardware_check import report as check_report
from trainer.hardware_check.__main__ import HardwareCheckConfig
from trainer.helpers import hardware

SIMULATED = {"kwok.x-k8s.io/node": "fake"}


def pool_of(site, name):
    return next(pool for pool in site.alicloud.node_pools if pool.name == name)


def node(site, pool_name, number=1, *, simulated=False, **resources):
    pool = pool_of(site, pool_name)
    facts = pool.facts[0]
    gpus = {"nvidia.com/gpu": str(facts.gpus)} if facts.gpus else {}
    return {
        "metadata": {
            "name": f"{pool_name}-{number}",
            "labels": {**pool_labels(pool), "node.kubernetes.io/instance-type": facts.name},
            "annotations": SIMULATED if simulated else {},
        },
        "spec": {"providerID": f"cn-hangzhou.i-{pool_name}{number}"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"pods": str(max_pods(pool, site.settings.monitoring)), **gpus, **resources},
            "nodeInfo": dict.fromkeys(
                ("kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"), "5.10"
            ),
        },
    }  # fmt: skip


def a10_nodes(site, *, simulated=False):
    return [node(site, "a10", number, simulated=simulated) for number in (1, 2)]


def report(host, gpus=1, **more):
    torch = {"version": "2.15", "gpus": [{"name": "A10", "memory_bytes": 24 * 2**30}] * gpus, "available": bool(gpus)}
    return json.dumps({hardware.KEY: {**hardware.hardware(), "host": host, "torch": torch, **more}})


def test_what_needs_something_comes_after_it():
    names = [step.name for step in ALL]
    assert len(set(names)) == len(names)
    for index, step in enumerate(ALL):
        assert set(step.needs) <= set(names[:index])
    assert [step.name for step in ALL if step.last] == names[-2:]


def test_the_account_says_who_asks_what_is_offered_and_what_is_in_stock(site_of):
    site, findings = site_of(), Findings()
    supported = {"Value": "ecs.gn7i-c8g1.2xlarge", "Status": "Available", "StatusCategory": "ClosedWithStock"}
    zone = {
        "ZoneId": "cn-hangzhou-i",
        "AvailableResources": {"AvailableResource": [{"SupportedResources": {"SupportedResource": [supported]}}]},
    }
    site.cloud.answers = {
        "GetCallerIdentity": {"IdentityType": "RAMUser", "Arn": "acs:ram::1:user/x"},
        "DescribeKubernetesVersionMetadata": [{"version": "1.30.1-aliyun.1"}],
        "DescribeAvailableResource": {"AvailableZones": {"AvailableZone": [zone]}},
    }
    account(site, findings)
    assert findings.figures["stock of ecs.gn7i-c8g1.2xlarge in cn-hangzhou-i (a10)"] == "ClosedWithStock"
    assert findings.figures["stock of ecs.gn7i-c16g1.4xlarge in cn-hangzhou-i (a10)"] == "not listed"
    assert [one.actual for one in findings.differences] == ["1.30.1-aliyun.1"]


def test_a_question_that_the_policy_does_not_allow_is_left_out(site_of):
    site, findings = site_of(), Findings()
    site.cloud.answers = {"GetCallerIdentity": {"IdentityType": "RAMUser", "Arn": "acs:ram::1:user/x"}}
    account(site, findings)
    assert findings.figures["stock of ecs.gn7i-c8g1.2xlarge in cn-hangzhou-i (a10)"] == "not answered"
    assert "Forbidden.RAM" in findings.evidence[0].output


@pytest.mark.parametrize(("installed", "is_filed"), [("v9.9", False), ("v0.9", True)])
def test_add_ons_must_not_be_older_than_ours(site_of, installed, is_filed):
    site, findings = site_of(), Findings()
    site.kubectl.answers["version"] = json.dumps({"serverVersion": {"gitVersion": "v1.34.3-aliyun.1"}})
    site.cloud.answers = {
        "GetClusterAddonInstance": {"version": installed},
        "ListClusterAddonInstances": {"addons": [{"name": "coredns"}, {"name": "new", "version": "1"}]},
    }
    cluster(site, findings)
    different = {one.what: one.actual for one in findings.differences}
    assert ("version of the add-on coredns" in different) is is_filed
    assert different["add-on new, which is not ours"] == "1"


def test_nodes_that_are_as_their_pool_says_pass(site_of):
    site, findings = site_of(), Findings()
    site.kubectl.objects["nodes"] = [node(site, "system", 1), node(site, "system", 2), *a10_nodes(site)]
    nodes(site, findings)
    gpu_nodes(site, findings)
    assert findings.differences == []
    assert findings.figures["a10-1 kernelVersion"] == "5.10"


@pytest.mark.parametrize(
    ("step", "pool", "resources", "words"),
    [
        (gpu_nodes, "a10", {"nvidia.com/gpu": "0"}, "offers 0 GPUs"),
        (nodes, "system", {}, "pool system has 1 Ready nodes, but its minimum is 2"),
        (scale_out, "system", {}, "2 Ready nodes of pool a10: not within"),
    ],
    ids=["a node without its GPU", "fewer than the minimum", "none that come"],
)
def test_nodes_that_are_not_as_their_pool_says_fail(site_of, step, pool, resources, words):
    site = site_of()
    site.kubectl.objects["nodes"] = [node(site, pool, **resources)]
    with pytest.raises(StepFailedError, match=words):
        step(site, Findings())


@pytest.mark.parametrize(("rdma", "differences"), [(True, [("pods of a node of pool a10", "17")]), (False, [])])
def test_a_pod_limit_of_ours_that_differs_is_to_be_filed(site_of, rdma, differences):
    machine = {"instance_types": ["ecs.gn8v-8x.48xlarge"], "rdma": rdma}
    site = site_of(change=lambda content: content["alicloud"]["node_pools"][1].update(machine))
    findings = Findings()
    site.kubectl.objects["nodes"] = [node(site, "a10", number, pods="17") for number in (1, 2)]
    gpu_nodes(site, findings)
    assert [(one.what, one.actual) for one in findings.differences][:1] == differences


def test_pools_grow_for_a_job_on_each(site_of):
    site, findings = site_of(), Findings()
    site.kubectl.objects["nodes"] = a10_nodes(site)
    scale_out(site, findings)
    [[asked]] = site.jobs.declared
    assert (asked.pool, asked.pods, asked.gpus, asked.cpus, asked.memory_gib) == ("a10", 2, 1, 4, 15)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        *((step, "double") for step in (gpu_job, hardware_check, networks, scale_in, dashboards)),
        (spot_loss, "no pool of whole GPUs has spot nodes"),
        (sharing, "ACK has no managed way to split GPUs into MIG instances"),
        (leftovers, "nothing was created"),
    ],
)
def test_what_simulated_nodes_and_dev_have_not_is_left_out_with_its_reason(site_of, step, reason):
    site = site_of(engine=Engine())
    site.kubectl.objects["nodes"] = a10_nodes(site, simulated=True)
    with pytest.raises(SkippedError, match=reason):
        step(site, Findings())


def test_pods_that_see_their_gpus_pass_and_their_driver_is_compared(site_of):
    site = site_of(
        change=lambda content: content["alicloud"]["node_pools"][1].update(gpu={"driver_version": "580.126.09"})
    )
    findings = Findings()
    site.kubectl.objects["nodes"] = a10_nodes(site)
    lines = [f"[pod/probe/{host}] {report(host, driver='570.1')}" for host in ("one", "two")]
    site.jobs.logs["probe-a10-1a2b"] = "\n".join(["not JSON", *lines])
    gpu_job(site, findings)
    assert findings.figures["two driver"] == "570.1"
    assert {one.actual for one in findings.differences} == {"570.1"}


def test_a_pod_that_sees_no_gpu_fails_with_what_torch_said(site_of):
    site = site_of()
    site.kubectl.objects["nodes"] = a10_nodes(site)
    broken = {"version": "2.15", "gpus": [], "error": "driver too old"}
    site.jobs.logs["probe-a10-1a2b"] = "\n".join([report("one"), report("two", torch=broken)])
    with pytest.raises(StepFailedError, match=r"two: torch sees 0 of 1 GPUs \(driver too old\)"):
        gpu_job(site, Findings())


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_a_node_of_each_gpu_pool_is_checked(site_of, outcome):
    site, findings = site_of(), Findings()
    site.kubectl.objects["nodes"] = a10_nodes(site)
    steps = [{"title": "Speed", "outcome": outcome, "figures": {}, "reason": "slow"}]
    site.jobs.logs["check-a10-1a2b"] = f"[pod/check/x] {json.dumps({check_report.KEY: {'steps': steps}})}"
    if outcome == "failed":
        site.jobs.failed.add("check-a10-1a2b")
        with pytest.raises(StepFailedError, match="pool a10: Speed: slow"):
            hardware_check(site, findings)
    else:
        hardware_check(site, findings)
    assert findings.figures["pool a10: Speed"] == f"{outcome}: slow"


def test_networks_that_a_stack_does_not_have_are_named(site_of):
    site, findings = site_of(), Findings()
    site.kubectl.objects["nodes"] = a10_nodes(site)
    site.jobs.logs["nccl-a10-shared-1a2b"] = "busbw"
    networks(site, findings)
    assert {name.partition(":")[0] for name, value in findings.figures.items() if value == "skipped"} == {
        "host network", "RDMA"
    }  # fmt: skip


def test_every_network_of_a_pool_is_measured(site_of):
    site = site_of("prod")
    names = [one.name for one in measurements(pool_of(site, "train"), "privileged")]
    assert names == ["nccl-train-shared", "nccl-train-shared-rdma", "nccl-train-host", "nccl-train-host-rdma"]
    assert [one.network for one in measurements(pool_of(site, "train-eni"), "restricted")] == ["exclusive"]


@pytest.mark.parametrize("pool", ["train", "train-eni", "spot"])
def test_what_a_run_asks_for_can_be_declared(site_of, pool):
    site = site_of("prod")
    asked = [probe(pool_of(site, pool), 180), *measurements(pool_of(site, pool), "privileged")]
    assert [from_data(json.loads(json.dumps(to_data(one)))) for one in asked] == asked
    assert probe_args(asked[0]).pool == pool
    command = probe_args(check(pool_of(site, pool), 8)).command
    command_line.parse(HardwareCheckConfig, "trainer.hardware_check", command[3:])
    assert {measurement_args(one).workers for one in asked[1:]} == {2}


def test_a_lost_spot_node_is_released_under_a_running_job(site_of):
    def change(content):
        content["alicloud"]["node_pools"][1].update(spot={})

    def pods(*hosts):
        return [{"spec": {"nodeName": host}, "status": {"phase": "Running"}} for host in hosts]

    site, findings = site_of(change=change), Findings()
    site.kubectl.objects["nodes"] = a10_nodes(site)
    site.cloud.answers["DeleteInstance"] = {}
    site.jobs.pods_of = [pods("a10-1", "a10-2"), pods("a10-2"), pods("a10-2", "a10-3")]
    spot_loss(site, findings)
    assert site.cloud.asked == [("ecs:DeleteInstance", {"InstanceId": "i-a101", "Force": "true"})]
    assert findings.figures["released"] == "i-a101, node a10-1"


def test_the_pod_of_a_shared_gpu_fits_the_strictest_level():
    assert violations(shared_gpu_pod("x", "serve", "registry/trainer:1")["spec"]) == []


def test_reports_are_found_among_other_lines():
    text = f'{{"event": "started"}}\n[pod/a/b] {report("one")}\nTraceback {{'
    assert [one["host"] for one in reports_in(text)] == ["one"]


VPC = "urn:pulumi:dev::athanor::athanor:infra:AlicloudNetwork$alicloud:vpc/network:Network::vpc"


class Engine:
    def __init__(self, *resources):
        self.resources = list(resources)

    def exists(self):
        return True

    def export(self):
        return {"deployment": {"resources": self.resources}}


def made(site):
    inputs = {"vpcName": "athanor-dev-vpc"}
    site.engine.resources = [{"urn": VPC, "type": "alicloud:vpc/network:Network", "id": "vpc-1", "inputs": inputs}]
    inventory.remember(site)
    site.engine.resources = []
    inventory.remember(site)


def test_what_the_state_forgot_is_still_looked_for(site_of):
    site = site_of(engine=Engine())
    made(site)
    site.cloud.answers["DescribeVpcs"] = [{"VpcId": "vpc-1", "VpcName": "athanor-dev-vpc", "Status": "Available"}]
    with pytest.raises(StepFailedError, match="Network vpc vpc-1 Available"):
        leftovers(site, Findings())
    site.cloud.answers["DescribeVpcs"] = []
    findings = Findings()
    leftovers(site, findings)
    assert findings.figures == {"created": "1", "left": "0"}
