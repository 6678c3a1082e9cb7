"""Changes that the provider would show and never make are refused, in previews too."""

from __future__ import annotations

import pulumi
import pytest

from infra.alicloud.ack_cluster import CREATE_ONLY
from infra.alicloud.create_only import CreateOnly, check
from infra.errors import RefusalError

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


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"podVswitchIds": ["vsw-a"]}, ["alicloud.zones", "vsw-b", "Fix: restore the zones"]),
        ({"podVswitchIds": ["vsw-a", "vsw-b", pulumi.UNKNOWN]}, ["alicloud.zones", "at birth"]),
        ({"slbInternetEnabled": True}, ["alicloud.kubernetes.public_api_server = True", "was False", "Fix:"]),
        ({"clusterSpec": "ack.pro.xlarge"}, ["alicloud.kubernetes.edition = 'ack.pro.xlarge'", "pulumi refresh"]),
        ({"addons": ADDONS[:1]}, ["add-ons at birth", "Fix: restore"]),
        ({"addons": [{**ADDONS[0], "config": '{"ENITrunking":"true"}'}, ADDONS[1]]}, ["ENITrunking"]),
        ({"newNatGateway": True}, ["the network owns the NAT gateway"]),
        ({"version": "1.33.5-aliyun.1"}, ["'1.33.5-aliyun.1'", "was '1.34.3-aliyun.1'", "never downgraded"]),
    ],
)
def test_a_change_that_would_never_be_made_is_refused(change, says):
    with pytest.raises(RefusalError) as refused:
        check(CREATE_ONLY, BORN, {**BORN, **change})
    for text in says:
        assert text in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"name": "another"},
        {"version": "1.34.10-aliyun.1"},
        {"version": "1.35.1-aliyun.1"},
        {"encryptionProviderKey": "key"},
        {"addons": [{**ADDONS[0], "version": "v1.17.0"}, ADDONS[1]]},
    ],
)
def test_what_can_be_changed_is_let_through(change):
    check(CREATE_ONLY, BORN, {**BORN, **change})


def test_encryption_is_not_taken_away():
    encrypted = {**BORN, "encryptionProviderKey": "key"}
    check(CREATE_ONLY, encrypted, {**encrypted, "encryptionProviderKey": "another"})
    with pytest.raises(RefusalError, match="encryption_key_id"):
        check(CREATE_ONLY, encrypted, BORN)


def test_a_cluster_that_the_provider_no_longer_describes_is_not_in_the_way():
    """A checkpoint of an older program may lack an input."""
    check(CREATE_ONLY, {**BORN, "version": None}, BORN)


def test_value_limit_and_fix_are_in_the_message():
    field = CreateOnly(input="a", setting="the.setting", limit="never changes", fix="restore it")
    with pytest.raises(RefusalError, match=r"the\.setting = 2: was 1 at birth, and never changes\. Fix: restore it"):
        check([field], {"a": 1}, {"a": 2})
