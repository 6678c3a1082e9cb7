"""Errors of queries to an account."""

from __future__ import annotations


class CloudError(RuntimeError):
    """The cloud refused a question, or could not be reached."""

    def __init__(self, product: str, operation: str, code: str, message: str) -> None:
        self.code = code
        super().__init__(f"{product} {operation}: {code} {message}".strip())
