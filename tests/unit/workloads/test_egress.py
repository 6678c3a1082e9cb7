"""What a job's pods may connect to, and what nobody may open."""

from __future__ import annotations

import dataclasses
from ipaddress import ip_address, ip_network

import pytest

from infra.errors import RefusalError
from infra.offers import PlatformOffers
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import plain_platform
from workloads.egress import Egress
from workloads.network_policy import PolicyIdentity, job_network_policy_manifest
from workloads.pytorch import PyTorchJob, PyTorchJobArgs

ARGS = PyTorchJobArgs(program=("train.py",), workers=1)
LABELS = {"athanor.dev/job": "train"}
IDENTITY = PolicyIdentity(what="job", name="train", namespace="athanor", owner="athanor-local")


def _opened(*rules: Egress):
    return job_network_policy_manifest(IDENTITY, LABELS, [], rules)["spec"]["egress"][1:]


def _reaches(rule, address: str) -> bool:
    """Tell whether a rule of a network policy opens an address, by the definition of ipBlock."""
    [peer] = rule["to"]
    block = peer["ipBlock"]
    inside = [ip_address(address) in ip_network(cidr) for cidr in (block["cidr"], *block.get("except", ()))]
    return inside[0] and not any(inside[1:])


def test_a_job_opens_nothing_by_default():
    assert _opened(*ARGS.egress) == []


def test_a_range_is_opened_on_its_ports_alone():
    [rule] = _opened(Egress(to="10.64.3.0/24", ports=(443, 5432)))
    assert rule == {
        "to": [{"ipBlock": {"cidr": "10.64.3.0/24"}}],
        "ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 5432}],
    }


def test_an_address_is_a_range_of_one():
    assert Egress(to="192.0.2.7").to == "192.0.2.7/32"


@each_row("address", ["1.1.1.1", "47.95.0.1", "203.0.113.7", "172.32.0.1", "192.169.0.1"])
def test_the_internet_is_every_public_address(address):
    [rule] = _opened(Egress(to="internet"))
    assert _reaches(rule, address)
    assert rule["ports"] == [{"protocol": "TCP", "port": 443}]


@each_row(
    "address",
    ["10.64.0.1", "172.21.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200", "127.0.0.1", "224.0.0.1"],
)
def test_the_internet_contains_neither_clusters_nor_metadata(address):
    [rule] = _opened(Egress(to="internet"))
    assert not _reaches(rule, address)


def test_the_object_store_is_without_the_metadata_that_is_in_its_range():
    [rule] = _opened(Egress(to="oss"))
    assert _reaches(rule, "100.118.28.1")
    assert not _reaches(rule, "100.100.100.200")
    assert not _reaches(rule, "10.64.0.1")


@each_row("to", ["internet", "oss", "10.64.0.0/16"])
def test_every_exception_is_inside_its_range(to):
    """The API server rejects any other."""
    [rule] = _opened(Egress(to=to))
    block = rule["to"][0]["ipBlock"]
    assert all(ip_network(each).subnet_of(ip_network(block["cidr"])) for each in block.get("except", ()))


@each_row(
    ("values", "words"),
    [
        ({"to": "huggingface.co"}, ("egress.to = 'huggingface.co'", "cannot use host names", '"internet"')),
        ({"to": "0.0.0.0/0"}, ("wider than /8", 'write "internet"')),
        ({"to": "2001:db8::/32"}, ("IPv6", "IPv4 addresses")),
        ({"to": "10.64.3.7/24"}, ("bits set beyond /24", "write 10.64.3.0/24")),
        ({"to": "100.64.0.0/10"}, ("the metadata of nodes on Alibaba Cloud (100.100.100.200/32)",)),
        ({"to": "169.254.169.254"}, ("link-local",)),
        ({"to": "127.0.0.1"}, ("the pod itself",)),
        ({"to": "10.64.3.7/32", "ports": ()}, ("egress.ports = ()", "opens nothing")),
        ({"to": "10.64.3.7/32", "ports": (0,)}, ("egress.ports = 0", "1 to 65535")),
        ({"to": "10.64.3.7/32", "ports": ("443",)}, ("egress.ports[0] = '443'", "without quotes")),
    ],
)
def test_what_nobody_may_open_is_refused(values, words):
    with pytest.raises(RefusalError) as caught:
        Egress(**values)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def _recorded(networks: tuple[str, ...], to: str):
    def program() -> None:
        platform = dataclasses.replace(plain_platform(), offers=PlatformOffers(networks=networks))
        PyTorchJob("train", platform, dataclasses.replace(ARGS, egress=(Egress(to=to),)))

    return record(program, preview=False)


@each_row("to", ["10.64.0.0/12", "10.0.0.0/8", "172.21.0.0/20"])
def test_a_whole_network_of_the_cluster_is_refused(to):
    with pytest.raises(RefusalError, match="a whole network of the cluster"):
        _recorded(("10.64.0.0/12", "172.21.0.0/20"), to)


@each_row("to", ["10.64.3.7/32", "192.0.2.0/24", "internet"])
def test_a_host_in_the_clusters_network_may_be_named(to):
    policy = _recorded(("10.64.0.0/12",), to).one("train-network", "NetworkPolicy").inputs
    assert len(policy["spec"]["egress"]) == 2


def test_egress_is_not_part_of_the_jobs_name():
    """Another rule must not start the job again."""
    jobs = [_recorded((), to).one("train", "Job").inputs for to in ("192.0.2.7", "internet")]
    assert jobs[0] == jobs[1]
