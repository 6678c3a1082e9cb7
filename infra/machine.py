"""Where this machine keeps what the program reads: the local cluster's folder and the cache of verified downloads."""

from __future__ import annotations

import os
from pathlib import Path

LOCAL_CLUSTER_NAME = "local"
LOCAL_CONTEXT = f"athanor-{LOCAL_CLUSTER_NAME}"
LOCAL_NODE = f"{LOCAL_CLUSTER_NAME}-node-0"


def cache_folder() -> Path:
    """Return the folder of built tools and downloads, keyed by version: $ATHANOR_CACHE, else the XDG cache folder's."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("ATHANOR_CACHE") or Path(root) / "athanor").resolve()


def home_folder() -> Path:
    """Return the folder of the running local environment: $ATHANOR_HOME, else the XDG state folder's."""
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get("ATHANOR_HOME") or Path(root) / "athanor").resolve()


def local_home() -> Path:
    """Return the folder of the local cluster that `make up` runs."""
    return home_folder() / LOCAL_CLUSTER_NAME
