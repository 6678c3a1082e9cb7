"""Kernel limits of a rank: open files, and memory that a network card may read."""

from __future__ import annotations

import os
import resource

_NETWORK_VARIABLE = "NCCL_NET"
_RDMA = "IB"


class LimitError(RuntimeError):
    """A limit of the kernel that training would run into later, with a message that names neither limit nor fix."""


def raise_open_files() -> int:
    """Raise the limit of open files to what this process may have, and return it.

    containerd starts containers with a soft limit of 1,024 and a hard one that is far higher (containerd pull request
    8924). Each rank has a connection to every rank that it talks to, the data loader's files, and NCCL's sockets.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def check_locked_memory() -> None:
    """Refuse to start with RDMA asked for (NCCL_NET=IB) where memory cannot be registered with the card.

    Registering locks the pages. A process that is not root may lock as much as RLIMIT_MEMLOCK says, also where its pod
    adds the capability IPC_LOCK: Kubernetes has no ambient capabilities, so one that is added for a user other than
    root is not in effect (kubernetes/kubernetes#56374). NCCL then fails with ENOMEM from `ibv_reg_mr`, minutes later.

    Raises:
        LimitError: naming the limit, the user and the fix.
    """
    if os.environ.get(_NETWORK_VARIABLE) != _RDMA or os.geteuid() == 0:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
        return
    raise LimitError(
        f"RLIMIT_MEMLOCK={soft} bytes (hard limit {hard}) for user {os.geteuid()}: must be unlimited, because "
        f"{_NETWORK_VARIABLE}={_RDMA} asks for RDMA, whose buffers are locked memory. Fix: raise memlock on the nodes "
        "(LimitMEMLOCK=infinity for containerd), or run the job without rdma"
    )
