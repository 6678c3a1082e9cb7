"""`python -m tools.sbom [FOLDER]`: write a bill of materials of each image, environment and graph of programs."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from infra.errors import RefusalError
from tools.paths import REPOSITORY, paths
from tools.sbom.cyclonedx_json import bill_text, first_problem
from tools.sbom.go_modules import graph_bill
from tools.sbom.python_pins import environment_bills, image_bills
from tools.terminal import status_of
from tools.toolchain.tool import GRAPHS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tools.sbom.package import Bill

ENDING = ".cdx.json"
"""Ending of CycloneDX files (CycloneDX specification, "Recognized file patterns")."""
_DATE = "SOURCE_DATE_EPOCH"


def main(words: list[str]) -> int:
    """Write the files; return the process's exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.sbom", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="default: the folder sbom of athanor's own")
    folder: Path = parser.parse_args(words).folder or paths().home / "sbom"
    try:
        check_folder(folder)
        date = source_date(os.environ)
    except RefusalError as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    for bill in all_bills():
        text = bill_text(bill, date)
        problem = first_problem(text)
        assert problem is None, f"{bill.file_name} is not valid CycloneDX: {problem}"
        file = folder / f"{bill.file_name}{ENDING}"
        file.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{file}: {len(bill.packages)} packages\n")
    return 0


def all_bills() -> Iterator[Bill]:
    """Yield every bill."""
    yield from image_bills()
    yield from environment_bills()
    yield from (graph_bill(graph) for graph in GRAPHS)


def check_folder(folder: Path) -> None:
    """Refuse a folder in the repository, where the files would be taken for sources.

    Raises:
        RefusalError: it is in the repository.
    """
    if folder.resolve().is_relative_to(REPOSITORY):
        raise RefusalError("FOLDER", str(folder), "is in the repository", "name a folder outside of it, or none")


def source_date(variables: Mapping[str, str]) -> dt.datetime | None:
    """Return the time that SOURCE_DATE_EPOCH names, in seconds since 1970; None if it is not set.

    Raises:
        RefusalError: it is not such a number.
    """
    text = variables.get(_DATE, "")
    if not text:
        return None
    try:
        return dt.datetime.fromtimestamp(int(text), dt.UTC)
    except (ValueError, OverflowError, OSError):
        raise RefusalError(
            _DATE, text, "is not a time in seconds since 1970", "set it to the output of `git log -1 --format=%ct`"
        ) from None


if __name__ == "__main__":
    sys.exit(status_of(lambda: main(sys.argv[1:])))
