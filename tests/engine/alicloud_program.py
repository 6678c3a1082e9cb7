"""What test_alicloud_double.py declares: one resource, or several, of each kind that the project makes.

`wanted.json` in the project's folder says how much of it and in which version.
"""

from __future__ import annotations

import json
from pathlib import Path

import pulumi
import pulumi_alicloud as alicloud

ZONES = ("i", "j")
RULE = {"ip_protocol": "all", "port_range": "-1/-1", "policy": "accept", "priority": 1, "nic_type": "intranet"}
TRUST = {
    "Version": "1",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Federated": ["acs:ram::1012345678901234:oidc-provider/ack-rrsa-c1"]},
            "Condition": {"StringEquals": {"oidc:aud": "sts.aliyuncs.com"}},
        }
    ],
}


class Declaration:
    """Everything, as it is at first or, `later`, with whatever can be changed in place changed."""

    def __init__(self, *, later: bool) -> None:
        self.later = later
        self.provider = alicloud.Provider("cloud", region="cn-hangzhou", account_type="Domestic")
        self.options = pulumi.ResourceOptions(provider=self.provider)
        self.tags = {"athanor:stack": "later" if later else "test", **({} if later else {"only": "first"})}
        self.words = "changed later" if later else "as created"
        self.vpc = alicloud.vpc.Network(
            "vpc", vpc_name="athanor-test-vpc", cidr_block="10.0.0.0/8", description=self.words, tags=self.tags,
            opts=self.options,
        )  # fmt: skip

    def rest(self) -> None:
        self._vswitches()
        self._egress()
        self._security()
        self._identity()
        self._files()
        self._parallel_files()
        self._cluster()
        self._pools()
        self._addons()

    def _vswitches(self) -> None:
        self.nodes = [self._vswitch("nodes", f"10.0.{16 * number}.0/20", zone) for number, zone in enumerate(ZONES)]
        self.pods = [self._vswitch("pods", f"10.{16 + number}.0.0/16", zone) for number, zone in enumerate(ZONES)]

    def _vswitch(self, kind: str, block: str, zone: str) -> alicloud.vpc.Switch:
        name = f"{kind}-{zone}"
        return alicloud.vpc.Switch(
            name, vswitch_name=name, vpc_id=self.vpc.id, cidr_block=block, zone_id=f"cn-hangzhou-{zone}",
            description=self.words, tags=self.tags, opts=self.options,
        )  # fmt: skip

    def _egress(self) -> None:
        gateway = alicloud.vpc.NatGateway(
            "gateway", vpc_id=self.vpc.id, vswitch_id=self.nodes[0].id, nat_type="Enhanced",
            payment_type="PayAsYouGo", internet_charge_type="PayByLcu", description=self.words, tags=self.tags,
            nat_gateway_name="gateway-later" if self.later else "gateway", deletion_protection=not self.later,
            opts=self.options,
        )  # fmt: skip
        address = alicloud.ecs.EipAddress(
            "address", address_name="out-later" if self.later else "out", isp="BGP", payment_type="PayAsYouGo",
            bandwidth="50" if self.later else "100", internet_charge_type="PayByTraffic", description=self.words,
            tags=self.tags, opts=self.options,
        )  # fmt: skip
        binding = alicloud.ecs.EipAssociation(
            "binding", allocation_id=address.id, instance_id=gateway.id, instance_type="Nat", opts=self.options
        )
        for name, vswitch in (("nodes", self.nodes[0]), ("pods", self.pods[0])):
            alicloud.vpc.SnatEntry(
                f"{name}-out", snat_table_id=gateway.snat_table_ids, snat_ip=address.ip_address,
                source_vswitch_id=vswitch.id, snat_entry_name=f"{name}-later" if self.later else name,
                opts=pulumi.ResourceOptions(provider=self.provider, depends_on=[binding]),
            )  # fmt: skip

    def _security(self) -> None:
        self.group = alicloud.ecs.SecurityGroup(
            "group", vpc_id=self.vpc.id, security_group_name="nodes-later" if self.later else "nodes",
            security_group_type="normal", inner_access_policy="Drop" if self.later else "Accept",
            description=self.words, tags=self.tags, opts=self.options,
        )  # fmt: skip
        alicloud.ecs.SecurityGroupRule(
            "in-group", type="ingress", security_group_id=self.group.id, source_security_group_id=self.group.id,
            description=self.words, opts=self.options, **RULE,
        )  # fmt: skip
        alicloud.ecs.SecurityGroupRule(
            "from-vpc", type="ingress", security_group_id=self.group.id, cidr_ip="10.0.0.0/8", opts=self.options,
            **{**RULE, "ip_protocol": "tcp", "port_range": "443/443", "priority": 2},
        )  # fmt: skip
        alicloud.ecs.SecurityGroupRule(
            "out", type="egress", security_group_id=self.group.id, cidr_ip="0.0.0.0/0", opts=self.options, **RULE
        )
        alicloud.ecs.EcsDeploymentSet(
            "close", deployment_set_name="close-later" if self.later else "close", strategy="LowLatency",
            description=self.words, opts=self.options,
        )  # fmt: skip

    def _identity(self) -> None:
        bucket = "later" if self.later else "first"
        statement = {"Effect": "Allow", "Action": ["oss:Get*"], "Resource": [f"acs:oss:*:*:{bucket}"]}
        role = alicloud.ram.Role(
            "role", role_name="athanor-test-reader", assume_role_policy_document=json.dumps(TRUST),
            description=self.words, max_session_duration=7200 if self.later else 3600, tags=self.tags,
            opts=self.options,
        )  # fmt: skip
        read = alicloud.ram.Policy(
            "read", policy_name="athanor-test-read", description=self.words, opts=self.options,
            policy_document=json.dumps({"Version": "1", "Statement": [statement]}),
            rotate_strategy="DeleteOldestNonDefaultVersionWhenLimitExceeded",
        )  # fmt: skip
        alicloud.ram.RolePolicyAttachment(
            "own", role_name=role.role_name, policy_name=read.policy_name, policy_type=read.type, opts=self.options
        )
        alicloud.ram.RolePolicyAttachment(
            "system", role_name=role.role_name, policy_name="AliyunOSSReadOnlyAccess", policy_type="System",
            opts=self.options,
        )  # fmt: skip

    def _files(self) -> None:
        kinds = {"standard": ("Performance", None), "extreme": ("advance", 200 if self.later else 100)}
        for kind, (storage, capacity) in kinds.items():
            files = alicloud.nas.FileSystem(
                kind, file_system_type=kind, protocol_type="NFS", storage_type=storage, capacity=capacity,
                zone_id="cn-hangzhou-i", description=self.words, tags=self.tags, opts=self.options,
            )  # fmt: skip
            group = alicloud.nas.AccessGroup(
                kind, access_group_name=f"athanor-test-{kind}", access_group_type="Vpc", file_system_type=kind,
                description=self.words, opts=self.options,
            )  # fmt: skip
            alicloud.nas.AccessRule(
                kind, access_group_name=group.access_group_name, file_system_type=kind, source_cidr_ip="10.0.0.0/20",
                rw_access_type="RDONLY" if self.later else "RDWR", user_access_type="no_squash",
                priority=2 if self.later else 1, opts=self.options,
            )  # fmt: skip
            alicloud.nas.MountTarget(
                kind, file_system_id=files.id, access_group_name=group.access_group_name, network_type="Vpc",
                vpc_id=self.vpc.id, vswitch_id=self.nodes[0].id, opts=self.options,
            )  # fmt: skip

    def _parallel_files(self) -> None:
        place = {"vpc_id": self.vpc.id, "vswitch_id": self.nodes[0].id}
        parallel = alicloud.nas.FileSystem(
            "cpfs", file_system_type="cpfs", protocol_type="cpfs", storage_type="advance_100",
            capacity=7200 if self.later else 3600, zone_id="cn-hangzhou-i", description=self.words, opts=self.options,
            **place,
        )  # fmt: skip
        service = alicloud.nas.ProtocolService(
            "nfs", file_system_id=parallel.id, protocol_type="NFS", protocol_spec="General", description=self.words,
            opts=self.options, **place,
        )  # fmt: skip
        alicloud.nas.ProtocolMountTarget(
            "nfs", file_system_id=parallel.id, protocol_service_id=service.protocol_service_id, path="/",
            access_group_name="DEFAULT_VPC_GROUP_NAME", description=self.words, opts=self.options, **place,
        )  # fmt: skip

    def _cluster(self) -> None:
        # Without a name: the provider makes one of the resource's.
        self.cluster = alicloud.cs.ManagedKubernetes(
            "cluster",
            cluster_spec="ack.pro.small",
            version="1.35.7-aliyun.1" if self.later else "1.34.10-aliyun.1",
            upgrade_policy={"control_plane_only": True},
            vswitch_ids=[one.id for one in self.nodes],
            pod_vswitch_ids=[one.id for one in self.pods],
            security_group_id=self.group.id,
            service_cidr="172.21.0.0/20",
            new_nat_gateway=False,
            slb_internet_enabled=False,
            enable_rrsa=True,
            skip_set_certificate_authority=True,
            deletion_protection=False,
            control_plane_log_components=["apiserver", "kcm"],
            control_plane_log_ttl="30",
            audit_log_config={"enabled": True},
            maintenance_window={
                "enable": True,
                "maintenance_time": "2025-01-01T02:00:00.000+08:00",
                "duration": "3h",
                "weekly_period": "Saturday",
            },
            operation_policy={"cluster_auto_upgrade": {"enabled": False}},
            delete_options=[
                {"resource_type": kind, "delete_mode": "delete"}
                for kind in ("SLB", "ALB", "SLS_Data", "SLS_ControlPlane", "PrivateZone")
            ],
            addons=[
                {"name": "terway-eniip", "config": '{"ENITrunking":"true","NetworkPolicy":"true"}'},
                {"name": "metrics-server", "version": "v0.7.1"},
                {"name": "nginx-ingress-controller", "disabled": True},
            ],
            tags=self.tags,
            opts=self.options,
        )
        credential = alicloud.cs.get_cluster_credential_output(
            cluster_id=self.cluster.id, opts=pulumi.InvokeOutputOptions(provider=self.provider)
        )
        pulumi.export("cluster", self.cluster.id)
        pulumi.export("issuer", self.cluster.rrsa_metadata.rrsa_oidc_issuer_url)
        pulumi.export("kubeconfig", pulumi.Output.secret(credential.kube_config))

    def _pools(self) -> None:
        common = {
            "cluster_id": self.cluster.id,
            "vswitch_ids": [one.id for one in self.nodes],
            "security_group_ids": [self.group.id],
            "system_disk_category": "cloud_essd",
            "system_disk_size": 120,
            "image_type": "AliyunLinux3ContainerOptimized",
            "instance_metadata_options": {"http_tokens": "required"},
            "pre_user_data": "dHJ1ZQ==",
            "install_cloud_monitor": True,
            "tags": {"athanor:stack": "test"},
        }
        self.system = alicloud.cs.NodePool(
            "system",
            node_pool_name="system",
            instance_types=["ecs.g7.xlarge"],
            desired_size="3" if self.later else "2",
            labels=[{"key": "athanor.dev/pool", "value": "system"}],
            management={"enable": True, "auto_repair": True, "auto_upgrade": False, "auto_vul_fix": False},
            opts=self.options,
            **common,
        )
        labels = {"athanor.dev/pool": "gpu", **({"team": "research"} if self.later else {})}
        alicloud.cs.NodePool(
            "gpu",
            node_pool_name="gpu",
            instance_types=["ecs.gn8is-8x.32xlarge"],
            scaling_config={"enable": True, "min_size": 2 if self.later else 1, "max_size": 4, "type": "gpu"},
            multi_az_policy="BALANCE",
            spot_strategy="SpotWithPriceLimit",
            spot_price_limits=[{"instance_type": "ecs.gn8is-8x.32xlarge", "price_limit": "40.5"}],
            on_demand_base_capacity="1",
            on_demand_percentage_above_base_capacity="0",
            data_disks=[
                {
                    "category": "cloud_essd",
                    "size": 500,
                    "performance_level": "PL1",
                    "encrypted": "false",
                    "auto_format": "true",
                }
            ],
            labels=[{"key": key, "value": value} for key, value in labels.items()],
            taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
            kubelet_configuration={"max_pods": "64", "topology_manager_policy": "single-numa-node"},
            update_nodes=True,
            # the number of nodes that the autoscaler chose is not our change
            opts=pulumi.ResourceOptions.merge(self.options, pulumi.ResourceOptions(ignore_changes=["desiredSize"])),
            **common,
        )
        if self.later:
            alicloud.cs.NodePool(
                "spare",
                node_pool_name="spare",
                instance_types=["ecs.gn7i-c16g1.4xlarge"],
                desired_size="1",
                labels=[{"key": "athanor.dev/pool", "value": "spare"}],
                opts=self.options,
                **common,
            )

    def _addons(self) -> None:
        cluster_id = self.cluster.id
        alicloud.cs.KubernetesAddon(
            "metrics", cluster_id=cluster_id, name="metrics-server", version="v0.7.2" if self.later else "v0.7.1",
            opts=self.options,
        )  # fmt: skip
        alicloud.cs.KubernetesAddon(
            "detector",
            cluster_id=cluster_id,
            name="ack-node-problem-detector",
            version="1.2.35",
            config=json.dumps({"gpu": {"isolation": not self.later}}, separators=(",", ":")),
            opts=pulumi.ResourceOptions.merge(self.options, pulumi.ResourceOptions(depends_on=[self.system])),
        )
        alicloud.cs.AutoscalingConfig(
            "scaling", cluster_id=cluster_id, scaler_type="goatscaler", scan_interval="30s", opts=self.options
        )


def declare() -> None:
    """Declare what `wanted.json` asks for."""
    declared = json.loads(Path("wanted.json").read_text(encoding="utf-8"))
    declaration = Declaration(later=declared == "everything, later")
    if declared != "the network":
        declaration.rest()
