"""What removes the pods of finished jobs: it may do that, in one namespace, and is there only where asked for."""

from __future__ import annotations

import importlib

import pytest
from pydantic import ValidationError

from infra.job_cleanup import NAMESPACE, TTL_LABEL
from infra.offers import NO_OFFERS, PlatformOffers
from infra.pools import platform_offers
from infra.settings.clean_up import CleanUpSettings
from infra.settings.stack import Settings
from tests.fixtures.recorded_stack import TRAINER_TAG, UNWATCHED
from tests.tables import each_row

ENABLED = {"clean_up": {"enabled": True}, "namespace": "team", **UNWATCHED}


@pytest.fixture(scope="module")
def stack(record_stack):
    return record_stack(ENABLED)


@pytest.fixture(scope="module")
def cron_job(stack):
    return stack.one("job-cleanup-cron-job", "CronJob")


@pytest.fixture(scope="module")
def pod(cron_job):
    return cron_job.inputs["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def test_nothing_of_it_is_there_by_default(local_stack):
    assert local_stack.of_kind("CronJob") == []
    namespaces = {resource.inputs["metadata"].get("namespace") for resource in local_stack.objects()}
    assert NAMESPACE not in namespaces


def test_its_account_may_list_jobs_and_remove_pods_in_the_workloads_namespace_alone(stack):
    role, binding = stack.one("job-cleanup-role"), stack.one("job-cleanup-rolebinding")
    account = stack.one("job-cleanup-serviceaccount").inputs["metadata"]
    assert role.inputs["metadata"]["namespace"] == binding.inputs["metadata"]["namespace"] == "team"
    assert role.inputs["rules"] == [
        {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "delete"]},
    ]
    assert binding.inputs["roleRef"]["name"] == role.inputs["metadata"]["name"]
    assert binding.inputs["subjects"] == [{"kind": "ServiceAccount", **account}]
    cluster_wide = stack.of_kind("ClusterRoleBinding")
    assert not any(account["namespace"] in str(cluster_binding.inputs["subjects"]) for cluster_binding in cluster_wide)


def test_the_token_is_mounted_into_this_pod_and_no_other_of_the_namespace(stack, cron_job, pod):
    account = stack.one("job-cleanup-serviceaccount").inputs
    assert account["automountServiceAccountToken"] is False
    assert pod["automountServiceAccountToken"] is True
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert cron_job.inputs["metadata"]["namespace"] == account["metadata"]["namespace"] == NAMESPACE


def test_its_namespace_is_not_the_closed_one(stack):
    closed = {policy.inputs["metadata"]["namespace"] for policy in stack.of_kind("NetworkPolicy")}
    assert closed == {"team"}
    assert NAMESPACE not in closed


def test_the_pod_runs_the_program_with_what_jobs_are_labelled_with(pod):
    [container] = pod["containers"]
    interpreter, option, module, *arguments = container["command"]
    assert (interpreter, option) == ("python3", "-m")
    config = importlib.import_module(module).parse(arguments)
    assert (config.namespace, config.ttl_label) == ("team", TTL_LABEL)
    assert container["image"].endswith(f"trainer:{TRAINER_TAG}")


@each_row(("minutes", "line"), [(1, "*/1 * * * *"), (10, "*/10 * * * *"), (30, "*/30 * * * *"), (60, "0 * * * *")])
def test_it_runs_at_the_interval_and_never_twice_at_once(record_stack, minutes, line):
    changed = record_stack({"clean_up": {"enabled": True, "interval_minutes": minutes}, **UNWATCHED})
    spec = changed.one("job-cleanup-cron-job").inputs["spec"]
    assert spec["schedule"] == line
    assert spec["concurrencyPolicy"] == "Forbid"
    # A hundred missed starts stop a CronJob forever, unless only the last few are counted.
    assert spec["startingDeadlineSeconds"] < 100 * 60


def test_a_run_that_hangs_ends_and_little_is_kept_of_it(cron_job):
    spec = cron_job.inputs["spec"]
    assert spec["jobTemplate"]["spec"].items() >= {"backoffLimit": 0, "activeDeadlineSeconds": 900}.items()
    assert spec["successfulJobsHistoryLimit"] == spec["failedJobsHistoryLimit"] == 1


def test_it_starts_when_its_rights_and_volcanos_kinds_are_there(stack, cron_job):
    ancestors = stack.ancestors(cron_job)
    for kind in ("Role", "RoleBinding", "ServiceAccount", "Queue", "CustomResourceDefinition"):
        assert {resource.urn for resource in stack.of_kind(kind)} & ancestors, kind


@each_row("minutes", [0, 7, 45, 61, True])
def test_an_interval_that_hours_cannot_keep_is_refused(minutes):
    with pytest.raises(ValidationError, match="interval_minutes"):
        CleanUpSettings(interval_minutes=minutes)


@each_row("enabled", [True, False])
def test_workloads_learn_whether_the_platform_does_it(enabled):
    offers = platform_offers(Settings(clean_up=CleanUpSettings(enabled=enabled)))
    assert offers.clean_up is PlatformOffers.from_dict(offers.to_dict()).clean_up is enabled


def test_a_stack_that_does_not_tell_yet_does_not_do_it():
    data = {key: value for key, value in NO_OFFERS.to_dict().items() if key != "clean_up"}
    assert PlatformOffers.from_dict(data).clean_up is False
