"""Changes that the provider would show and never make are refused, in previews too."""

from __future__ import annotations

import pulumi
import pytest

from infra.alicloud.ack_cluster import CREATE_ONLY, KUBERNETES_MINOR, pod_vswitches
from infra.alicloud.network import CREATE_ONLY as NETWORK_CREATE_ONLY
from infra.create_only import check
from infra.errors import RefusalError
from infra.shared_storage import FIXED_CLASS
from infra.workload_namespace import fixed_name
from tests.tables import each_row
from tests.unit.infra.alicloud.environment import ZONES, settings

ADDONS = [{"name": "terway-eniip", "version": "v1.16.7", "config": "{}"}, {"name": "nginx", "disabled": True}]
BORN = {
    "name": "athanor-prod-cluster",
    "podVswitchIds": ["vsw-a", "vsw-b"],
    "slbInternetEnabled": False,
    "clusterSpec": "ack.pro.small",
    "addons": ADDONS,
    "newNatGateway": False,
    "version": "1.34.3-aliyun.1",
}


@each_row(
    ("change", "says"),
    [
        ({"slbInternetEnabled": True}, ["alicloud.kubernetes.public_api_server = True", "was False", "Fix:"]),
        ({"clusterSpec": "ack.pro.xlarge"}, ["alicloud.kubernetes.edition = 'ack.pro.xlarge'", "pulumi refresh"]),
        ({"addons": ADDONS[:1]}, ["add-ons at creation", "Fix: restore"]),
        ({"addons": [{**ADDONS[0], "config": '{"ENITrunking":"true"}'}, ADDONS[1]]}, ["ENITrunking"]),
        ({"newNatGateway": True}, ["the network owns the NAT gateway"]),
        ({"version": "1.33.5-aliyun.1"}, ["'1.33.5-aliyun.1'", "was '1.34.3-aliyun.1'", "never downgraded"]),
        ({"version": "1.36.2-aliyun.1"}, ["was '1.34.3-aliyun.1'", "one minor version at a time"]),
    ],
)
def test_a_change_that_would_never_be_made_is_refused(change, says):
    with pytest.raises(RefusalError) as refused:
        check(CREATE_ONLY, BORN, {**BORN, **change})
    for text in says:
        assert text in str(refused.value)


@each_row(
    "change",
    [
        {},
        {"name": "another"},
        {"version": "1.34.10-aliyun.1"},
        {"version": "1.35.1-aliyun.1"},
        {"version": pulumi.UNKNOWN},
        {"encryptionProviderKey": "key"},
        {"addons": [{**ADDONS[0], "version": "v1.17.0"}, ADDONS[1]]},
    ],
)
def test_what_can_be_changed_is_let_through(change):
    check(CREATE_ONLY, BORN, {**BORN, **change})


@each_row(
    ("minor", "says"),
    [
        ("1.33", "version = '1.33': was '1.34' at creation, and a control plane is never downgraded"),
        ("1.36", "version = '1.36': was '1.34' at creation, and ACK upgrades one minor version at a time"),
        ("1.35", None),
        ("1.34", None),
    ],
)
def test_a_minor_is_raised_one_at_a_time_and_a_preview_knows(minor, says):
    check(KUBERNETES_MINOR, {}, {"kubernetes": minor})  # of a release that did not tell
    if says is None:
        check(KUBERNETES_MINOR, {"kubernetes": "1.34"}, {"kubernetes": minor})
        return
    with pytest.raises(RefusalError) as refused:
        check(KUBERNETES_MINOR, {"kubernetes": "1.34"}, {"kubernetes": minor})
    assert says in str(refused.value)


def test_encryption_is_not_taken_away():
    encrypted = {**BORN, "encryptionProviderKey": "key"}
    check(CREATE_ONLY, encrypted, {**encrypted, "encryptionProviderKey": "another"})
    with pytest.raises(RefusalError, match="encryption_key_id"):
        check(CREATE_ONLY, encrypted, BORN)


def test_a_cluster_that_the_provider_no_longer_describes_is_not_in_the_way():
    """A checkpoint of an older program may lack an input."""
    check(CREATE_ONLY, {**BORN, "version": None}, BORN)


def test_an_imported_cluster_lacks_what_the_provider_cannot_read():
    unread = {"podVswitchIds", "slbInternetEnabled", "addons", "newNatGateway"}
    check(CREATE_ONLY, {name: value for name, value in BORN.items() if name not in unread}, BORN)


EXISTING = {
    "vpc_id": "vpc-1",
    "node_vswitch_ids": dict.fromkeys(ZONES, "vsw-n"),
    "pod_vswitch_ids": dict.fromkeys(ZONES, "vsw-p"),
    "security_group_id": "sg-1",
}


@each_row(
    ("network", "new", "says"),
    [
        (
            {"existing": EXISTING},
            ["vsw-a"],
            "alicloud.network.existing.pod_vswitch_ids = ['vsw-a']: was ['vsw-a', 'vsw-b']",
        ),
        (
            {},
            ["vsw-a", pulumi.UNKNOWN],
            "pod vswitches of the cluster = ['vsw-a', 'not known yet']: was ['vsw-a', 'vsw-b']",
        ),
        ({}, pulumi.UNKNOWN, "pod vswitches of the cluster = 'not known yet': was ['vsw-a', 'vsw-b'] at creation"),
    ],
    ids=["named in the settings", "one deleted outside of the stack", "all of them"],
)
def test_other_pod_vswitches_are_refused_in_the_user_s_terms(network, new, says):
    with pytest.raises(RefusalError) as refused:
        check([pod_vswitches(settings(network=network))], BORN, {**BORN, "podVswitchIds": new})
    assert says in str(refused.value)


NETWORK = {"zones": ["cn-hangzhou-i"], "cidr": "10.64.0.0/12"}


@each_row(
    ("change", "says"),
    [
        ({"cidr": "10.0.0.0/12"}, "alicloud.network.cidr = '10.0.0.0/12': was '10.64.0.0/12' at creation"),
        (
            {"zones": ["cn-hangzhou-j", "cn-hangzhou-i"]},
            "alicloud.zones = ['cn-hangzhou-j', 'cn-hangzhou-i']: was ['cn-hangzhou-i'] at creation",
        ),
        ({"zones": []}, "Fix: restore these zones, in this order, and add others after them"),
    ],
)
def test_another_network_is_refused_by_its_own_name(change, says):
    with pytest.raises(RefusalError) as refused:
        check(NETWORK_CREATE_ONLY, NETWORK, {**NETWORK, **change})
    assert says in str(refused.value)
    check(NETWORK_CREATE_ONLY, {}, {**NETWORK, **change})  # of a release that did not tell
    check(NETWORK_CREATE_ONLY, NETWORK, {**NETWORK, "zones": [*NETWORK["zones"], "cn-hangzhou-j"]})


def test_a_renamed_namespace_is_refused_unless_the_old_one_may_be_left():
    old, new = {"name": "team-a"}, {"name": "team-b"}
    with pytest.raises(RefusalError, match=r"athanor:namespace = 'team-b': was 'team-a' .*jobs, services and claims"):
        check([fixed_name(None)], old, new)
    with pytest.raises(RefusalError):
        check([fixed_name("team-b")], old, new)
    check([fixed_name("team-a")], old, new)
    check([fixed_name(None)], old, old)
    check([fixed_name(None)], {}, new)  # of a release that did not tell


def test_another_storage_class_is_refused():
    old, new = {"storage_class": "nas"}, {"storage_class": "disk"}
    with pytest.raises(RefusalError, match=r"storage.storage_class = 'disk': was 'nas' .*copy the files"):
        check([FIXED_CLASS], old, new)
    check([FIXED_CLASS], old, old)
    check([FIXED_CLASS], {}, new)  # of a release that did not record it
