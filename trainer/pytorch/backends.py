"""Setup of the backends of collectives before the processes join their group."""

from __future__ import annotations

import os

from trainer.common.validation import SettingsError


def set_up() -> None:
    """Set what the backends read when they start; what is set already for gloo stays."""
    # Otherwise every rank connects to every other one at once, next to NCCL: 64,000 connections in a pod of eight ranks
    # among 8,000. On demand a rank has those of a ring and of a tree (pytorch/gloo#419, pytorch/pytorch#150801).
    os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")
    # torchrun sets 1: torch's watchdog ends the process while the main thread could still say why, and races with an
    # abort from outside (note at torch.distributed's _abort_process_group, torch 2.15). The guard keeps the limits.
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"


def refuse_shared_store() -> None:
    """Refuse to start where a restart by torchrun would hang.

    By default torchrun lends its rendezvous store to the workers and keeps it for the
    next attempt: gloo then reads the addresses of the dead processes and waits until the timeout (seen on torch 2.15).
    """
    shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    restarts = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))
    if shared and restarts > 0:
        fix = "Fix: set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for torchrun"
        raise SettingsError(f"max_restarts={restarts}: workers would reuse the store of dead ones and hang. {fix}")
