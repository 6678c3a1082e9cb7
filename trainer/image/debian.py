"""The base image that athanor builds itself where no registry is reachable: a Debian without package manager.

It is part of trainer/ because it is part of what the image's content tag is computed from.
"""

from __future__ import annotations

SUITE = "bookworm"
PYTHON = "3.11"
"""The Python of that suite; requirements.txt is compiled for it."""
GLIBC = (2, 36)
"""The C library of that suite: wheels for a newer one do not load."""

RUNTIME_PACKAGES = ("python3", "libstdc++6", "base-files", "base-passwd", "libc-bin")
SHELL_PACKAGES = (
    *("dash", "bash", "coreutils", "debianutils", "findutils", "grep", "hostname", "mawk", "procps", "sed"),
    *("tar", "gzip", "bzip2", "xz-utils", "unzip"),
)
"""Packages that a person needs to look around in a pod, and what scripts begin with. Those that unpack take 1 MB."""
LINKS = {"usr/bin/awk": "mawk", "usr/bin/which": "which.debianutils"}
"""What packages leave to their scripts (update-alternatives), which do not run here."""
CONNECTION_PACKAGES = ("openssh-server", "openssh-client", "ca-certificates")
"""MPI starts its ranks over ssh; code is cloned over ssh or https."""
RDMA_PACKAGES = ("libibverbs1", "ibverbs-providers", "librdmacm1", "ibverbs-utils")
"""Packages through which NCCL reaches RDMA devices; without them NCCL silently uses TCP at its usual level of logs.

It opens `libibverbs.so.1` when it starts (NCCL 2.30, src/misc/ibvsymbols.cc), which opens the provider of each device
that it finds. Debian's rdma-core 44.0 has mlx5, of Lingjun machines, and erdma, which joined rdma-core with 43.0. Both
variants have them, so that the tests, which have no GPU, see them load; they take 3 MB.
"""
NUMA_PACKAGES = ("numactl",)
"""torchrun binds ranks to the cores closest to their GPU with it (torch 2.15, torch/numa/binding.py)."""
PACKAGES = (*RUNTIME_PACKAGES, *SHELL_PACKAGES, *CONNECTION_PACKAGES, *RDMA_PACKAGES, *NUMA_PACKAGES)
"""All of them; what they depend on comes along."""

LEFT_OUT = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/perl5",
    "usr/lib/python3.11/pydoc_data",
    "var/lib/apt",
    "var/lib/dpkg",
    "var/cache",
    "var/log",
)
"""Folders without any use in a pod."""

EXTERNALLY_MANAGED = f"usr/lib/python{PYTHON}/EXTERNALLY-MANAGED"
"""Debian's mark that pip must leave its packages alone (PEP 668); pods have a pip and no other package manager."""

TIMESTAMP_SECONDS = 1_700_000_000
"""Modification time of every file of the image (Unix time), so that the same content is the same layer."""
