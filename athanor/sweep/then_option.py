"""The option `--then`: a command that runs once when a sweep has ended, checked before the sweep begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.run.shell_words import shell_words
from athanor.sweep.space import check_placeholders
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.sweep.parameter import Parameter

FOLDER, RUN = "output", "run"
"""Placeholders in addition to the parameters: the folder of the best trial's files, and the name of its run."""


def read_then(text: str | None, space: Sequence[Parameter]) -> tuple[str, ...]:
    """Return the words of the command; none without one.

    Raises:
        RefusalError: as `shell_words`, or it has a placeholder that stands for nothing.
    """
    if text is None:
        return ()
    words = shell_words("--then", text)
    names = [parameter.name for parameter in space]
    taken = next((name for name in names if name in {FOLDER, RUN}), None)
    if taken is not None:
        limit = f"--then has a placeholder {{{taken}}} of its own"
        raise RefusalError("--param", taken, limit, "give the parameter another name")
    check_placeholders("--then", words, [*names, FOLDER, RUN])
    return words
