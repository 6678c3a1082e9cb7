"""A bucket's role may do what the mount needs and nothing else, and only the mounting pods may take it."""

from __future__ import annotations

import json

from infra.alicloud.oss import policy_statements, trust_document, volume_manifest
from infra.settings.storage import OssMountSettings
from tests.tables import each_row

BUCKET = "acs:oss:*:*:team-datasets"


def _mount(**given):
    return OssMountSettings.model_validate({"name": "imagenet", "bucket": "team-datasets", **given})


def test_only_the_drivers_own_account_may_take_the_role():
    trust = json.loads(trust_document("https://oidc.example/c1", "acs:ram::1:oidc-provider/c1", "ns", "account"))
    [statement] = trust["Statement"]
    assert trust["Version"] == "1"
    assert statement["Effect"] == "Allow"
    assert statement["Action"] == "sts:AssumeRole"
    assert statement["Principal"] == {"Federated": ["acs:ram::1:oidc-provider/c1"]}
    assert statement["Condition"] == {
        "StringEquals": {
            "oidc:iss": "https://oidc.example/c1",
            "oidc:aud": "sts.aliyuncs.com",
            "oidc:sub": "system:serviceaccount:ns:account",
        }
    }


@each_row(("path", "objects"), [("/", f"{BUCKET}/*"), ("/a/b", f"{BUCKET}/a/b/*")])
def test_a_reading_mount_may_list_and_read_its_folder(path, objects):
    of_bucket, of_objects = policy_statements(_mount(path=path))
    assert of_bucket["Resource"] == [BUCKET]
    assert of_bucket["Action"] == ["oss:ListObjects", "oss:GetBucketInfo"]
    assert of_objects["Resource"] == [objects]
    assert of_objects["Action"] == ["oss:GetObject"]


def test_a_writing_mount_may_write_and_delete_there_and_nothing_to_the_bucket():
    actions = [
        action
        for statement in policy_statements(_mount(read_only=False, client="ossfs"))
        for action in statement["Action"]
    ]
    assert {"oss:PutObject", "oss:DeleteObject", "oss:GetObject"} <= set(actions)
    assert not any("*" in action or "PutBucket" in action or "DeleteBucket" in action for action in actions)


def test_the_volume_reads_over_the_internal_endpoint_as_the_role():
    spec = volume_manifest(_mount(path="/imagenet"), "team-imagenet", "cn-hangzhou", "role")["spec"]
    assert spec["accessModes"] == ["ReadOnlyMany"]
    assert spec["csi"]["readOnly"] is True
    assert spec["csi"]["volumeHandle"] == "team-imagenet"
    assert spec["csi"]["volumeAttributes"] == {
        "bucket": "team-datasets",
        "path": "/imagenet",
        "url": "oss-cn-hangzhou-internal.aliyuncs.com",
        "region": "cn-hangzhou",
        "sigVersion": "v4",
        "fuseType": "ossfs2",
        "authType": "rrsa",
        "roleName": "role",
    }


def test_a_writable_volume_can_be_written_by_the_pods_user():
    spec = volume_manifest(_mount(read_only=False, client="ossfs"), "v", "cn-hangzhou", "role")["spec"]
    assert spec["accessModes"] == ["ReadWriteMany"]
    assert spec["csi"]["readOnly"] is False
    assert spec["csi"]["volumeAttributes"]["otherOpts"] == "-o allow_other -o umask=000"


def test_no_key_is_anywhere_in_the_volume():
    assert "Secret" not in json.dumps(volume_manifest(_mount(), "v", "cn-hangzhou", "role"))
