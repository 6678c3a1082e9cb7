"""Volcano as plain manifests: it must reclaim, see every kind it waits for, restart on a new configuration."""

from __future__ import annotations

import hashlib
import re

import pytest
import yaml

from infra import volcano
from infra.errors import RefusalError
from infra.settings.scheduling import QueueSettings
from tests.fixtures.recorded_stack import write_volcano_chart
from tests.pod_security import pod_specs, violations

SCHEDULER = volcano.scheduler_manifest("docker.io/volcanosh/vc-scheduler:v1", volcano.scheduler_config_text())
CONTROLLERS = volcano.controllers_manifest("docker.io/volcanosh/vc-controller-manager:v1")
DEPLOYMENTS = pytest.mark.parametrize("manifest", [SCHEDULER, CONTROLLERS], ids=["scheduler", "controllers"])
RULES = {volcano.SCHEDULER: volcano.SCHEDULER_RULES, volcano.CONTROLLERS: volcano.CONTROLLER_RULES}

# What each controller of Volcano 1.14 lists and watches (pkg/controllers/<name>, informers in Initialize).
WATCHED = {
    "job-controller": {
        "batch.volcano.sh_jobs",
        "bus.volcano.sh_commands",
        "scheduling.volcano.sh_podgroups",
        "scheduling.volcano.sh_queues",
    },
    "queue-controller": {
        "bus.volcano.sh_commands",
        "scheduling.volcano.sh_podgroups",
        "scheduling.volcano.sh_queues",
    },
    "pg-controller": {"scheduling.volcano.sh_podgroups"},
    "gc-controller": {"batch.volcano.sh_jobs"},
    "hyperNode-controller": {"topology.volcano.sh_hypernodes"},
    "cronjob-controller": {"batch.volcano.sh_jobs", "batch.volcano.sh_cronjobs"},
    "jobflow-controller": {"flow.volcano.sh_jobflows", "flow.volcano.sh_jobtemplates", "batch.volcano.sh_jobs"},
    "jobtemplate-controller": {"flow.volcano.sh_jobtemplates", "batch.volcano.sh_jobs"},
    "colocation-config-controller": {"config.volcano.sh_colocationconfigurations"},
    "sharding-controller": {"shard.volcano.sh_nodeshards"},
}
WATCHED_BY_SCHEDULER = {
    "scheduling.volcano.sh_podgroups",
    "scheduling.volcano.sh_queues",
    "nodeinfo.volcano.sh_numatopologies",
    "topology.volcano.sh_hypernodes",
}


def _args(manifest):
    return manifest["spec"]["template"]["spec"]["containers"][0]["args"]


def _enabled_controllers() -> set[str]:
    """As the controller manager reads its flag: a name enables, `-name` disables, `*` enables all others."""
    [flag] = [arg for arg in _args(CONTROLLERS) if arg.startswith("--controllers=")]
    words = flag.partition("=")[2].split(",")
    everything = set(WATCHED) if "*" in words else set()
    return (everything | {word for word in words if word[0] not in "*-"}) - {word[1:] for word in words}


def test_every_enabled_controller_finds_the_kinds_it_waits_for():
    """All controllers share one cache: one missing kind and none of them ever starts."""
    enabled = _enabled_controllers()
    assert {"job-controller", "queue-controller", "pg-controller"} <= enabled <= set(WATCHED)
    for controller in enabled:
        assert WATCHED[controller] <= set(volcano.CRDS), controller


def test_no_kind_is_installed_that_nobody_watches():
    used = WATCHED_BY_SCHEDULER.union(*(WATCHED[controller] for controller in _enabled_controllers()))
    assert set(volcano.CRDS) == used


def test_the_scheduler_preempts_and_reclaims_before_it_backfills():
    config = yaml.safe_load(volcano.scheduler_config_text())
    actions = [action.strip() for action in config["actions"].split(",")]
    assert actions == ["enqueue", "allocate", "preempt", "reclaim", "backfill"]
    plugins = [plugin["name"] for tier in config["tiers"] for plugin in tier["plugins"]]
    assert {"priority", "gang", "proportion", "predicates", "nodeorder"} <= set(plugins)
    assert len(plugins) == len(set(plugins))


def test_gang_never_vetoes_preemption():
    """With gang's own veto a full queue could never take its share back from a running job."""
    config = yaml.safe_load(volcano.scheduler_config_text())
    [gang] = [plugin for tier in config["tiers"] for plugin in tier["plugins"] if plugin["name"] == "gang"]
    assert gang["enablePreemptable"] is False


def test_the_scheduler_reads_the_configuration_that_is_mounted():
    [pod] = pod_specs(SCHEDULER)
    [mount] = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "config"]
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == "config"]
    config = volcano.scheduler_config_manifest(volcano.scheduler_config_text())
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    [file] = config["data"]
    assert f"--scheduler-conf={mount['mountPath']}/{file}" in _args(SCHEDULER)


def test_a_changed_configuration_changes_the_pods(monkeypatch):
    def annotations():
        return volcano.scheduler_manifest("image:1", volcano.scheduler_config_text())["spec"]["template"]["metadata"][
            "annotations"
        ]

    before = annotations()
    assert before == {"athanor.dev/config": hashlib.sha256(volcano.scheduler_config_text().encode()).hexdigest()[:16]}
    monkeypatch.setitem(volcano.SCHEDULER_CONFIG, "actions", "enqueue, allocate")
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
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    # Without an election two schedulers at once would bind the same pods.
    assert "--leader-elect=false" in _args(manifest)
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_two_deployments_never_select_each_others_pods():
    labels = [manifest["spec"]["selector"]["matchLabels"] for manifest in (SCHEDULER, CONTROLLERS)]
    assert labels[0] != labels[1]


@pytest.mark.parametrize("account", RULES)
def test_permissions_belong_to_the_account_that_the_pods_use(account):
    service_account, role, binding = volcano.permission_manifests(account, RULES[account])
    manifest = {volcano.SCHEDULER: SCHEDULER, volcano.CONTROLLERS: CONTROLLERS}[account]
    [pod] = pod_specs(manifest)
    assert service_account["metadata"] == {"name": pod["serviceAccountName"], "namespace": volcano.NAMESPACE}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **service_account["metadata"]}]


@pytest.mark.parametrize("account", RULES)
def test_no_permission_is_open_ended(account):
    for rule in RULES[account]:
        words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert not words & {"*", "escalate", "bind", "impersonate"}, rule
        assert "rbac.authorization.k8s.io" not in words
        assert "nodes/proxy" not in words
        assert "pods/exec" not in words


def test_the_scheduler_sees_no_secrets():
    assert not any("secrets" in rule["resources"] for rule in volcano.SCHEDULER_RULES)


@pytest.mark.parametrize(
    ("account", "kinds"),
    [
        (volcano.SCHEDULER, WATCHED_BY_SCHEDULER),
        (volcano.CONTROLLERS, set().union(*(WATCHED[controller] for controller in _enabled_controllers()))),
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


def test_crds_lose_their_descriptions_but_not_properties_of_that_name(tmp_path):
    chart = write_volcano_chart(tmp_path)
    file = chart / "crd" / "bases" / f"{volcano.CRDS[0]}.yaml"
    definition = yaml.safe_load(file.read_text())
    properties = {"description": {"type": "string"}, "size": {"description": "how many", "type": "integer"}}
    definition["spec"]["versions"] = [{"schema": {"description": "long text", "properties": properties}}]
    file.write_text(yaml.safe_dump(definition))
    [version] = volcano.crd_manifests(chart)[volcano.CRDS[0]]["spec"]["versions"]
    assert version == {"schema": {"properties": {"description": {"type": "string"}, "size": {"type": "integer"}}}}


def test_crds_carry_only_what_is_desired_state(tmp_path):
    """Status and timestamps would show as a difference in every preview."""
    manifests = volcano.crd_manifests(write_volcano_chart(tmp_path))
    assert tuple(manifests) == volcano.CRDS
    for name, manifest in manifests.items():
        group, plural = name.split("_")
        assert manifest["metadata"] == {"name": f"{plural}.{group}"}
        assert set(manifest) == {"apiVersion", "kind", "metadata", "spec"}


def test_a_missing_chart_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(RefusalError, match=re.escape("run `make tools`")) as caught:
        volcano.crd_manifests(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("queue", "spec"),
    [
        (QueueSettings(name="a"), {"weight": 1, "reclaimable": True}),
        (
            QueueSettings(name="a", weight=4, reclaimable=False, capability={"nvidia.com/gpu": "8"}),
            {"weight": 4, "reclaimable": False, "capability": {"nvidia.com/gpu": "8"}},
        ),
    ],
)
def test_a_queue_says_what_its_settings_say(queue, spec):
    manifest = volcano.queue_manifest(queue)
    assert (manifest["metadata"], manifest["spec"]) == ({"name": "a"}, spec)


def test_where_nodes_come_for_waiting_pods_every_job_has_its_pods_at_once():
    fixed, scaled = (yaml.safe_load(volcano.scheduler_config_text(nodes_scale=scale)) for scale in (False, True))
    assert fixed["actions"] == "enqueue, allocate, preempt, reclaim, backfill"
    assert scaled["actions"] == "allocate, preempt, reclaim, backfill"
    assert scaled["tiers"] == fixed["tiers"]
