"""Runs the engine's preview of a stack of the project in the current folder."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from athanor.review.preview import Diagnostic, Preview
from athanor.review.reading import read_preview

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_STREAM = "PULUMI_ENABLE_STREAMING_JSON_PREVIEW"
"""Variable that makes the engine write its events, which include the policies' findings."""
_LAST_WORDS = 2000
_DOES_NOT_DECRYPT = "incorrect passphrase"
_FIX = (
    "Fix: set PULUMI_CONFIG_PASSPHRASE_FILE to a file with the passphrase that the stack's secrets are encrypted with,"
    " or PULUMI_CONFIG_PASSPHRASE to that one."
)


def engine_preview(
    stack: str,
    command: Sequence[str] = ("pulumi",),
    variables: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
) -> Preview:
    """Return the preview of a stack; one that the engine could not make is a failed preview.

    Args:
        stack: the stack's name.
        command: the engine's program.
        variables: environment variables in addition to this process's.
        flags: further flags of `pulumi preview`.

    Raises:
        OSError: the engine could not be started.
    """
    return _asked(stack, [*command, "preview", *flags], variables)


def engine_drift(
    stack: str, command: Sequence[str] = ("pulumi",), variables: Mapping[str, str] | None = None
) -> Preview:
    """Return the drift of a stack: the changes that a refresh would make. Nothing is written, no program is run.

    Args:
        stack: the stack's name.
        command: the engine's program.
        variables: environment variables in addition to this process's.

    Raises:
        OSError: the engine could not be started.
    """
    return _asked(stack, [*command, "refresh", "--preview-only"], variables)


def policy_flags(pack: Path | None, stack: str) -> list[str]:
    """Return the flags for a policy pack, with the stack's configuration of the pack if there is one."""
    if pack is None:
        return []
    config = pack / "environments" / f"{stack}.json"
    return ["--policy-pack", str(pack), *(["--policy-pack-config", str(config)] if config.is_file() else [])]


def explained(said: str) -> str:
    """Return the engine's last words, with a fix where they have none."""
    return f"{said}\n{_FIX}" if _DOES_NOT_DECRYPT in said else said


def _asked(stack: str, command: Sequence[str], variables: Mapping[str, str] | None) -> Preview:
    done = subprocess.run(
        [*command, "--json", "--non-interactive", "--stack", stack],
        capture_output=True, check=False, env={**os.environ, **(variables or {}), _STREAM: "true"},
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    said = explained(done.stderr.decode(errors="replace").strip())
    output = done.stdout.decode(errors="replace")
    if not output.strip():
        return _failed(Preview(stack=stack), said or f"the engine ended with status {done.returncode}")
    preview = read_preview(output, stack)
    if done.returncode and not preview.failed:
        return _failed(preview, said or f"the engine ended with status {done.returncode}")
    return preview


def _failed(preview: Preview, message: str) -> Preview:
    error = Diagnostic(severity="error", message=message[-_LAST_WORDS:])
    return replace(preview, diagnostics=(*preview.diagnostics, error))
