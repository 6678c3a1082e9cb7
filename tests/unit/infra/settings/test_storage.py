"""Storage that could not work is refused before anything is created."""

from __future__ import annotations

from itertools import product

import pytest

from infra.errors import RefusalError
from infra.settings.parse import parse_settings
from infra.settings.storage import StandardNas
from infra.storage import ClassVolumes, NodeFolders, choose_backing
from tests.tables import each_row

OWN = {"kubeconfig": "~/.kube/config", "context": "kind-athanor"}
OSS = {"name": "imagenet", "bucket": "team-datasets"}

# the storage settings, the key that is named, words of the message
REFUSED = [
    ({"storage_class": "alicloud-disk-essd"}, "storage", "a disk can be attached to only one node"),
    ({"storage_class": "athanor-disk"}, "storage", "set access_mode to ReadWriteOnce"),
    ({"storage_class": "fast", "classes": [{"mode": "disk", "name": "fast"}]}, "storage", "'fast'"),
    ({"nas": {"mode": "nfs"}}, "storage.nas", "standard"),
    ({"nas": {"mode": "standard", "storage_type": "advance"}}, "storage.nas.standard.storage_type", "Speed class"),
    ({"nas": {"mode": "standard", "capacity_gib": 100}}, "storage.nas.standard.capacity_gib", "no such key"),
    ({"nas": {"mode": "standard", "client_cidrs": ["0.0.0.0/0"]}},
     "storage.nas.standard.client_cidrs.0", "every address"),
    ({"nas": {"mode": "standard", "client_cidrs": ["10.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8"]}},
     "storage.nas.standard.client_cidrs", "repeats 10.0.0.0/8"),
    ({"nas": {"mode": "extreme", "capacity_gib": 500, "encrypted": False, "kms_key_id": "key-1"}},
     "storage.nas.extreme", "nothing would be encrypted with it"),
    ({"nas": {"mode": "standard", "recycle_bin_days": 0}}, "storage.nas.standard.recycle_bin_days", "0"),
    ({"nas": {"mode": "extreme"}}, "storage.nas.extreme.capacity_gib", "Size in GiB"),
    ({"nas": {"mode": "extreme", "capacity_gib": 99}}, "storage.nas.extreme.capacity_gib", "than or equal to 100"),
    ({"nas": {"mode": "extreme", "capacity_gib": 262145}}, "storage.nas.extreme.capacity_gib", "262144"),
    ({"nas": {"mode": "extreme", "capacity_gib": 100}, "data_size_gib": 90}, "storage", "data and output need 110 GiB"),
    ({"nas": {"mode": "cpfs", "capacity_gib": 2400}}, "storage.nas.cpfs.capacity_gib", "3600"),
    ({"nas": {"mode": "cpfs", "capacity_gib": 4000}}, "storage.nas.cpfs.capacity_gib", "use 4800"),
    ({"nas": {"mode": "cpfs", "capacity_gib": 1200 * 874}}, "storage.nas.cpfs.capacity_gib", "1048576"),
    ({"nas": {"mode": "cpfs", "capacity_gib": 3600, "export_domain": "cpfs-1.example"}},
     "storage.nas.cpfs.export_domain", "Domain of the export"),
    ({"classes": [{"mode": "nas"}, {"mode": "nas"}]}, "storage", "repeats athanor-shared"),
    ({"classes": [{"mode": "nas", "archive_on_delete": False}]}, "storage", "recycle_bin_days"),
    ({"classes": [{"mode": "nas", "path": "volumes"}]}, "storage.classes.0.nas.path", "in which each claim"),
    ({"oss": [OSS, OSS]}, "storage", "repeats imagenet"),
    ({"oss": [{**OSS, "bucket": "Team_Data"}]}, "storage.oss.0.bucket", "The bucket"),
    ({"oss": [{**OSS, "path": "imagenet"}]}, "storage.oss.0.path", "Folder of the bucket"),
    ({"oss": [{**OSS, "path": "/a/*"}]}, "storage.oss.0.path", "Folder of the bucket"),
    ({"oss": [{**OSS, "path": "/a/"}]}, "storage.oss.0.path", "Folder of the bucket"),
    ({"oss": [{**OSS, "read_only": False}]}, "storage.oss.0", "use ossfs"),
]  # fmt: skip


@each_row(("storage", "key", "words"), REFUSED, ids=[str(refused[0])[:60] for refused in REFUSED])
def test_what_cannot_work_is_refused_with_the_fix(storage, key, words):
    with pytest.raises(RefusalError) as caught:
        parse_settings({"cluster": OWN, "storage": storage})
    [line] = [line for line in str(caught.value).splitlines() if line.startswith("  - ")]
    assert f"athanor:{key}" in line
    assert words in line
    assert "Fix: " in line


@each_row(
    "storage",
    [
        {"storage_class": "alicloud-disk-essd", "access_mode": "ReadWriteOnce"},
        {"nas": {"mode": "extreme", "capacity_gib": 262144}},
        {"nas": {"mode": "cpfs", "capacity_gib": 1200 * 873}},
        {"nas": {"mode": "extreme", "capacity_gib": 100}, "data_size_gib": 90, "storage_class": "athanor-shared"},
        {"nas": {"mode": "standard", "recycle_bin_days": 3}, "classes": [{"mode": "nas", "archive_on_delete": False}]},
        {"oss": [{**OSS, "read_only": False, "client": "ossfs"}]},
        {"classes": []},
    ],
)
def test_what_can_work_is_taken(storage):
    parse_settings({"cluster": OWN, "storage": storage})


def test_an_environment_gets_a_general_purpose_file_system_by_default():
    assert parse_settings({}).storage.file_system == StandardNas()


@each_row(("storage", "cluster"), product([{"nas": {"mode": "standard"}}, {"oss": [OSS]}], [{}, OWN]))
def test_storage_of_the_cloud_is_refused_on_other_clusters(storage, cluster):
    with pytest.raises(RefusalError, match="describe the environment under alicloud"):
        choose_backing(parse_settings({"cluster": cluster, "storage": storage}))


def test_each_cluster_has_its_backing():
    assert isinstance(choose_backing(parse_settings({})), NodeFolders)
    assert choose_backing(parse_settings({"cluster": OWN})) == ClassVolumes(storage_class=None)
    named = parse_settings({"cluster": OWN, "storage": {"storage_class": "nas"}})
    assert choose_backing(named) == ClassVolumes(storage_class="nas")
