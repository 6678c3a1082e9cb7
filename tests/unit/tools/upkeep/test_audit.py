"""`make audit` never takes an unreachable database for a clean bill of health, nor for a vulnerability."""

import json
import sys
from pathlib import Path

import pytest

from tests.fixtures.nowhere import reaching_nobody
from tests.unit.test_repository import LOCKED
from tools.upkeep import audit

CLEAN = {"name": "clean", "version": "1.0", "vulns": []}
KNOWN = {"name": "old", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1", "3.0"], "aliases": []}]}
UNFIXED = {"name": "sad", "version": "3.0", "vulns": [{"id": "PYSEC-2", "fix_versions": [], "aliases": []}]}


def standing_in(folder: Path, answer: str, said: str = "", status: int = 0) -> list[str]:
    """Return a command that answers as pip-audit does."""
    program = folder / "pip-audit"
    program.write_text(f"import sys\nprint({answer!r})\nprint({said!r}, file=sys.stderr)\nsys.exit({status})\n")
    return [sys.executable, str(program)]


def test_every_file_of_pins_is_audited():
    assert set(audit.FILES) == {f"{name}.txt" for name in LOCKED}


def test_what_has_no_known_vulnerability_passes(tmp_path, capsys):
    command = standing_in(tmp_path, json.dumps({"dependencies": [CLEAN], "fixes": []}))
    assert audit.main([], command) == audit.PASSED
    assert capsys.readouterr().out.count("1 packages, no known vulnerabilities\n") == len(audit.FILES)


def test_vulnerabilities_are_listed_for_every_file_with_their_fix(tmp_path, capsys):
    command = standing_in(tmp_path, json.dumps({"dependencies": [CLEAN, KNOWN, UNFIXED], "fixes": []}), status=1)
    assert audit.main([], command) == audit.VULNERABLE
    said = capsys.readouterr().out
    assert said.count("  old 2.0: PYSEC-1, fixed in 2.1, 3.0\n") == len(audit.FILES)
    assert "  sad 3.0: PYSEC-2, fixed in no version yet\n" in said


@pytest.mark.parametrize(
    ("answer", "said", "reason"),
    [
        ("", "ERROR:x:No idea: Dependency not found\n", "ERROR:x:No idea: Dependency not found"),
        ("", "ERROR:x:Could not connect\nERROR:x:Tip: your network may be blocking this", "ERROR:x:Could not connect"),
        ("", "", "pip-audit ended with status 1"),
        ("[]", "", "pip-audit ended with status 1"),
        ("{}", "", "pip-audit ended with status 1"),
    ],
)
def test_what_was_not_audited_is_not_passed(tmp_path, capsys, answer, said, reason):
    assert audit.main(["--service", "osv"], standing_in(tmp_path, answer, said, 1)) == audit.NOT_AUDITED
    out = capsys.readouterr().out
    assert f"requirements.txt was not audited by osv: {reason}. This says nothing" in out
    assert "make audit SERVICE=pypi" in out
    assert f"Not audited: {', '.join(audit.FILES)}" in out


@pytest.mark.parametrize("service", audit.SERVICES)
def test_the_real_program_without_a_network(monkeypatch, capsys, service):
    for name, value in reaching_nobody().items():
        monkeypatch.setenv(name, value)
    assert audit.main(["--service", service]) == audit.NOT_AUDITED
    said = capsys.readouterr().out
    assert f"requirements.txt was not audited by {service}: " in said
    assert "refused" in said
    assert "Traceback" not in said
