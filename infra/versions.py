"""Versions of what the platform deploys: the one table. tools/ builds the same ones; a test compares them."""

from __future__ import annotations

VOLCANO = "1.14.1"
NVIDIA_DEVICE_PLUGIN = "0.17.4"
DCGM_EXPORTER = "4.5.3-4.8.2"
TRITON = "26.09"
"""Release of NVIDIA's container: Triton 2.73.0 with torch 2.14.0a0 and CUDA 13.4."""
PROMETHEUS_OPERATOR = "0.93.1"
"""Of the operator, its config reloader and the CRDs."""
PROMETHEUS = "3.14.0"
ALERTMANAGER = "0.34.2"
KUBE_STATE_METRICS = "2.18.0"
NODE_EXPORTER = "1.12.1"
PROMETHEUS_ADAPTER = "0.12.0"
GRAFANA = "12.4.10"
VICTORIA_LOGS = "1.43.1"
"""Of the store and of vlagent, which collects for it."""
