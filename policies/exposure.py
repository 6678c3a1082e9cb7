"""Rules about exposure to the internet, or to everybody."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import TYPE_CHECKING

from infra.closed_addresses import ANYWHERE
from policies.access import listed, statements
from policies.node_pools import CLUSTER
from policies.rule import Finding, Rule, RuleConfig, demand, message
from policies.values import Unknown, Value, each, entries, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.resources import Resource

_SECURITY_RULE = "alicloud:ecs/securityGroupRule:SecurityGroupRule"
_NAS_RULE = "alicloud:nas/accessRule:AccessRule"
_BUCKET, _BUCKET_ACL = "alicloud:oss/bucket:Bucket", "alicloud:oss/bucketAcl:BucketAcl"
_BUCKET_POLICY = "alicloud:oss/bucketPolicy:BucketPolicy"
_ADDRESS_TYPE = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type"
"""Annotation of ACK's load balancers (ACK, "Use annotations to configure CLB instances")."""
_ENVOY_SERVICE = ("spec", "provider", "kubernetes", "envoyService")
"""The Service that Envoy Gateway makes for its proxies; by default a load balancer."""
_WIDEST_IPV4, _WIDEST_IPV6 = 16, 32
"""Prefix lengths below which a public range counts as the internet."""
_MAPPED = 96
"""Prefix of IPv4's addresses in IPv6 (RFC 4291, section 2.5.5.2)."""
_OWN = [ip_network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")]
"""Ranges that the internet does not route (RFC 1918, RFC 4193), and that of the cloud's own services (RFC 6598)."""


def include_internet(ranges: Iterable[Value]) -> bool:
    """Whether ranges together hold one that counts as the internet, such as its two halves."""
    networks = [network for given in ranges for network in _networks(given)]
    versions = ([network for network in networks if network.version == version] for version in (4, 6))
    return any(_is_public(network) for same in versions for network in collapse_addresses(same))  # pyright: ignore[reportArgumentType, reportUnknownVariableType, reportUnknownArgumentType]


def _networks(value: Value) -> list[IPv4Network | IPv6Network]:
    """Return the network that a text names, if it does; one of IPv4 in the notation of IPv6 is of IPv4."""
    if not isinstance(value, str):
        return []
    try:
        network = ip_network(value, strict=False)
    except ValueError:  # the API server or the cloud says so itself
        return []
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped and network.prefixlen >= _MAPPED:
        return [ip_network(f"{network.network_address.ipv4_mapped}/{network.prefixlen - _MAPPED}")]
    return [network]


def _is_public(network: IPv4Network | IPv6Network) -> bool:
    # Networks of different versions cannot be compared.
    if any(network.version == own.version and network.subnet_of(own) for own in _OWN):  # pyright: ignore[reportArgumentType]
        return False
    return network.prefixlen < (_WIDEST_IPV4 if network.version == 4 else _WIDEST_IPV6)


def _api_server(cluster: Resource, _: RuleConfig) -> Iterator[Finding]:
    if cluster.type == CLUSTER:
        given = read(cluster.properties, "slbInternetEnabled")
        text = message(
            "slbInternetEnabled",
            given,
            "the API server is reached from inside the VPC alone, and an omitted key may mean true",
            "set it to false (athanor:alicloud.kubernetes.public_api_server)",
        )
        yield from demand(given, lambda value: value is False, text)


def _security_groups(rule: Resource, _: RuleConfig) -> Iterator[Finding]:
    if rule.type != _SECURITY_RULE or read(rule.properties, "type") == "egress":
        return
    if read(rule.properties, "policy") == "drop":
        return
    for key in ("cidrIp", "ipv6CidrIp"):
        given = read(rule.properties, key)
        text = message(key, given, "ingress from the internet is not allowed", "name the ranges that call it")
        yield from demand(given, lambda value: not include_internet([value]), text)


def _file_systems(rule: Resource, _: RuleConfig) -> Iterator[Finding]:
    if rule.type == _NAS_RULE:
        for key in ("sourceCidrIp", "ipv6SourceCidrIp"):
            given = read(rule.properties, key)
            text = message(key, given, "a file system has no users and passwords", "name the vswitches of its clients")
            yield from demand(given, lambda value: not include_internet([value]), text)


def _buckets(bucket: Resource, _: RuleConfig) -> Iterator[Finding]:
    fix = "set it to private and grant access by RAM policies"
    if bucket.type in {_BUCKET, _BUCKET_ACL}:
        given = read(bucket.properties, "acl")
        yield from demand(
            given, lambda value: value in (None, "private"), message("acl", given, "only private is allowed", fix)
        )
    if bucket.type in {_BUCKET, _BUCKET_POLICY}:
        for statement in statements(read(bucket.properties, "policy")):
            if isinstance(statement, Unknown):
                yield statement
            elif not entries(read(statement, "condition")) and "*" in listed(read(statement, "principal")):
                yield message("policy.Principal", "*", "is everybody on the internet", "name the accounts")


def _services(service: Resource, _: RuleConfig) -> Iterator[Finding]:
    if service.kind == "EnvoyProxy":
        given = read(service.properties, *_ENVOY_SERVICE, "type")
        annotations = read(service.properties, *_ENVOY_SERVICE, "annotations")
        yield from _type_and_address("LoadBalancer" if given is None else given, annotations)
    if service.kind != "Service":
        return
    annotations = read(service.properties, "metadata", "annotations")
    yield from _type_and_address(read(service.properties, "spec", "type"), annotations)
    for external in each(read(service.properties, "spec", "externalIPs")):
        text = message("spec.externalIPs", external, "takes over other hosts' addresses", "omit it")
        yield external if isinstance(external, Unknown) else text


def _type_and_address(given: Value, annotations: Value) -> Iterator[Finding]:
    text = message("spec.type", given, "opens a port on every node", "use ClusterIP, or a load balancer of the VPC")
    yield from demand(given, lambda value: value != "NodePort", text)
    if given == "LoadBalancer":
        values = entries(annotations)
        address = values.get(_ADDRESS_TYPE, values.get(""))
        text = message(
            f"annotation {_ADDRESS_TYPE}", address, "a load balancer is public without it", "set it to intranet"
        )
        yield from demand(address, lambda value: value == "intranet", text)


def _egress(policy: Resource, _: RuleConfig) -> Iterator[Finding]:
    """Look at ranges alone. What is open but for the metadata of nodes is the platform's: the pod that fetches code."""
    if policy.kind == "NetworkPolicy":
        opened = [read(rule, "to") for rule in each(read(policy.properties, "spec", "egress"))]
        ranges = [read(peer, "ipBlock", "cidr") for to in opened if to != ANYWHERE for peer in each(to)]
        wide = [given for given in ranges if include_internet([given])]
        yield from (given for given in ranges if isinstance(given, Unknown))
        for given in wide or ([ranges] if include_internet(ranges) else []):
            yield message("spec.egress", given, "pods must not reach the whole internet", "name ranges")


RULES = (
    Rule(
        name="no-public-api-server",
        demand="The API server has no address on the internet.",
        severity="critical",
        config=RuleConfig,
        check=_api_server,
    ),
    Rule(
        name="no-open-security-groups",
        demand="No security group admits the internet.",
        severity="critical",
        config=RuleConfig,
        check=_security_groups,
    ),
    Rule(
        name="no-open-file-systems",
        demand="File systems admit only named address ranges.",
        severity="critical",
        config=RuleConfig,
        check=_file_systems,
    ),
    Rule(
        name="no-public-buckets",
        demand="Buckets are private.",
        severity="critical",
        config=RuleConfig,
        check=_buckets,
    ),
    Rule(
        name="no-public-services",
        demand="Services open neither ports of nodes nor public load balancers.",
        severity="high",
        config=RuleConfig,
        check=_services,
    ),
    Rule(
        name="no-egress-to-the-internet",
        demand="Network policies open egress to named ranges, not to the whole internet.",
        severity="medium",
        config=RuleConfig,
        check=_egress,
    ),
)
