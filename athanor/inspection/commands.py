"""The commands to name in a next step: targets of make in a clone, else those of athanor.

A job that a Pulumi program declares has to be corrected in that program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Commands:
    """Words for sentences; `{}` stands for the job's name."""

    logs: str
    """Prints a job's logs."""
    rerun: str
    """Runs a job again."""
    resume: str
    """Continues a job that was stopped."""
    overview: str
    """Clause that shows the users of resources."""
    update: str
    """Clause that applies a corrected job."""
    look_again: str
    """Clause that makes Volcano's controller process a job again."""
    new_code: str
    """Clause that applies corrected code."""
    priority: str
    """Option or field that sets the priority of a job."""
    memory: str
    """Option or field that sets the memory of a pod."""


MAKE = Commands(
    logs="make logs JOB={}",
    rerun="make rerun JOB={}",
    resume="make rerun JOB={}",
    overview="`make status` shows who uses what",
    update="run `pulumi up`",
    look_again=(
        "restart the controller: `kubectl rollout restart -n volcano-system deployment/volcano-controllers`,"
        " which does not affect running jobs"
    ),
    new_code="run `pulumi up`, or `make rerun` if it is in git",
    priority="priority_class",
    memory="the role's resources.memory",
)
ATHANOR = Commands(
    logs="athanor logs {}",
    rerun="athanor rerun {}",
    resume="athanor resume {}",
    overview="`athanor status` shows who uses what",
    update="start it again with `athanor run --replace`",
    look_again="`athanor resume {}` makes the controller process it again",
    new_code="start it again with `athanor run --replace --name {} …`",
    priority="--priority",
    memory="--memory",
)
DECLARED = replace(
    ATHANOR,
    update="run `pulumi up` with the program that declares it",
    new_code="run `pulumi up` with the program that declares it, or `athanor rerun {}` if the code is in git",
    priority=MAKE.priority,
    memory=MAKE.memory,
)
