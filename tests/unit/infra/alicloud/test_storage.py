"""All storage of an environment on Alibaba Cloud, as one recorded program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infra.errors import RefusalError
from tests.recording_engine import UNKNOWN
from tests.tables import each_row
from tests.unit.infra.alicloud.storage_program import ZONES, environment

if TYPE_CHECKING:
    from tests.recording_engine import Recording

DOMAIN = "cpfs-123.cn-hangzhou.cpfs.aliyuncs.com"
STORAGE_CLASS = "kubernetes:storage.k8s.io/v1:StorageClass"
EXISTING = {
    "vpc_id": "vpc-1",
    "node_vswitch_ids": dict.fromkeys(ZONES, "vsw-1"),
    "pod_vswitch_ids": dict.fromkeys(ZONES, "vsw-2"),
    "security_group_id": "sg-1",
}


def inputs(recording: Recording, kind: str) -> list[dict[str, Any]]:
    """The inputs of every resource of a kind such as `nas/fileSystem:FileSystem`."""
    return [resource.inputs for resource in recording.of_type(f"alicloud:{kind}")]


@pytest.fixture(params=[True, False], ids=["preview", "update"])
def default(request) -> Recording:
    return environment(preview=request.param)


def test_the_default_is_one_encrypted_general_purpose_file_system(default):
    assert inputs(default, "nas/fileSystem:FileSystem") == [
        {
            "fileSystemType": "standard",
            "storageType": "Performance",
            "protocolType": "NFS",
            "zoneId": "cn-hangzhou-i",
            "encryptType": 1,
            "description": "athanor-prod-nas",
            "tags": {"athanor:project": "athanor", "athanor:stack": "prod"},
        }
    ]


def test_only_node_vswitches_may_mount_it(default):
    """The driver mounts on the nodes; anything that may mount is root there, which no pod should be."""
    rules = inputs(default, "nas/accessRule:AccessRule")
    assert sorted(rule["sourceCidrIp"] for rule in rules) == ["10.64.0.0/19", "10.66.0.0/19"]
    [group] = inputs(default, "nas/accessGroup:AccessGroup")
    assert group == {"accessGroupName": "athanor-prod-nas", "accessGroupType": "Vpc", "fileSystemType": "standard"}
    assert {rule["accessGroupName"] for rule in rules} == {"athanor-prod-nas"}
    assert {rule["fileSystemType"] for rule in rules} == {"standard"}


def test_one_mount_target_in_the_zone_of_the_file_system_serves_all_once_everybody_may_mount(default):
    [target] = default.of_type("alicloud:nas/mountTarget:MountTarget")
    assert (target.inputs["networkType"], target.inputs["accessGroupName"]) == ("Vpc", "athanor-prod-nas")
    rules = {rule.urn for rule in default.of_type("alicloud:nas/accessRule:AccessRule")}
    assert rules <= target.depends_on
    assert (target.inputs["vpcId"], target.inputs["vswitchId"]) == ("vpc-1", "vsw-cn-hangzhou-i")


def test_an_existing_file_system_is_mounted_and_nothing_of_it_is_declared():
    nas = {"mode": "existing", "server": "abc-1.cn-hangzhou.nas.aliyuncs.com", "root": "/share/dev"}
    recording = environment({"nas": nas})
    assert [each for each in recording.resources.values() if each.type.startswith("alicloud:nas/")] == []
    attributes = recording.one("output-volume").inputs["spec"]["csi"]["volumeAttributes"]
    assert (attributes["server"], attributes["path"]) == (nas["server"], "/share/dev/output")
    [claims] = [each for each in recording.of_type(STORAGE_CLASS) if "server" in each.inputs.get("parameters", {})]
    assert claims.inputs["parameters"]["server"] == nas["server"] + ":/share/dev/volumes/"


@each_row("claim", ["data", "output"])
def test_each_claim_is_bound_to_a_folder_of_the_file_system(claim):
    recording = environment(preview=True)
    volume = recording.one(f"{claim}-volume")
    [target] = recording.of_type("alicloud:nas/mountTarget:MountTarget")
    assert volume.inputs["spec"]["csi"] == {
        "driver": "nasplugin.csi.alibabacloud.com",
        "volumeHandle": f"team-{claim}",
        "volumeAttributes": {"server": UNKNOWN, "path": f"/{claim}", "mountProtocol": "nfs", "mode": "0777"},
    }
    assert volume.inputs["spec"]["mountOptions"] == ["nolock", "tcp", "noresvport", "vers=3"]
    assert volume.inputs["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert target.urn in volume.depends_on
    bound = recording.one(claim).inputs["spec"]
    assert (bound["volumeName"], bound["storageClassName"]) == (f"team-{claim}", "")
    assert bound["accessModes"] == volume.inputs["spec"]["accessModes"] == ["ReadWriteMany"]


def test_a_preview_declares_what_an_update_declares():
    everything = {
        "oss": [{"name": "imagenet", "bucket": "team-datasets"}],
        "nas": {"mode": "extreme", "capacity_gib": 200},
    }
    assert set(environment(everything, preview=True).resources) == set(environment(everything).resources)


def test_every_component_registers_its_outputs(default):
    components = [component for component in default.resources.values() if not component.custom]
    assert {component.type for component in components} >= {"athanor:infra:AlicloudStorage", "athanor:infra:NasStorage"}
    assert all(component.outputs is not None for component in components)


def test_an_extreme_file_system_has_a_capacity_and_its_own_root():
    nas = {"mode": "extreme", "storage_type": "advance", "capacity_gib": 200, "zone": "cn-hangzhou-j"}
    recording = environment({"nas": nas})
    [made] = inputs(recording, "nas/fileSystem:FileSystem")
    assert (made["fileSystemType"], made["storageType"], made["capacity"]) == ("extreme", "advance", 200)
    assert made["zoneId"] == "cn-hangzhou-j"
    assert inputs(recording, "nas/accessGroup:AccessGroup")[0]["fileSystemType"] == "extreme"
    assert recording.one("data-volume").inputs["spec"]["csi"]["volumeAttributes"]["path"] == "/share/data"


@each_row(
    ("nas", "encryption"),
    [
        ({"encrypted": False}, {"encryptType": 0}),
        ({"encrypted": True}, {"encryptType": 1}),
        ({"mode": "extreme", "capacity_gib": 100, "kms_key_id": "key-1"}, {"encryptType": 2, "kmsKeyId": "key-1"}),
    ],
)
def test_encryption(nas, encryption):
    [made] = inputs(environment({"nas": {"mode": "standard", **nas}}), "nas/fileSystem:FileSystem")
    assert {key: value for key, value in made.items() if key in ("encryptType", "kmsKeyId")} == encryption


def test_deleted_files_can_be_had_back():
    nas = {"mode": "standard", "storage_type": "Capacity", "recycle_bin_days": 7}
    [made] = inputs(environment({"nas": nas}), "nas/fileSystem:FileSystem")
    assert made["recycleBin"] == {"status": "Enable", "reservedDays": 7}


CPFS = {"mode": "cpfs", "capacity_gib": 3600}


def test_cpfs_is_exported_to_the_vpc():
    recording = environment({"nas": CPFS}, preview=True)
    [made] = inputs(recording, "nas/fileSystem:FileSystem")
    assert (made["fileSystemType"], made["protocolType"], made["storageType"]) == ("cpfs", "cpfs", "advance_100")
    assert (made["capacity"], made["vpcId"], made["vswitchId"]) == (3600, "vpc-1", "vsw-cn-hangzhou-i")
    [service] = inputs(recording, "nas/protocolService:ProtocolService")
    assert (service["protocolType"], service["protocolSpec"]) == ("NFS", "General")
    [export] = inputs(recording, "nas/protocolMountTarget:ProtocolMountTarget")
    assert (export["path"], export["protocolServiceId"]) == ("/", UNKNOWN)
    assert inputs(recording, "nas/mountTarget:MountTarget") == []


def test_cpfs_volumes_wait_for_the_domain_that_only_the_console_shows():
    recording = environment({"nas": CPFS})
    assert recording.of_kind("PersistentVolume") == []
    assert recording.one("data").inputs["spec"]["volumeName"] == "team-data"
    assert [storage_class.name for storage_class in recording.of_kind("StorageClass")] == ["athanor-disk"]


def test_cpfs_volumes_follow_with_the_domain():
    recording = environment({"nas": {**CPFS, "export_domain": DOMAIN}})
    attributes = recording.one("output-volume").inputs["spec"]["csi"]["volumeAttributes"]
    assert attributes["server"] == DOMAIN
    assert (attributes["path"], attributes["mountProtocol"]) == ("/share/output", "cpfs-nfs")
    shared = recording.one("athanor-shared").inputs["parameters"]
    assert (shared["server"], shared["mountProtocol"]) == (f"{DOMAIN}:/share/volumes/", "cpfs-nfs")


def test_the_domain_adds_volumes_and_touches_nothing_else():
    before, after = environment({"nas": CPFS}), environment({"nas": {**CPFS, "export_domain": DOMAIN}})
    assert set(before.resources) < set(after.resources)
    assert all(after.resources[urn].inputs == resource.inputs for urn, resource in before.resources.items())


STATEFUL = ("alicloud:nas/fileSystem", "alicloud:nas/mountTarget", "alicloud:nas/protocol")


@each_row("nas", [{"mode": "standard"}, {**CPFS, "export_domain": DOMAIN}])
def test_data_is_protected_in_a_protected_environment_and_in_no_other(nas):
    def protected(recording):
        return {resource.urn for resource in recording.resources.values() if resource.protect}

    kept = environment({"nas": nas}, protected=True)
    data = [f for f in kept.resources.values() if f.type.startswith(STATEFUL)]
    volumes = [*kept.of_kind("PersistentVolume"), *kept.of_kind("PersistentVolumeClaim")]
    assert protected(kept) == {resource.urn for resource in (*data, *volumes)}
    assert len(volumes) == 4
    assert protected(environment({"nas": nas})) == set()


def test_a_class_for_shared_folders_and_one_for_disks():
    recording = environment(preview=True)
    shared, disk = recording.one("athanor-shared").inputs, recording.one("athanor-disk").inputs
    assert shared["provisioner"] == "nasplugin.csi.alibabacloud.com"
    assert shared["parameters"] == {
        "volumeAs": "subpath", "server": UNKNOWN, "mountProtocol": "nfs", "archiveOnDelete": "true",
    }  # fmt: skip
    assert shared["volumeBindingMode"] == "Immediate"
    assert disk["provisioner"] == "diskplugin.csi.alibabacloud.com"
    assert disk["parameters"] == {
        "type": "cloud_essd", "performanceLevel": "PL1", "encrypted": "true", "csi.storage.k8s.io/fstype": "ext4",
    }  # fmt: skip
    assert disk["volumeBindingMode"] == "WaitForFirstConsumer"


@each_row(("protected", "reclaim"), [(True, "Retain"), (False, "Delete")])
def test_volumes_of_a_protected_environment_outlive_their_claims(protected, reclaim):
    classes = [{"mode": "nas"}, {"mode": "disk"}, {"mode": "disk", "name": "scratch", "reclaim": "Delete"}]
    recording = environment({"classes": classes}, protected=protected)
    policies = {
        storage_class.name: storage_class.inputs["reclaimPolicy"] for storage_class in recording.of_kind("StorageClass")
    }
    assert policies == {"athanor-shared": reclaim, "athanor-disk": reclaim, "scratch": "Delete"}


@each_row("preview", [True, False])
def test_a_changed_class_is_deleted_before_the_new_one_is_created_and_no_preview_tries_it(preview):
    """It keeps its name, and the API server changes none of its fields in place."""
    for storage_class in environment(preview=preview).of_kind("StorageClass"):
        assert storage_class.delete_before_replace
        assert set(storage_class.replace_on_changes) == {
            "parameters", "provisioner", "reclaimPolicy", "volumeBindingMode",
        }  # fmt: skip
        assert (storage_class.inputs["allowVolumeExpansion"] is UNKNOWN) == preview
        assert storage_class.ignore_changes == ("allowVolumeExpansion",)


def test_a_named_class_holds_the_volumes_instead_of_the_file_system():
    recording = environment({"storage_class": "athanor-shared"})
    assert recording.of_kind("PersistentVolume") == []
    assert {c.inputs["spec"]["storageClassName"] for c in recording.of_kind("PersistentVolumeClaim")} == {
        "athanor-shared"
    }


def test_a_zone_without_a_vswitch_is_refused():
    with pytest.raises(RefusalError, match="cn-hangzhou-z") as refusal:
        environment({"nas": {"mode": "standard", "zone": "cn-hangzhou-z"}})
    assert refusal.value.field == "athanor:storage.nas.zone"


def test_existing_vswitches_must_be_let_in_by_their_addresses():
    with pytest.raises(RefusalError, match="list the CIDRs"):
        environment(network={"existing": EXISTING})
    nas = {"mode": "standard", "client_cidrs": ["10.1.0.0/16", "10.2.0.0/16"]}
    rules = inputs(environment({"nas": nas}, network={"existing": EXISTING}), "nas/accessRule:AccessRule")
    assert sorted(rule["sourceCidrIp"] for rule in rules) == ["10.1.0.0/16", "10.2.0.0/16"]


OSS = {"name": "imagenet", "bucket": "team-datasets", "path": "/imagenet"}


def test_a_bucket_is_a_claim_that_waits_for_its_role():
    recording = environment({"oss": [OSS]})
    claim, volume = recording.one("oss-imagenet", "PersistentVolumeClaim"), recording.one("oss-imagenet-volume")
    assert claim.inputs["metadata"]["name"] == "imagenet"
    assert claim.inputs["metadata"]["namespace"] == "team"
    assert claim.inputs["spec"]["volumeName"] == volume.inputs["metadata"]["name"] == "team-imagenet"
    [attachment] = recording.of_type("alicloud:ram/rolePolicyAttachment:RolePolicyAttachment")
    assert attachment.urn in recording.ancestors(claim)
    assert volume.inputs["spec"]["csi"]["volumeAttributes"]["roleName"] == attachment.inputs["roleName"]
    assert attachment.inputs["policyName"] == "athanor-prod-oss-imagenet"


def test_no_bucket_no_role():
    assert not [resource for resource in environment().resources.values() if resource.type.startswith("alicloud:ram")]


def test_a_bucket_cannot_take_the_name_of_a_claim_that_is_there():
    with pytest.raises(RefusalError, match="choose another name"):
        environment({"oss": [{**OSS, "name": "data"}]})
