"""Masking of secrets in a report that people share: keys, tokens, private keys, account numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MASK = "********"
_SHORTEST = 6
"""Shorter values of variables are words such as `true`: masking them would eat the report."""
_SECRET_VARIABLE = re.compile(r"SECRET|TOKEN|PASSWORD|PASSPHRASE|ACCESS_KEY", re.IGNORECASE)
_NO_SECRET = re.compile(r"_FILE$|_URI$", re.IGNORECASE)
_PATTERNS = (
    # Access keys of RAM users and of STS (RAM, "AccessKey pairs"; STS, "AssumeRole", example response).
    (re.compile(r"\b(LTAI|STS\.)[A-Za-z0-9]{8,}"), rf"\1{MASK}"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL), MASK),
    (re.compile(r"((?:client-key|client-certificate|certificate-authority)-data:\s*)\S+"), rf"\1{MASK}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"), MASK),  # JSON Web Tokens
    (re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/-]{8,}=*"), rf"\1{MASK}"),
    (re.compile(r"((?:Signature|SecurityToken|AccessKeyId|AccessKeySecret)=)[^&\s\"']+"), rf"\1{MASK}"),
    # Numbers of accounts are in every resource name; the last four digits tell two of them apart.
    (re.compile(r"(?<![0-9A-Za-z])[0-9]{12}([0-9]{4})(?![0-9A-Za-z])"), r"************\1"),
)


def masked(text: str, environment: Mapping[str, str]) -> str:
    """Return a text without secrets: values of variables that hold some, and what looks like one."""
    # The longest first: one may be a part of another.
    for value in sorted(_secrets(environment), key=len, reverse=True):
        text = text.replace(value, MASK)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def _secrets(environment: Mapping[str, str]) -> set[str]:
    return {
        value
        for name, value in environment.items()
        if _SECRET_VARIABLE.search(name) and not _NO_SECRET.search(name) and len(value) >= _SHORTEST
    }
