"""The results of a check, as JSON for programs and as Markdown for people."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from trainer.common.files import write_atomically, write_json_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trainer.hardware_check.steps import Result

FORMAT_VERSION = 1
KEY = "hardware_check"
"""The one key of the line that is printed at the end."""
_SHOWN_BYTES = "_bytes"
_LEFT_TO_JSON = ("synchronisations_at", "host", "kernel", "limits", "interfaces", "rdma_files")


def document(results: Sequence[Result], *, date: str, minutes: float, torch_version: str) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "format_version": FORMAT_VERSION,
        "date": date,
        "minutes": minutes,
        "torch": torch_version,
        "steps": [dataclasses.asdict(each) for each in results],
    }


def write(path: Path, content: Mapping[str, Any]) -> Path:
    """Write the JSON file, and the same as Markdown next to it, whose path is returned.

    Raises:
        OSError: the folder cannot be written.
    """
    write_json_atomically(path, dict(content))
    text = path.with_suffix(".md")
    write_atomically(text, markdown(content).encode())
    return text


def markdown(content: Mapping[str, Any]) -> str:
    """Return the table of a report."""
    steps: list[dict[str, Any]] = content["steps"]
    nothing: dict[str, Any] = {}
    machine: dict[str, Any] = next((each["figures"] for each in steps if each["name"] == "machine"), nothing)
    seen: dict[str, Any] = machine.get("torch") or {"gpus": []}
    gpus: list[str] = [each["name"] for each in seen["gpus"]]
    device = f"{', '.join(gpus)}, driver {machine['driver']}" if gpus else "no GPU: miniatures on the CPU"
    lines = [
        f"Hardware check of {content['date']}, torch {content['torch']}: {device}.",
        "",
        "| step | result | seconds | figures |",
        "|---|---|---|---|",
    ]
    for each in steps:
        said = _figures(each["figures"]) if each["outcome"] == "done" else _cell(each["reason"])
        lines.append(f"| {each['title']} | {each['outcome']} | {each['seconds']:g} | {said} |")
    return "\n".join([*lines, ""])


def _figures(figures: Mapping[str, Any]) -> str:
    filled = [each for each in figures.items() if each[0] not in _LEFT_TO_JSON and each[1] not in (None, [], {})]
    return ", ".join(f"{_words(name)} {_value(name, value)}" for name, value in filled)


def _words(name: str) -> str:
    return name.removesuffix(_SHOWN_BYTES).replace("_", " ")


def _value(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return _size(value) if name.endswith(_SHOWN_BYTES) else f"{value:,}"
    return _cell(str(value))


def _size(count: int) -> str:
    factor, unit = next((each for each in ((1e9, "GB"), (1e6, "MB")) if count >= each[0]), (1e3, "kB"))
    return f"{count / factor:,.2f} {unit}"


def _cell(text: str) -> str:
    """Return a text for a cell of a table: its first lines in one."""
    return " / ".join(text.replace("|", "\\|").split("\n")[:3])
