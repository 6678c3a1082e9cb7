"""Cases of rules about resources of Alibaba Cloud."""

from __future__ import annotations

import json
from typing import Any

from policies.node_pools import CLUSTER
from policies.resources import Resource
from tests.unit.policies.case import UNKNOWN, Case, cloud, manifest

A10, CPU = "ecs.gn7i-c8g1.2xlarge", "ecs.g7.xlarge"
TAGS = {"athanor:project": "athanor", "athanor:stack": "prod"}
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def cluster(*, protect: bool = True, **properties: Any) -> Resource:
    return Resource(type=CLUSTER, name="cluster", protect=protect, properties=properties)


def pool(**properties: Any) -> Resource:
    return cloud("cs/nodePool", nodePoolName="a10", **properties)


def sized(maximum: Any, *types: Any, **properties: Any) -> Resource:
    return pool(scalingConfig={"enable": True, "maxSize": maximum}, instanceTypes=[*types], **properties)


def security_rule(**properties: Any) -> Resource:
    return cloud("ecs/securityGroupRule", **{"type": "ingress", "policy": "accept", **properties})


def ram_policy(action: Any, resource: Any, **more: Any) -> Resource:
    given = {"Effect": "Allow", "Action": action, "Resource": resource, **more}
    statement = {key: value for key, value in given.items() if value is not None}
    return cloud("ram/policy", policyDocument=json.dumps({"Version": "1", "Statement": [statement]}))


def bucket_policy(statement: dict[str, Any]) -> Resource:
    return cloud("oss/bucketPolicy", policy=json.dumps({"Version": "1", "Statement": [statement]}))


def collector(*tolerations: Any) -> Resource:
    pod = {"containers": [{"name": "vlagent"}], "tolerations": [*tolerations]}
    metadata = {"name": "vlagent", "namespace": "monitoring-nodes"}
    return manifest("apps/v1", "DaemonSet", metadata=metadata, spec={"template": {"spec": pod}})


CASES = {
    "no-public-api-server": Case(
        keeps=[cluster(slbInternetEnabled=False)],
        breaks={"slbInternetEnabled = True": cluster(slbInternetEnabled=True), "= None": cluster()},
        undecided=[cluster(slbInternetEnabled=UNKNOWN)],
    ),
    "no-open-security-groups": Case(
        keeps=[
            security_rule(cidrIp="10.0.0.0/8"),
            security_rule(cidrIp="100.64.0.0/10"),
            security_rule(cidrIp="47.96.0.0/16"),
            security_rule(ipv6CidrIp="fd00::/8"),
            security_rule(cidrIp="0.0.0.0/0", type="egress"),
            security_rule(cidrIp="0.0.0.0/0", policy="drop"),
            security_rule(sourceSecurityGroupId="sg-1"),
        ],
        breaks={
            "cidrIp = '0.0.0.0/0'": security_rule(cidrIp="0.0.0.0/0"),
            "cidrIp = '0.0.0.0/1'": security_rule(cidrIp="0.0.0.0/1"),
            "cidrIp = '47.0.0.0/8'": security_rule(cidrIp="47.0.0.0/8"),
            "cidrIp = '10.0.0.0/7'": security_rule(cidrIp="10.0.0.0/7"),
            "ipv6CidrIp = '::/0'": security_rule(ipv6CidrIp="::/0"),
        },
        undecided=[security_rule(cidrIp=UNKNOWN)],
    ),
    "no-open-file-systems": Case(
        keeps=[cloud("nas/accessRule", sourceCidrIp="10.64.0.0/19")],
        breaks={"sourceCidrIp = '0.0.0.0/0'": cloud("nas/accessRule", sourceCidrIp="0.0.0.0/0")},
        undecided=[cloud("nas/accessRule", sourceCidrIp=UNKNOWN)],
    ),
    "no-public-buckets": Case(
        keeps=[
            cloud("oss/bucket"),
            cloud("oss/bucketAcl", acl="private"),
            bucket_policy({"Effect": "Deny", "Principal": ["*"]}),
            bucket_policy({"Effect": "Allow", "Principal": ["1234"]}),
            bucket_policy({"Effect": "Allow", "Principal": "*", "Condition": {"StringEquals": {"acs:SourceVpc": "v"}}}),
        ],
        breaks={
            "acl = 'public-read'": cloud("oss/bucket", acl="public-read"),
            "acl = 'public-read-write'": cloud("oss/bucketAcl", acl="public-read-write"),
            "policy.Principal = '*'": bucket_policy({"Effect": "Allow", "Principal": ["*"], "Action": "oss:GetObject"}),
        },
        undecided=[cloud("oss/bucketAcl", acl=UNKNOWN), cloud("oss/bucketPolicy", policy=UNKNOWN)],
    ),
    "no-wildcard-ram": Case(
        keeps=[
            ram_policy("oss:GetObject", "acs:oss:*:*:data/*"),
            ram_policy(["cs:DescribeClusters", "ecs:Describe*", "*:List*"], "*"),
            ram_policy("oss:*", "acs:oss:*:*:data/*"),
            ram_policy(None, "*", Effect="Deny", NotAction="ram:*"),
            cloud("ram/rolePolicyAttachment", policyName="AliyunCSReadOnlyAccess"),
        ],
        breaks={
            "Action = '*'": ram_policy("*", "acs:oss:*:*:data"),
            "Action = 'oss:*'": ram_policy(["oss:*"], ["*"]),
            "Action = 'ecs:*'": ram_policy("ecs:*", "acs:ecs:*:*:*"),
            "Action = 'ecs:?*'": ram_policy("ecs:?*", "?*"),
            "Action = 'r*'": ram_policy("r*", "**"),
            "Action = '*:*:*'": ram_policy("*:*:*", "acs:oss:*:*:data"),
            "Action = 'e*s:*'": ram_policy("e*s:*", "acs:*"),
            "Action = 'nas:*'": cloud(
                "ram/policy", document='{"statement": {"effect": "allow", "action": "nas:*", "resource": "*"}}'
            ),
            "policyName = 'AliyunECSFullAccess'": cloud("ram/groupPolicyAttachment", policyName="AliyunECSFullAccess"),
            "Action = 'slb:*'": cloud(
                "ram/policy", statements=[{"effect": "Allow", "actions": ["slb:*"], "resources": ["*"]}]
            ),
            "Action = 'vpc:*'": ram_policy("vpc:*", ["acs:vpc:cn-hangzhou:*:*/*"]),
            "Action = '*:*'": ram_policy(["*:*"], ["acs:oss:*:*:data"]),
            "NotAction = 'ram:*'": ram_policy(None, "*", NotAction="ram:*"),
            "NotResource = ['acs:oss:*:*:secret']": ram_policy(
                "oss:GetObject", None, NotResource=["acs:oss:*:*:secret"]
            ),
            "policyName = 'AdministratorAccess'": cloud("ram/rolePolicyAttachment", policyName="AdministratorAccess"),
        },
        undecided=[cloud("ram/policy", policyDocument=UNKNOWN), cloud("ram/userPolicyAttachment", policyName=UNKNOWN)],
    ),
    "data-protected": Case(
        keeps=[
            cluster(deletionProtection=True),
            cloud("nas/fileSystem", protect=True),
            cloud("vpc/switch"),
        ],
        breaks={
            "protect = False": cloud("nas/fileSystem"),
            "deletionProtection = False": cluster(deletionProtection=False),
            "resources with data are protected": manifest("core/v1", "PersistentVolume"),
        },
        undecided=[cluster(deletionProtection=UNKNOWN)],
    ),
    "storage-encrypted": Case(
        keeps=[cloud("nas/fileSystem", encryptType=1.0), cloud("ecs/ecsDisk", encrypted=True)],
        breaks={
            "encryptType = 0": cloud("nas/fileSystem", encryptType=0),
            "encryptType = None": cloud("nas/fileSystem"),
            "encrypted = None": cloud("ecs/ecsDisk"),
        },
        undecided=[cloud("nas/fileSystem", encryptType=UNKNOWN)],
    ),
    "node-disks-encrypted": Case(
        keeps=[pool(systemDiskEncrypted=True, dataDisks=[{"encrypted": "true"}])],
        breaks={
            "systemDiskEncrypted = False": pool(systemDiskEncrypted=False),
            "dataDisks[0].encrypted = 'false'": pool(systemDiskEncrypted=True, dataDisks=[{"encrypted": "false"}]),
        },
        undecided=[pool(systemDiskEncrypted=True, dataDisks=UNKNOWN)],
    ),
    "control-plane-audit-log": Case(
        config={"days": 90},
        keeps=[cluster(auditLogConfig={"enabled": True}, controlPlaneLogTtl="90")],
        breaks={
            "auditLogConfig.enabled = None": cluster(controlPlaneLogTtl="90"),
            "controlPlaneLogTtl = 30.0": cluster(auditLogConfig={"enabled": True}, controlPlaneLogTtl="30"),
        },
        undecided=[cluster(auditLogConfig=UNKNOWN, controlPlaneLogTtl="90")],
    ),
    "gpu-pools-tainted": Case(
        keeps=[
            pool(instanceTypes=[A10], taints=[GPU_TAINT]),
            pool(instanceTypes=[CPU]),
            cloud("vpc/switch"),
        ],
        breaks={
            "taints = []": pool(instanceTypes=[A10], taints=[]),
            "taints = ['team']": pool(instanceTypes=["ecs.gn99-new.large"], taints=[{**GPU_TAINT, "key": "team"}]),
            "taints = ['nvidia.com/gpu']": pool(
                instanceTypes=[CPU, A10], taints=[{**GPU_TAINT, "effect": "PreferNoSchedule"}]
            ),
        },
        undecided=[pool(instanceTypes=UNKNOWN), pool(instanceTypes=[A10], taints=UNKNOWN)],
    ),
    "no-unattended-node-changes": Case(
        keeps=[
            pool(management={"autoUpgrade": False, "autoVulFix": False}, imageType="AliyunLinux3"),
            pool(imageId="aliyun_3_x64"),
            cluster(operationPolicy={"clusterAutoUpgrade": {"enabled": False}}),
        ],
        breaks={
            "management.autoUpgrade = True": pool(management={"autoUpgrade": True}, imageType="AliyunLinux3"),
            "management.autoVulFix = True": pool(management={"autoVulFix": True}, imageType="AliyunLinux3"),
            "imageType = None": pool(),
            "clusterAutoUpgrade.enabled = True": cluster(operationPolicy={"clusterAutoUpgrade": {"enabled": True}}),
        },
        undecided=[pool(imageType="AliyunLinux3", management=UNKNOWN), pool(imageType=UNKNOWN)],
    ),
    "no-node-passwords": Case(
        keeps=[pool(keyName="admins"), pool(password="")],
        breaks={
            "password = '…'": pool(password="secret"),
            "nodes have no passwords": cloud("ecs/instance", password="a"),
        },
        undecided=[pool(password=UNKNOWN)],
    ),
    "metadata-needs-token": Case(
        keeps=[
            pool(instanceMetadataOptions={"httpTokens": "required"}),
            cloud("ecs/instance", httpTokens="required"),
        ],
        breaks={
            "instanceMetadataOptions.httpTokens = None": pool(),
            "httpTokens = 'optional'": cloud("ecs/instance", httpTokens="optional"),
        },
        undecided=[pool(instanceMetadataOptions=UNKNOWN)],
    ),
    "node-log-collector": Case(
        keeps=[
            [cloud("vpc/network")],
            [pool(), collector({"operator": "Exists"})],
            [pool(), cloud("cs/kubernetesAddon", name="loongcollector")],
            [pool(), cluster(addons=[{"name": "logtail-ds"}])],
        ],
        breaks={
            "the logs of a node are gone with it": [pool()],
            "log collector = None": [pool(), collector({"operator": "Exists", "key": "team"})],
            "a DaemonSet (vlagent)": [pool(), cluster(addons=[{"name": "logtail-ds", "disabled": True}])],
        },
        undecided=[],
    ),
    "required-tags": Case(
        config={"tags": ["athanor:project", "cost-centre"]},
        keeps=[cloud("vpc/network", tags={**TAGS, "cost-centre": "ml"}), cloud("ecs/eipAssociation")],
        breaks={
            "tags[cost-centre] = None": pool(tags=TAGS),
            "tags[athanor:project] = None": cloud("oss/bucket"),
            "tags[cost-centre] = ''": pool(tags={**TAGS, "cost-centre": ""}),
        },
        undecided=[pool(tags=UNKNOWN), pool(tags={**TAGS, "cost-centre": UNKNOWN})],
    ),
    "cost-ceiling": Case(
        config={"cny_per_hour": 25, "unpriced": ["pool dear"]},
        keeps=[
            [sized(2, A10), cluster(clusterSpec="ack.pro.small")],
            [pool(desiredSize="2", instanceTypes=[A10])],
            [sized(10, A10, spotStrategy="SpotWithPriceLimit", spotPriceLimits=[{"priceLimit": "2.5"}])],
            [cloud("cs/nodePool", nodePoolName="dear", scalingConfig={"maxSize": 1}, instanceTypes=["ecs.gn99"])],
        ],
        breaks={
            "at most 25: pool a10 4 x": [sized(4, A10)],
            "CNY an hour at maximum size = ": [
                sized(
                    10,
                    A10,
                    spotStrategy="SpotWithPriceLimit",
                    spotPriceLimits=[{"priceLimit": "2.5"}],
                    compensateWithOnDemand=True,
                )
            ],
            "instance thing 1 x": [cloud("ecs/instance", instanceType="ecs.ebmgn7e.32xlarge")],
            "pool a10 = None: has no known price": [sized(1, "ecs.gn99-new.large")],
            "ACK Pro control plane = None": [cluster(clusterSpec="ack.pro.xlarge")],
        },
        undecided=[[sized(UNKNOWN, A10)], [sized(4, UNKNOWN)]],
    ),
    "gpu-ceiling": Case(
        config={"gpus": 4},
        keeps=[[sized(4, A10), sized(9, CPU)]],
        breaks={
            "GPUs at maximum size = 5": [sized(5, A10)],
            "at most 4: pool a10 4, instance thing 8": [
                sized(4, A10),
                cloud("ecs/instance", instanceType="ecs.ebmgn7e.32xlarge"),
            ],
            "has GPUs, but is not in infra/instance_types.py": [sized(1, "ecs.gn99-new.large")],
        },
        undecided=[[sized(UNKNOWN, A10)], [sized(1, UNKNOWN)]],
    ),
}
