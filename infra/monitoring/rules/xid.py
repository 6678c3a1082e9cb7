"""NVIDIA's driver error codes (Xid), and the action that each requires.

Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/xid-errors), the columns "Immediate
Action", "Investigatory Action" and "Trigger Conditions", for data-centre GPUs from Ampere on; read on 22 November 2026.
The catalogue's IGNORE is `none` here, RESTART_APP `application`, RESET_GPU `reset_gpu`, RESTART_BM and RESTART_VM
`restart_node`. Its workflows are reduced to their result for the code alone: 48, 74 and 45 by their trigger conditions.
`reset_later` is its advice for 94 in addition to RESTART_APP: reset the GPU when convenient. Codes that it calls unused
or without an action (162 to 172) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from infra.monitoring.rules.rule import Severity

Action = Literal["restart_node", "reset_gpu", "reset_later", "application", "none", "look_up"]
"""`look_up`: the number does not say it, the text behind it in the node's kernel log does."""


@dataclass(frozen=True, kw_only=True)
class Xid:
    """Codes that mean the same."""

    codes: tuple[int, ...]
    action: Action
    meaning: str


RECOVERY_CHANGED = 154
"""Accompanies another code, and a repair; the driver's advice itself is a metric where the driver reports it."""

XIDS = (
    Xid(codes=(79,), action="restart_node", meaning="the GPU has fallen off the bus"),
    Xid(codes=(151,), action="restart_node", meaning="error in the rotation of an encryption key"),
    Xid(codes=(46,), action="reset_gpu", meaning="the GPU stopped processing"),
    Xid(codes=(48,), action="reset_gpu", meaning="double-bit memory error"),
    Xid(codes=(62,), action="reset_gpu", meaning="an internal microcontroller halted"),
    Xid(codes=(64,), action="reset_gpu", meaning="a memory row could not be remapped"),
    Xid(codes=(74,), action="reset_gpu", meaning="NVLink error"),
    Xid(codes=(95,), action="reset_gpu", meaning="uncontained memory error: every program on the GPU is hit"),
    Xid(codes=(109,), action="reset_gpu", meaning="a switch between programs took too long"),
    Xid(codes=(110,), action="reset_gpu", meaning="security fault, rare without a hardware fault"),
    Xid(codes=(119,), action="reset_gpu", meaning="the GPU's system processor (GSP) does not answer"),
    Xid(codes=(120,), action="reset_gpu", meaning="the GPU's system processor (GSP) failed"),
    Xid(codes=(136,), action="reset_gpu", meaning="training of an NVLink link failed"),
    Xid(codes=(140,), action="reset_gpu", meaning="unrecovered memory error"),
    Xid(codes=(143,), action="reset_gpu", meaning="the GPU could not be initialised"),
    Xid(codes=(155,), action="reset_gpu", meaning="NVLink was taken down by software"),
    Xid(codes=(156,), action="reset_gpu", meaning="a faulty part of the GPU was retired"),
    Xid(codes=(158,), action="reset_gpu", meaning="fatal timeout of the GPU"),
    Xid(codes=(94,), action="reset_later", meaning="contained memory error: one program was hit"),
    Xid(codes=(8,), action="application", meaning="the GPU stopped processing a program's work"),
    Xid(codes=(11, 25, 32, 80), action="application", meaning="a program's command stream is invalid or was corrupted"),
    Xid(codes=(13,), action="application", meaning="exception in a program's kernel"),
    Xid(codes=(31,), action="application", meaning="a program used an address that is not its own"),
    Xid(
        codes=(39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)),
        action="application",
        meaning="error of a copy engine",
    ),
    Xid(codes=(43,), action="application", meaning="a program's channel was stopped"),
    Xid(codes=(45,), action="application", meaning="what a killed program left was cleaned up"),
    Xid(
        codes=(60, 68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139),
        action="application",
        meaning="error of an engine for video, images or optical flow",
    ),
    Xid(codes=(69,), action="application", meaning="a program used an engine wrongly"),
    Xid(codes=(137,), action="application", meaning="a program used an address of another GPU that is not its own"),
    Xid(codes=(14, 106, 107), action="none", meaning="a test message"),
    Xid(codes=(37, 38, 44, 66, 67, 141), action="none", meaning="error inside the driver that needs no recovery"),
    Xid(codes=(63,), action="none", meaning="a memory row was marked for remapping"),
    Xid(codes=(92,), action="none", meaning="many single-bit memory errors, each of them corrected"),
    Xid(codes=(93,), action="none", meaning="the InfoROM's limit of writes is used up"),
    Xid(codes=(108,), action="none", meaning="unused code of NVLink"),
    Xid(codes=(121,), action="none", meaning="corrected errors on the link to the processor"),
    Xid(codes=(160, 161), action="none", meaning="a faulty channel was retired, or could not be"),
    Xid(codes=(54,), action="look_up", meaning="auxiliary power is not connected: check cables and seat"),
    Xid(codes=(78,), action="look_up", meaning="a virtual GPU could not start: update firmware and software"),
    Xid(codes=(142,), action="look_up", meaning="error of a video encoder: contact support"),
    Xid(
        codes=tuple(range(144, 151)),
        action="look_up",
        meaning="NVLink error of Blackwell: its text decides between ignoring it and a reset",
    ),
    Xid(codes=(RECOVERY_CHANGED,), action="look_up", meaning="the recovery that the driver asks for has changed"),
    Xid(codes=(157,), action="look_up", meaning="a faulty part could not be retired: contact support"),
    Xid(codes=(159,), action="look_up", meaning="error on the link to the processor: reset the GPU if it is a vGPU"),
)

SEVERITIES: dict[Action, Severity] = {
    "restart_node": "page",
    "reset_gpu": "page",
    "reset_later": "ticket",
    "application": "info",
    "none": "info",
    "look_up": "ticket",
}


def codes(*actions: Action) -> str:
    """Return the codes of these actions as a regular expression."""
    return "|".join(str(code) for xid in XIDS if xid.action in actions for code in xid.codes)
