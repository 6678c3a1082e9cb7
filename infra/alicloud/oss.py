"""OSS buckets as volumes: pods that mount them authenticate by RRSA, so no access key exists."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.names import resource_name, tags
from infra.errors import RefusalError
from infra.kubernetes.quantities import gib_quantity
from infra.manifests import Manifest, resource
from infra.storage import DATA_CLAIM, OUTPUT_CLAIM, claim_manifest, static_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.storage import OssMountSettings


@dataclass(frozen=True, kw_only=True)
class ServiceAccountRoleArgs:
    """Arguments of ServiceAccountRole."""

    role_name: str
    """Physical name of the role and of its policy."""
    oidc_issuer_url: pulumi.Input[str]
    oidc_provider_arn: pulumi.Input[str]
    namespace: str
    service_account: str
    statements: list[dict[str, Any]]
    """Rights of the role: statements of a RAM policy."""
    tags: dict[str, str]


def trust_document(issuer_url: str, provider_arn: str, namespace: str, service_account: str) -> str:
    """Return who may take the role: one service account of the cluster, with a token made for RAM."""
    conditions = {
        "oidc:iss": issuer_url,
        "oidc:aud": "sts.aliyuncs.com",
        "oidc:sub": f"system:serviceaccount:{namespace}:{service_account}",
    }
    return _document(
        [
            {
                "Effect": "Allow",
                "Action": "sts:AssumeRole",
                "Principal": {"Federated": [provider_arn]},
                "Condition": {"StringEquals": conditions},
            }
        ]
    )


def _document(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "1", "Statement": statements}, sort_keys=True)


class ServiceAccountRole(pulumi.ComponentResource):
    """A RAM role for one service account, with a policy of its own."""

    ready: pulumi.Resource
    """Resources that must exist before a pod can use the role's permissions."""

    def __init__(self, name: str, args: ServiceAccountRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:ServiceAccountRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        trust = pulumi.Output.all(args.oidc_issuer_url, args.oidc_provider_arn).apply(
            lambda known: trust_document(known[0], known[1], args.namespace, args.service_account)
        )
        role = alicloud.ram.Role(
            name, role_name=args.role_name, assume_role_policy_document=trust, tags=args.tags, opts=child
        )
        policy = alicloud.ram.Policy(
            name,
            policy_name=args.role_name,
            policy_document=_document(args.statements),
            # A policy keeps five versions; the sixth change of this one would fail.
            rotate_strategy="DeleteOldestNonDefaultVersionWhenLimitExceeded",
            tags=args.tags,
            opts=child,
        )
        self.ready = alicloud.ram.RolePolicyAttachment(
            name, role_name=role.role_name, policy_name=policy.policy_name, policy_type="Custom", opts=child
        )
        self.register_outputs({"role_name": role.role_name})


OSS_DRIVER = "ossplugin.csi.alibabacloud.com"
# The driver mounts from pods of its own, for every workload.
FUSE_NAMESPACE = "ack-csi-fuse"
FUSE_ACCOUNT = "csi-fuse-ossfs"
_NOMINAL_GIB = 1024
"""A bucket has no size, a volume must name one."""
_READ = ["oss:GetObject"]
_WRITE = ["oss:PutObject", "oss:DeleteObject", "oss:AbortMultipartUpload", "oss:ListParts"]


@dataclass(frozen=True, kw_only=True)
class OssMountsArgs:
    """Arguments of OssMounts."""

    settings: AlicloudSettings
    mounts: Sequence[OssMountSettings]
    namespace: str
    """Namespace of the claims."""
    oidc_issuer_url: pulumi.Input[str]
    oidc_provider_arn: pulumi.Input[str]
    depends_on: Sequence[pulumi.Resource] = ()
    """Dependencies of the claims: their namespace."""


def policy_statements(mount: OssMountSettings) -> list[dict[str, Any]]:
    """Return the permissions of a mount: its own objects, and to list the bucket, which no path can narrow.

    A path in `Resource` matches objects only; listing is a permission of the bucket.
    """
    bucket = f"acs:oss:*:*:{mount.bucket}"
    objects = f"{bucket}{mount.path.rstrip('/')}/*"
    return [
        {"Effect": "Allow", "Action": ["oss:ListObjects", "oss:GetBucketInfo"], "Resource": [bucket]},
        {"Effect": "Allow", "Action": _READ if mount.read_only else _READ + _WRITE, "Resource": [objects]},
    ]


def volume_manifest(mount: OssMountSettings, volume: str, region: str, role_name: str) -> Manifest:
    """Return the PersistentVolume of a bucket's folder."""
    attributes = {
        "bucket": mount.bucket,
        "path": mount.path,
        "url": f"oss-{region}-internal.aliyuncs.com",
        "region": region,
        "sigVersion": "v4",
        "fuseType": mount.client,
        "authType": "rrsa",
        "roleName": role_name,
    }
    if mount.client == "ossfs":
        # Objects have no owner: without these only the mounting pod's root could open them.
        attributes["otherOpts"] = f"-o allow_other -o umask={'022' if mount.read_only else '000'}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume},
        "spec": {
            "capacity": {"storage": gib_quantity(_NOMINAL_GIB)},
            "accessModes": [_access_mode(mount)],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "csi": {
                "driver": OSS_DRIVER,
                "volumeHandle": volume,
                "readOnly": mount.read_only,
                "volumeAttributes": attributes,
            },
        },
    }


def _access_mode(mount: OssMountSettings) -> str:
    return "ReadOnlyMany" if mount.read_only else "ReadWriteMany"


class OssMounts(pulumi.ComponentResource):
    """Existing buckets as claims of the workload namespace, each with a role that may do no more than it needs."""

    claims: tuple[pulumi.CustomResource, ...]
    """The claims, in the order of the settings."""

    def __init__(self, name: str, args: OssMountsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:OssMounts", name, None, opts)
        taken = {DATA_CLAIM, OUTPUT_CLAIM} & {mount.name for mount in args.mounts}
        if taken:
            raise RefusalError(
                "athanor:storage.oss",
                taken.pop(),
                "is the name of a claim that every platform has",
                "choose another name",
            )
        self.claims = tuple(self._claim(mount, args) for mount in args.mounts)
        self.register_outputs({"claims": [mount.name for mount in args.mounts]})

    def _claim(self, mount: OssMountSettings, args: OssMountsArgs) -> pulumi.CustomResource:
        logical, volume = mount.role_name, f"{args.namespace}-{mount.name}"
        child = pulumi.ResourceOptions(parent=self)
        role = ServiceAccountRole(
            logical,
            ServiceAccountRoleArgs(
                role_name=resource_name(logical),
                oidc_issuer_url=args.oidc_issuer_url,
                oidc_provider_arn=args.oidc_provider_arn,
                namespace=FUSE_NAMESPACE,
                service_account=FUSE_ACCOUNT,
                statements=policy_statements(mount),
                tags=tags(args.settings),
            ),
            child,
        )
        manifest = volume_manifest(mount, volume, args.settings.region, resource_name(logical))
        ready = pulumi.ResourceOptions(parent=self, depends_on=[role.ready])
        made = resource(f"{logical}-volume", manifest, ready)
        claim = claim_manifest(mount.name, args.namespace, _NOMINAL_GIB, _access_mode(mount), static_source(volume))
        return resource(logical, claim, pulumi.ResourceOptions(parent=self, depends_on=[*args.depends_on, made]))
