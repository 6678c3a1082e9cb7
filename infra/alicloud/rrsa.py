"""RRSA: RAM roles for pods of one Kubernetes service account, without any key in the cluster."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_alicloud as alicloud


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
