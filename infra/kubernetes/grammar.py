"""The grammar of Kubernetes: kinds of text that its API server and its nodes accept, as types for pydantic.

The API's OpenAPI document declares nearly all of them as "string". The rules follow the validation functions named
below, from k8s.io/apimachinery, pkg/util/validation, or those of the node that starts the pod. Each error says what is
wrong and, after "Fix:", what to write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from infra.kubernetes.quantities import quantity_value
from infra.registry import ImageReference

if TYPE_CHECKING:
    from collections.abc import Mapping

MAXIMUM_WORD_BYTES = 2**17 - 1
"""Limit of one word of a command, or of `NAME=value` of a variable: Linux, MAX_ARG_STRLEN without the final NUL."""
_SMALLEST_MEMORY, _LARGEST_MEMORY = "1Mi", "1024Ti"

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"


def matching(pattern: str, wrong: str) -> AfterValidator:
    """Return a validator for `Annotated[str, …]`.

    Args:
        pattern: Regular expression that the whole text must match; character classes are ASCII.
        wrong: The error for any other text: "is not …. Fix: …".
    """
    compiled = re.compile(pattern, re.ASCII)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(wrong)
        return value

    return AfterValidator(check)


DnsLabel = Annotated[
    str,
    matching(
        rf"(?=.{{1,63}}\Z){_LABEL}",
        "is not a valid DNS label (RFC 1123). Fix: at most 63 of a-z, 0-9 and '-', starting with a letter or digit",
    ),
]
"""IsDNS1123Label."""
DnsSubdomain = Annotated[
    str,
    matching(
        rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*",
        "is not a valid DNS subdomain (RFC 1123). Fix: at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at"
        " both ends"
        " of each part",
    ),
]
"""IsDNS1123Subdomain: names of most objects."""
LabelKey = Annotated[
    str,
    matching(
        rf"((?=.{{1,253}}/){_LABEL}(\.{_LABEL})*/)?{_QUALIFIED}",
        "is not a valid Kubernetes label key. Fix: [prefix/]name, the name at most 63 letters, digits, '-', '_' and"
        " '.' with a"
        " letter or digit at both ends, the prefix a DNS subdomain",
    ),
]
"""IsQualifiedName: keys of labels and taints."""
LabelValue = Annotated[
    str,
    matching(
        rf"({_QUALIFIED})?",
        "is not a valid Kubernetes label value. Fix: empty, or at most 63 letters, digits, '-', '_' and '.' with a"
        " letter or"
        " digit at both ends",
    ),
]
"""IsValidLabelValue: values of labels and taints."""
QueueName = Annotated[
    str,
    matching(
        rf"(?=.{{1,63}}\Z){_LABEL}(\.{_LABEL})*",
        "is not a valid queue name. Fix: at most 63 of a-z, 0-9, '-' and '.', with a letter or digit at both ends of"
        " each"
        " part",
    ),
]
"""The name of an object that Volcano also writes as a label value on every pod."""
VariableName = Annotated[
    str,
    matching(
        r"[A-Za-z_][A-Za-z0-9_]*",
        "must consist of letters, digits and '_', and not start with a digit. Fix: rename the variable",
    ),
]
"""IsCIdentifier. Newer API servers accept more, but shells cannot refer to such names."""
Cpu = Annotated[
    str,
    matching(
        r"[0-9]+m|[0-9]+(\.[0-9]+)?",
        "is not a valid CPU quantity. Fix: write cores or millicores, such as 2, 0.5 or 500m",
    ),
]
AbsolutePath = Annotated[
    str,
    matching(
        r"(/(?!\.{1,2}(/|\Z))[A-Za-z0-9._-]+)+",
        "must be an absolute path of letters, digits, '.', '_' and '-', without '.' and '..' as parts. Fix: write it"
        " out, such as /scratch/cache",
    ),
]


def _memory(value: str) -> str:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?", value, re.ASCII):
        raise ValueError(
            "is not a valid memory quantity. Fix: write a number of bytes, or a number with a unit, such as 4Gi"
        )
    if _has_memory(value):
        return value
    limit = f"must be {_SMALLEST_MEMORY} to {_LARGEST_MEMORY}"
    if not value[-1].isdigit():
        raise ValueError(f"{limit}. Fix: write it with a unit, such as 4Gi")
    meant = f"{value}Gi" if _has_memory(f"{value}Gi") else "4Gi"
    raise ValueError(f"{limit}, and a number without a unit counts bytes. Fix: write it with its unit: {meant}")


def _has_memory(value: str) -> bool:
    return quantity_value(_SMALLEST_MEMORY) <= quantity_value(value) <= quantity_value(_LARGEST_MEMORY)


Memory = Annotated[str, AfterValidator(_memory)]


def _image(value: str) -> str:
    ImageReference.parse(value)
    return value


Image = Annotated[str, AfterValidator(_image)]
"""As container runtimes parse it: the API server accepts any text without leading or trailing spaces."""


def _word(value: str) -> str:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError("contains a lone surrogate, which UTF-8 cannot encode. Fix: remove it") from None
    if "\0" in value:
        raise ValueError("contains a NUL character, at which the kernel would cut it off. Fix: remove it")
    if size > MAXIMUM_WORD_BYTES:
        raise ValueError(_too_long(size))
    return value


Word = Annotated[str, AfterValidator(_word)]
"""Text that the kernel can pass to a program: a word of its command, or the value of a variable."""


def _environment(value: Mapping[str, str]) -> Mapping[str, str]:
    for name, text in value.items():
        if (size := variable_bytes(name, text)) > MAXIMUM_WORD_BYTES:
            raise ValueError(f"{name} {_too_long(size)}")
    return value


Fitting = AfterValidator(_environment)
"""For a mapping of variables: each, together with its name, within the kernel's limit."""


def variable_bytes(name: str, value: str) -> int:
    """Return the size of a variable as it counts against MAXIMUM_WORD_BYTES."""
    return len(f"{name}={value}".encode())


def _too_long(size: int) -> str:
    limit = f"has {size} bytes, but the kernel accepts at most {MAXIMUM_WORD_BYTES}"
    return f"{limit}. Fix: put it in a file, in the image or on a volume, and pass the file's path"
