"""The reason in an error of torch, without its traces and code."""

from __future__ import annotations

import re

_INTERPRETER = "TorchScript interpreter"
_TRACE = re.compile(r"Traceback of TorchScript|.*\(\d+\): \S+$")
"""Its headlines, and the frames of a traced network, such as `net.py(8): forward`."""
_END_OF_TRACE = "<--- HERE"
_CONSTRAINTS = "Constraints violated"
_CALL = "The following call raised this error:"
_MOST_CHARACTERS = 300


def reason(error: BaseException) -> str:
    """Return why something failed, in one line without a full stop.

    TorchScript's interpreter puts the reason after its trace, its compiler before the code, and the check of a traced
    network after a headline. torch.export puts it into a list, or names the line of the network far after it.
    """
    lines = [line for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if _INTERPRETER in lines[0]:
        end = max((place for place, line in enumerate(lines) if _END_OF_TRACE in line), default=0)
        # code may follow, which is indented
        after = (line for line in lines[end + 1 :] if not line[0].isspace() and not _TRACE.match(line))
        line = next(after, lines[-1])
    elif lines[0].startswith(_CONSTRAINTS):
        line = next((line.strip(" -").partition(". ")[0] for line in lines[1:] if line.startswith("  - ")), lines[0])
    elif _CALL in lines[:-2]:
        # the file, then its line
        line = f"{lines[0].partition('.  (')[0]}, in {lines[lines.index(_CALL) + 2].strip()}"
    else:
        line = next((line for line in lines if line.startswith("ERROR: ")), lines[0])
        if not isinstance(error, RuntimeError):
            line = f"{type(error).__name__}: {line}"
    return line.strip()[:_MOST_CHARACTERS].rstrip(" .:!")
