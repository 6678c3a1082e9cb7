"""Name and limits of a published model, and the errors when it is not published."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.common.validation import between, file_name

_LARGEST_BATCH = 2**31 - 1
"""Largest number in the 32 bits that config.pbtxt has for it."""


class ExportError(RuntimeError):
    """The model was not published; the repository is as it was."""


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Under which name and with which limits the model is served."""

    model_name: str = "digits"
    """Folder in the model repository and name in the service's address."""
    max_batch_size: int = 64
    """Most samples the server may put into one call of the model."""

    def __post_init__(self) -> None:
        file_name("model_name", self.model_name)
        between("max_batch_size", self.max_batch_size, 1, _LARGEST_BATCH)
