"""Versions of what the platform deploys: the one table. tools/ builds the same ones; a test compares them."""

from __future__ import annotations

VOLCANO = "1.14.1"
NVIDIA_DEVICE_PLUGIN = "0.17.4"
DCGM_EXPORTER = "4.5.3-4.8.2"
TRITON = "26.09"
"""Release of NVIDIA's container: Triton 2.73.0 with torch 2.14.0a0 and CUDA 13.4."""
