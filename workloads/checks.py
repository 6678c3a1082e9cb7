"""Types of values that all workloads' descriptions share, and checks that annotations cannot express."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

from infra.descriptions import require
from infra.errors import RefusalError
from infra.kubernetes.grammar import Fitting, LabelKey, VariableName, Word, matching

_MAXIMUM_NAME_LENGTH = 40
_OF_THE_ENGINE = ("VC_", "VK_")
"""Prefixes of variables that Volcano appends: a user's value would have no effect."""
_OF_THE_NODE = "NVIDIA_VISIBLE_DEVICES"

WorkloadName = Annotated[
    str,
    matching(
        rf"(?=.{{1,{_MAXIMUM_NAME_LENGTH}}}\Z)[a-z]([-a-z0-9]*[a-z0-9])?",
        f"must be at most {_MAXIMUM_NAME_LENGTH} characters of a-z, 0-9 and '-', starting with a letter. Fix: choose a"
        " short lowercase name",
    ),
]
"""Can become part of a pod's host name: an RFC 1035 label with room for suffixes."""

ModelName = Annotated[
    str,
    matching(
        r"[a-z0-9]([-a-z0-9_.]{0,61}[a-z0-9])?",
        "must be at most 63 lowercase letters, digits, '-', '_' and '.', with a letter or digit at both ends. Fix:"
        " choose the name that the model was published with",
    ),
]
"""A folder of the model repository: what the trainer publishes and serves (trainer/common/validation.py)."""


def _users_own_label(key: str) -> str:
    if key.partition("/")[0].endswith("athanor.dev"):
        raise ValueError("is reserved for the platform. Fix: use your own prefix")
    return key


def _users_own_variable(name: str) -> str:
    if name.startswith(_OF_THE_ENGINE):
        raise ValueError("is set in every pod by the job engine. Fix: choose another name")
    if name == _OF_THE_NODE:
        raise ValueError(
            "decides which GPUs of its node a container gets, including those of other pods. Fix: omit it, and"
            " request GPUs; CUDA_VISIBLE_DEVICES selects among them"
        )
    return name


OwnLabelKey = Annotated[LabelKey, AfterValidator(_users_own_label)]
OwnVariableName = Annotated[VariableName, AfterValidator(_users_own_variable)]
Environment = Annotated[Mapping[OwnVariableName, Word], Fitting]
"""Variables that a user may set."""


def check_name(field_name: str, name: str) -> None:
    """Refuse what is not a WorkloadName.

    Raises:
        RefusalError: the name does not fit.
    """
    require(field_name, name, WorkloadName)


def check_range(field_name: str, value: int, low: int, high: int) -> None:
    """Refuse a number outside low..high.

    Raises:
        RefusalError: naming the field, the value and both limits.
    """
    if not low <= value <= high:
        raise RefusalError(field_name, value, f"must be {low} to {high}", f"choose a number from {low} to {high}")
