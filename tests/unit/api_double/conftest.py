"""A double, a client of it, and the network that most tests start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.api_double.double import ApiDouble
from tests.unit.api_double.api_client import Client, client_of

if TYPE_CHECKING:
    from collections.abc import Iterator

REGION = "cn-hangzhou"
ZONE = "cn-hangzhou-i"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory):
    """Return a folder with certificates: new ones for every test would take most of its time."""
    folder = tmp_path_factory.mktemp("double")
    ApiDouble(folder).stop()
    return folder


@pytest.fixture
def double(certificates) -> Iterator[ApiDouble]:
    (certificates / "account.json").unlink(missing_ok=True)
    with ApiDouble(certificates, region=REGION) as double:
        yield double
    assert double.mistakes() == []


@pytest.fixture
def client(double: ApiDouble) -> Client:
    return client_of(double)


@dataclass(frozen=True)
class Network:
    """A VPC with a vswitch, both available."""

    client: Client
    vpc: str
    vswitch: str

    def add_vswitch(self, cidr: str, zone: str = ZONE) -> str:
        made = self.client.rpc("vpc", "CreateVSwitch", VpcId=self.vpc, CidrBlock=cidr, ZoneId=zone)
        settle(self.client, "DescribeVSwitchAttributes", VSwitchId=made["VSwitchId"])
        return made["VSwitchId"]


def settle(client: Client, operation: str, product: str = "vpc", **names: str) -> dict[str, Any]:
    """Read an object until it has left its passing state; return it."""
    passing = {"Pending", "Creating", "Associating", "Modifying", "CREATING", "Extending"}
    for _ in range(5):
        answer = client.rpc(product, operation, **names)
        if answer.get("Status") not in passing:
            return answer
    raise AssertionError(f"{names} stays {answer['Status']}")


@pytest.fixture
def network(client: Client) -> Network:
    vpc = client.rpc("vpc", "CreateVpc", RegionId=REGION, CidrBlock="10.0.0.0/8", VpcName="net")["VpcId"]
    settle(client, "DescribeVpcAttribute", VpcId=vpc)
    made = client.rpc("vpc", "CreateVSwitch", VpcId=vpc, CidrBlock="10.0.0.0/20", ZoneId=ZONE, VSwitchName="nodes")
    settle(client, "DescribeVSwitchAttributes", VSwitchId=made["VSwitchId"])
    return Network(client, vpc, made["VSwitchId"])
