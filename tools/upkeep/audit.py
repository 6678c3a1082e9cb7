"""`make audit`: asks a public database for known vulnerabilities of every pinned Python package.

It runs pip-audit of the tests' environment, whose exit status is 1 both for a vulnerability and for a database that it
could not reach, and which ends with a traceback without a network; this program tells the two apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.errors import ExpectedError
from tools.paths import REPOSITORY
from tools.terminal import status_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FILES = (
    "requirements.txt",
    "requirements-test.txt",
    "policies/requirements.txt",
    "trainer/requirements.txt",
    "trainer/requirements-training.txt",
    "trainer/requirements-tensorflow.txt",
    "tools/installer.txt",
    "tools/build.txt",
)
PASSED, VULNERABLE, NOT_AUDITED = 0, 1, 3
SERVICES = ("pypi", "osv")
"""PyPI's JSON API, and the API of OSV, which has the same reports."""
_PIP_AUDIT = (sys.executable, "-m", "pip_audit")
_LONGEST_REASON = 600


class NotAuditedError(ExpectedError):
    """Nobody knows whether the packages of a file have known vulnerabilities."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The database's answer about the packages of one file."""

    packages: int
    vulnerabilities: tuple[str, ...]
    """One line for each, with the package, its version and the versions without it."""


def main(words: list[str], command: Sequence[str] = _PIP_AUDIT) -> int:
    """Print what is known about each file; return 0, VULNERABLE, or NOT_AUDITED if that is not known of all."""
    parser = argparse.ArgumentParser(prog="python -m tools.upkeep.audit")
    parser.add_argument("--service", choices=SERVICES, default=SERVICES[0], help="the database that is asked")
    service: str = parser.parse_args(words).service
    status = PASSED
    for name in FILES:
        try:
            audit = ask(REPOSITORY / name, service, command)
        except NotAuditedError as error:
            # Without the database, the other files would wait for the same.
            left = FILES[FILES.index(name) :]
            sys.stdout.write(f"{error}\nNot audited: {', '.join(left)}\n")
            return NOT_AUDITED
        if audit.vulnerabilities:
            status = VULNERABLE
        count = len(audit.vulnerabilities)
        sys.stdout.write(f"{name}: {audit.packages} packages, {count or 'no'} known vulnerabilities\n")
        sys.stdout.writelines(f"  {line}\n" for line in audit.vulnerabilities)
    return status


def ask(file: Path, service: str, command: Sequence[str] = _PIP_AUDIT) -> Audit:
    """Return a database's vulnerabilities of the packages in a file of pins.

    Args:
        file: with exact pins and their hashes.
        service: one of SERVICES.
        command: the program, without its flags.

    Raises:
        NotAuditedError: the database was not asked about every package, or did not answer.
    """
    flags = ["--strict", "--require-hashes", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    flags += ["--vulnerability-service", service, "--requirement", str(file)]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    try:
        dependencies: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        other = next(each for each in SERVICES if each != service)
        raise NotAuditedError(
            f"{file.name} was not audited by {service}: {_reason(done)}. This says nothing about its packages. Fix: run"
            f" this where the database can be reached, or ask the other one: make audit SERVICE={other}"
        ) from None
    lines = tuple(_line(each, vulnerability) for each in dependencies for vulnerability in each.get("vulns", ()))
    return Audit(packages=len(dependencies), vulnerabilities=lines)


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    # The last line is a tip if it could not connect, and the exception at the end of a traceback.
    reasons = [line for line in said if "Tip:" not in line]
    return reasons[-1][:_LONGEST_REASON] if reasons else f"pip-audit ended with status {done.returncode}"


def _line(dependency: dict[str, Any], vulnerability: dict[str, Any]) -> str:
    fixed = ", ".join(vulnerability.get("fix_versions", ())) or "no version yet"
    return f"{dependency['name']} {dependency['version']}: {vulnerability['id']}, fixed in {fixed}"


if __name__ == "__main__":
    sys.exit(status_of(lambda: main(sys.argv[1:])))
