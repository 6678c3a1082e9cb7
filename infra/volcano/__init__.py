"""Volcano as plain manifests: its CRDs, permissions, configuration, scheduler and controllers."""

from infra.namespaces import VOLCANO_NAMESPACE

NAMESPACE = VOLCANO_NAMESPACE
SCHEDULER = "volcano-scheduler"
CONTROLLERS = "volcano-controllers"
