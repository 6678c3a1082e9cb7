"""Volcano as plain manifests: it must reclaim, see every kind it waits for, restart on a new configuration."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
import yaml

from infra.errors import RefusalError
from infra.volcano import CONTROLLERS, NAMESPACE, SCHEDULER
from infra.volcano.configuration import SCHEDULER_CONFIG, scheduler_config_manifest, scheduler_config_text
from infra.volcano.crds import CRDS, crd_manifests
from infra.volcano.deployments import controllers_manifest, scheduler_manifest
from infra.volcano.permissions import (
    CONTROLLER_RULES,
    SCHEDULER_RULES,
    permission_manifests,
    secret_permission_manifests,
)
from tests.fixtures.recorded_stack import write_volcano_chart
from tests.pod_security import pod_specs, violations
from tests.tables import each_row

SCHEDULING = scheduler_manifest("docker.io/volcanosh/vc-scheduler:v1", scheduler_config_text())
CONTROLLING = controllers_manifest("docker.io/volcanosh/vc-controller-manager:v1")
DEPLOYMENTS = each_row("manifest", [SCHEDULING, CONTROLLING], ids=["scheduler", "controllers"])
RULES = {SCHEDULER: SCHEDULER_RULES, CONTROLLERS: CONTROLLER_RULES}

JOBS, CRON_JOBS, COMMANDS = "batch.volcano.sh_jobs", "batch.volcano.sh_cronjobs", "bus.volcano.sh_commands"
POD_GROUPS, QUEUES = "scheduling.volcano.sh_podgroups", "scheduling.volcano.sh_queues"
FLOWS, TEMPLATES = "flow.volcano.sh_jobflows", "flow.volcano.sh_jobtemplates"
HYPER_NODES = "topology.volcano.sh_hypernodes"
# What each controller of Volcano 1.14 lists and watches (pkg/controllers/<name>, informers in Initialize).
WATCHED = {
    "job-controller": {JOBS, COMMANDS, POD_GROUPS, QUEUES},
    "queue-controller": {COMMANDS, POD_GROUPS, QUEUES},
    "pg-controller": {POD_GROUPS},
    "gc-controller": {JOBS},
    "hyperNode-controller": {HYPER_NODES},
    "cronjob-controller": {JOBS, CRON_JOBS},
    "jobflow-controller": {FLOWS, TEMPLATES, JOBS},
    "jobtemplate-controller": {TEMPLATES, JOBS},
    "colocation-config-controller": {"config.volcano.sh_colocationconfigurations"},
    "sharding-controller": {"shard.volcano.sh_nodeshards"},
}
WATCHED_BY_SCHEDULER = {POD_GROUPS, QUEUES, "nodeinfo.volcano.sh_numatopologies", HYPER_NODES}
# Volcano 1.14, pkg/scheduler/plugins/factory.go
PLUGINS = {
    "binpack", "capacity", "conformance", "drf", "gang", "network-topology-aware", "nodeorder", "overcommit",
    "predicates", "priority", "proportion", "resourcequota",
}  # fmt: skip
# Who registers for what (Add…Fn in pkg/scheduler/plugins/<name>); drf reclaims only among hierarchical queues.
TAKES_PART = {
    "preemptable": {"priority", "gang", "conformance", "drf", "pdb", "tdm", "cdp", "extender"},
    "reclaimable": {"gang", "conformance", "capacity", "proportion", "pdb", "cdp", "extender"},
    "enqueueable": {"overcommit", "capacity", "proportion", "resourcequota", "sla", "extender"},
}


def _args(manifest):
    return manifest["spec"]["template"]["spec"]["containers"][0]["args"]


def _enabled_controllers() -> set[str]:
    """As the controller manager reads its flag: a name enables, `-name` disables, `*` enables all others."""
    [flag] = [arg for arg in _args(CONTROLLING) if arg.startswith("--controllers=")]
    words = flag.partition("=")[2].split(",")
    everything = set(WATCHED) if "*" in words else set()
    return (everything | {word for word in words if word[0] not in "*-"}) - {word[1:] for word in words}


def test_every_enabled_controller_finds_the_kinds_it_waits_for():
    """All controllers share one cache: one missing kind and none of them ever starts."""
    enabled = _enabled_controllers()
    assert {"job-controller", "queue-controller", "pg-controller"} <= enabled <= set(WATCHED)
    for controller in enabled:
        assert WATCHED[controller] <= set(CRDS), controller


def test_no_kind_is_installed_that_nobody_watches():
    used = WATCHED_BY_SCHEDULER.union(*(WATCHED[controller] for controller in _enabled_controllers()))
    assert set(CRDS) == used


def _plugins() -> dict[str, dict[str, Any]]:
    config = yaml.safe_load(scheduler_config_text())
    listed = [plugin for tier in config["tiers"] for plugin in tier["plugins"]]
    assert len({plugin["name"] for plugin in listed}) == len(listed)
    return {plugin["name"]: plugin for plugin in listed}


def test_the_scheduler_preempts_and_reclaims_before_it_backfills():
    config = yaml.safe_load(scheduler_config_text())
    actions = [action.strip() for action in config["actions"].split(",")]
    assert actions == ["enqueue", "allocate", "preempt", "reclaim", "backfill"]
    # A tier whose plugins agree on a victim is the last one asked; one that finds none hands over to the next.
    assert len(config["tiers"]) == 1


def test_every_plugin_is_one_of_volcanos():
    """Volcano logs an unknown name and goes on without the plugin."""
    assert set(_plugins()) <= PLUGINS


def test_one_plugin_alone_divides_the_cluster_among_queues():
    assert {"capacity", "proportion"} & set(_plugins()) == {"capacity"}


def _who(point: str, switch: str) -> set[str]:
    """Return the configured plugins that take part at one of the scheduler's points."""
    return {name for name, plugin in _plugins().items() if name in TAKES_PART[point] and plugin.get(switch, True)}


def test_within_a_queue_the_priority_decides_who_gives_way():
    assert _who("preemptable", "enablePreemptable") == {"priority", "conformance"}


def test_between_queues_their_shares_decide_who_gives_way():
    """Not gang, whose veto saves every pod of a job that has no more than it needs: that is all of them."""
    assert _who("reclaimable", "enableReclaimable") == {"conformance", "capacity"}


def test_nothing_but_the_quota_keeps_a_job_from_having_pods():
    """Without pods a job neither preempts nor reclaims, and an autoscaler does not see it."""
    assert _who("enqueueable", "enableJobEnqueued") == {"resourcequota"}


def test_jobs_that_ask_for_no_closeness_are_placed_as_without_hypernodes():
    arguments = _plugins()["network-topology-aware"]["arguments"]
    assert arguments == {"hypernode.binpack.normal-pod.enable": False}


def test_the_scheduler_reads_the_configuration_that_is_mounted():
    [pod] = pod_specs(SCHEDULING)
    [mount] = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "config"]
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == "config"]
    config = scheduler_config_manifest(scheduler_config_text())
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    [file] = config["data"]
    assert f"--scheduler-conf={mount['mountPath']}/{file}" in _args(SCHEDULING)


def test_a_changed_configuration_changes_the_pods(monkeypatch):
    def annotations():
        return scheduler_manifest("image:1", scheduler_config_text())["spec"]["template"]["metadata"]["annotations"]

    before = annotations()
    assert before == {"athanor.dev/config": hashlib.sha256(scheduler_config_text().encode()).hexdigest()[:16]}
    monkeypatch.setitem(SCHEDULER_CONFIG, "actions", "enqueue, allocate")
    assert annotations() != before


@DEPLOYMENTS
def test_pods_are_admitted_at_restricted_and_request_resources(manifest):
    [pod] = pod_specs(manifest)
    assert violations(pod) == []
    for container in pod["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert container["readinessProbe"]


@DEPLOYMENTS
def test_a_deployment_selects_its_own_pods_and_never_runs_twice(manifest):
    spec = manifest["spec"]
    templates = [each["spec"]["template"]["metadata"]["labels"] for each in (SCHEDULING, CONTROLLING)]
    selected = [labels for labels in templates if spec["selector"]["matchLabels"].items() <= labels.items()]
    assert selected == [spec["template"]["metadata"]["labels"]]
    # Without an election two schedulers at once would bind the same pods.
    assert "--leader-elect=false" in _args(manifest)
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


@each_row("account", RULES)
def test_permissions_belong_to_the_account_that_the_pods_use(account):
    service_account, role, binding = permission_manifests(account, RULES[account])
    manifest = {SCHEDULER: SCHEDULING, CONTROLLERS: CONTROLLING}[account]
    [pod] = pod_specs(manifest)
    assert service_account["metadata"] == {"name": pod["serviceAccountName"], "namespace": NAMESPACE}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **service_account["metadata"]}]


def test_secrets_are_the_controllers_in_the_workloads_namespace_alone():
    role, binding = secret_permission_manifests("team")
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "team"
    assert [set(rule["resources"]) for rule in role["rules"]] == [{"secrets"}]
    assert not {verb for rule in role["rules"] for verb in rule["verbs"]} & {"list", "watch"}
    [pod] = pod_specs(CONTROLLING)
    [subject] = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == (pod["serviceAccountName"], NAMESPACE)


@each_row("account", RULES)
def test_no_permission_is_open_ended(account):
    for rule in RULES[account]:
        words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert not words & {"*", "escalate", "bind", "impersonate"}, rule
        assert "rbac.authorization.k8s.io" not in words
        assert "nodes/proxy" not in words
        assert "pods/exec" not in words
        assert "secrets" not in words


@each_row(
    ("account", "kinds"),
    [
        (SCHEDULER, WATCHED_BY_SCHEDULER),
        (CONTROLLERS, set().union(*(WATCHED[controller] for controller in _enabled_controllers()))),
    ],
)
def test_each_part_may_watch_the_kinds_it_waits_for(account, kinds):
    for kind in kinds:
        group, plural = kind.split("_")
        verbs = {
            verb
            for rule in RULES[account]
            if group in rule["apiGroups"] and plural in rule["resources"]
            for verb in rule["verbs"]
        }
        assert {"list", "watch"} <= verbs, kind


def test_crds_carry_only_what_is_desired_state(tmp_path):
    """Status and timestamps would show as a difference in every preview."""
    manifests = crd_manifests(write_volcano_chart(tmp_path))
    assert tuple(manifests) == CRDS
    for name, manifest in manifests.items():
        group, plural = name.split("_")
        assert manifest["metadata"] == {"name": f"{plural}.{group}"}
        assert set(manifest) == {"apiVersion", "kind", "metadata", "spec"}


def test_a_missing_chart_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(RefusalError, match=re.escape("run `make tools`")) as caught:
        crd_manifests(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_the_controllers_create_pods_faster_than_upstreams_fifty_requests_a_second():
    """A job of a thousand pods, and each of its restarts, would wait minutes for its pods to be created."""
    [container] = CONTROLLING["spec"]["template"]["spec"]["containers"]
    limits = [int(arg.partition("=")[2]) for arg in container["args"] if arg.startswith("--kube-api-")]
    assert limits == [1000, 1000]


def test_pods_are_packed_by_their_gpus_and_nothing_draws_them_to_empty_nodes():
    plugins = {plugin["name"]: plugin for tier in SCHEDULER_CONFIG["tiers"] for plugin in tier["plugins"]}
    order, packing = plugins["nodeorder"]["arguments"], plugins["binpack"]["arguments"]
    assert order == {"leastrequested.weight": 0, "balancedresource.weight": 0}
    named = [name.strip() for name in packing["binpack.resources"].split(",")]
    assert "nvidia.com/gpu" in named
    # binpack's own weight of CPU and of memory is 1; preferred spread (2 in nodeorder) must outweigh all of binpack.
    assert all(packing[f"binpack.resources.{name}"] > 1 for name in named)
    assert packing["binpack.weight"] < 2
