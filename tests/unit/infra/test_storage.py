"""Two claims for every workload; on the local cluster they are folders of its node."""

from __future__ import annotations

from pathlib import Path

from infra.storage import NodeFolder, claim_manifest, node_folder_volume_manifest

FOLDER = NodeFolder(node="local-node-0", path=Path("/srv/volumes/data"))


def _on_a_cluster_of_the_users(machine_home, **storage):
    cluster = {"kubeconfig": str(machine_home / "local" / "kubeconfig"), "context": "athanor-local"}
    return {"cluster": cluster, "storage": storage, "monitoring": {"kind": "none"}}


def _claims(recording):
    """The claims of the workloads."""
    return [c for c in recording.of_kind("PersistentVolumeClaim") if c.inputs["metadata"]["namespace"] == "athanor"]


def test_a_node_folder_binds_to_its_node_and_outlives_its_claim():
    spec = node_folder_volume_manifest("athanor-data", FOLDER, 5, "ReadWriteMany")["spec"]
    assert spec["local"] == {"path": "/srv/volumes/data"}
    assert "hostPath" not in spec
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    [term] = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["local-node-0"]}]


def test_a_claim_fits_its_volume():
    volume = node_folder_volume_manifest("athanor-data", FOLDER, 5, "ReadWriteMany")["spec"]
    claim = claim_manifest(
        "data", "athanor", 5, "ReadWriteMany", {"volumeName": "athanor-data", "storageClassName": ""}
    )["spec"]
    assert claim["resources"]["requests"]["storage"] == volume["capacity"]["storage"]
    assert claim["accessModes"] == volume["accessModes"]
    assert claim["storageClassName"] == volume["storageClassName"] == ""


def test_up_waits_for_no_claim():
    """A class that binds on first use would never bind before the pods that `up` creates afterwards."""
    manifest = claim_manifest("data", "athanor", 5, "ReadWriteOnce", {})
    assert manifest["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"


def test_the_local_cluster_gets_a_volume_per_claim(local_stack, machine_home):
    for claim in _claims(local_stack):
        volume = local_stack.one(f"{claim.name}-volume").inputs
        assert claim.inputs["spec"]["volumeName"] == volume["metadata"]["name"] == f"athanor-{claim.name}"
        assert volume["spec"]["local"]["path"] == str(machine_home / "local" / "volumes" / claim.name)
    assert {claim.name for claim in _claims(local_stack)} == {"data", "output"}


def test_another_cluster_gets_claims_of_its_default_class_and_no_volume(record_stack, machine_home):
    recording = record_stack(_on_a_cluster_of_the_users(machine_home))
    assert recording.of_kind("PersistentVolume") == []
    for claim in recording.of_kind("PersistentVolumeClaim"):
        assert not {"storageClassName", "volumeName"} & set(claim.inputs["spec"])


def test_sizes_class_and_mode_come_from_the_settings_and_the_engine_compares_the_class(record_stack, machine_home):
    storage = {"storage_class": "nas", "access_mode": "ReadWriteOnce", "data_size_gib": 7, "output_size_gib": 70}
    recording = record_stack(_on_a_cluster_of_the_users(machine_home, **storage))
    sizes = {claim.name: claim.inputs["spec"] for claim in recording.of_kind("PersistentVolumeClaim")}
    requested = {name: spec["resources"]["requests"]["storage"] for name, spec in sizes.items()}
    assert requested == {"data": "7Gi", "output": "70Gi"}
    assert all(spec["storageClassName"] == "nas" for spec in sizes.values())
    assert all(spec["accessModes"] == ["ReadWriteOnce"] for spec in sizes.values())
    (storage,) = recording.of_type("athanor:infra:SharedStorage")
    assert storage.inputs == {"storage_class": "nas"}
    assert [name for name in storage.before_update if name in recording.hooks] == ["storage-fixed-class"]
