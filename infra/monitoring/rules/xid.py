"""Codes of NVIDIA's driver errors (Xid) and what each asks of a person.

Source: NVIDIA, "XID Errors" (GPU Deployment and Management Documentation), catalogue of codes and recovery actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from infra.monitoring.rules.rule import Severity

Action = Literal["restart_node", "reset_gpu", "reset_later", "application"]


@dataclass(frozen=True, kw_only=True)
class Xid:
    """One code."""

    code: int
    action: Action
    meaning: str


XIDS = (
    Xid(code=79, action="restart_node", meaning="the GPU has fallen off the bus"),
    Xid(code=119, action="restart_node", meaning="the GPU's system processor (GSP) does not answer"),
    Xid(code=120, action="restart_node", meaning="the GPU's system processor (GSP) failed"),
    Xid(code=48, action="reset_gpu", meaning="double-bit memory error"),
    Xid(code=62, action="reset_gpu", meaning="an internal microcontroller halted"),
    Xid(code=64, action="reset_gpu", meaning="a memory row could not be remapped"),
    Xid(code=74, action="reset_gpu", meaning="NVLink error"),
    Xid(code=95, action="reset_gpu", meaning="uncontained memory error: every program on the GPU is hit"),
    Xid(code=140, action="reset_gpu", meaning="unrecovered memory error"),
    Xid(code=63, action="reset_later", meaning="a memory row waits to be remapped"),
    Xid(code=92, action="reset_later", meaning="many single-bit memory errors"),
    Xid(code=94, action="reset_later", meaning="contained memory error: one program was hit"),
    Xid(code=13, action="application", meaning="exception in a program's kernel"),
    Xid(code=31, action="application", meaning="a program used an address that is not its own"),
    Xid(code=43, action="application", meaning="a program's channel was stopped"),
    Xid(code=45, action="application", meaning="what a killed program left was cleaned up"),
)

SEVERITIES: dict[Action, Severity] = {
    "restart_node": "page",
    "reset_gpu": "page",
    "reset_later": "ticket",
    "application": "info",
}


def codes(*actions: Action) -> str:
    """Return the codes of these actions as a regular expression; of all actions if none is named."""
    return "|".join(str(xid.code) for xid in XIDS if not actions or xid.action in actions)
