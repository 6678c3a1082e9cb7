"""Which files of Alibaba Cloud's SDK are compiled."""

import pytest

from tools.toolchain.alicloud_sdk import SDK_MODULE, copy_used_sdk
from tools.toolchain.catalogue import ALICLOUD_UPSTREAM_MODULE
from tools.toolchain.go_command import Go

FAKE_GO = """
for word; do module=$word; done
printf '{"Dir": "%s"}' "$MODULES/$(/usr/bin/basename "$module")"
"""
CALL = """package ecs
func (client *Client) {0}(request *{0}Request) (*{0}Response, error) {{ return nil, nil }}
type {0}Request struct {{}}
type {0}Response struct {{ Found {1} }}
func Create{0}Request() *{0}Request {{ return nil }}
"""
SDK = {
    "sdk/requests/rpc.go": "package requests",
    "services/ecs/client.go": "package ecs\ntype Client struct{ endpoints string }\nvar x = EndpointMap",
    "services/ecs/endpoint.go": "package ecs\nvar EndpointMap string",
    "services/ecs/describe_disks.go": CALL.format("DescribeDisks", "Disk"),
    "services/ecs/struct_disk.go": "package ecs\ntype Disk struct{ Tags Tag }",
    "services/ecs/struct_tag.go": "package ecs\ntype Tag struct{}",
    "services/ecs/describe_images.go": CALL.format("DescribeImages", "Image"),
    "services/ecs/struct_image.go": "package ecs\ntype Image struct{}",
    "services/vpc/client.go": "package vpc\ntype Client struct{}",
}
PROVIDER = {
    "alicloud/disks.go": f"""package alicloud
import "{SDK_MODULE}/services/ecs"
func disks(client *ecs.Client) {{ client.DescribeDisks(ecs.CreateDescribeDisksRequest()) }}
""",
    "alicloud/images.go": "package alicloud\nfunc images() { other.DescribeImages() }\n",
}


@pytest.fixture
def go(programs, tmp_path, monkeypatch):
    for module, files in ((SDK_MODULE, SDK), (ALICLOUD_UPSTREAM_MODULE, PROVIDER)):
        for name, content in files.items():
            file = tmp_path / "modules" / module.rpartition("/")[2] / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
            file.chmod(0o444)
    monkeypatch.setenv("MODULES", str(tmp_path / "modules"))
    return Go(program=programs("go", FAKE_GO), log=tmp_path / "log")


def test_calls_that_are_made_come_with_all_that_they_need(go, tmp_path):
    target = tmp_path / "sources" / "alibaba-cloud-sdk"
    (target / "upstream").mkdir(parents=True)
    copy_used_sdk(go, tmp_path / "sources")
    assert sorted(file.relative_to(target).as_posix() for file in target.rglob("*.go")) == [
        "sdk/requests/rpc.go",
        "services/ecs/client.go",
        "services/ecs/describe_disks.go",
        "services/ecs/endpoint.go",
        "services/ecs/struct_disk.go",
        "services/ecs/struct_tag.go",
    ]
