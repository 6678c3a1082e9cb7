"""Volcano as plain manifests: its CRDs, permissions, configuration, scheduler and controllers."""

NAMESPACE = "volcano-system"
SCHEDULER = "volcano-scheduler"
CONTROLLERS = "volcano-controllers"
