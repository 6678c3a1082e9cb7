"""`dev` as earlier releases created it, and which objects of the cluster an update with today's code would replace.

tests/engine/test_upgrades.py does the same for the cloud's resources.
"""

from __future__ import annotations

import pytest

from tests.fixtures.release import STACK, Release, identity

JOB = "athanor:workloads:PyTorchJob$kubernetes:batch.volcano.sh/v1alpha1:Job::digits-training"
JOB_POLICY = "athanor:workloads:PyTorchJob$kubernetes:networking.k8s.io/v1:NetworkPolicy::digits-training-network"
SERVICE_POLICY = "athanor:workloads:TorchScriptService$kubernetes:networking.k8s.io/v1:NetworkPolicy::digits-network"
MAY_BE_REPLACED = {
    "e111cf0": {JOB: {"name"}, JOB_POLICY: {"name"}, SERVICE_POLICY: {"name"}},
    "7b2769b": {JOB: {"name"}},
}
"""The fields that replace an object, of each release. The name of a job follows from its pods: a new release of the
trainer's image or of the pods' manifests changes it. The new policy is there before the old one is deleted.

Add a line only for what an operator may find replaced without having asked for it, and say so in CHANGELOG.md and in
docs/operator.md, "Upgrading athanor".
"""


@pytest.mark.parametrize("commit", MAY_BE_REPLACED)
def test_an_update_replaces_and_deletes_no_object_but_these(record_stack, commit):
    release = Release.read(commit)
    recording = record_stack(release.config, preview=True, stack=STACK)
    now = {alias: resource for resource in recording.resources.values() for alias in resource.aliases}
    now |= recording.resources
    assert [urn for urn in release.objects if urn not in now] == []
    replaced = {
        urn.split("::", 2)[2]: {name for name in fields | before if fields.get(name) != before.get(name)}
        for urn, before in release.objects.items()
        if (fields := identity(now[urn].inputs)) != before
    }
    assert replaced == MAY_BE_REPLACED[commit]
