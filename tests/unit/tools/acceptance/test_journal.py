"""A run is on disk after every step, private, whole, and no two go on at once."""

import pytest

from infra.errors import RefusalError
from tools.acceptance.findings import Entry, Findings
from tools.acceptance.journal import Journal, only_run


def entry(step="up", status="passed"):
    findings = Findings()
    findings.saw("pulumi up", "done")
    findings.figure("resources", 42)
    findings.compare("pods of a node", 60, 64)
    return Entry(step=step, status=status, reason="", began="2026-11-22T10:00:00+00:00", seconds=1.5, findings=findings)


def test_what_was_recorded_is_private_and_read_back_and_a_later_try_replaces_it(tmp_path):
    Journal.of(tmp_path, "dev").record(entry())
    journal = Journal.of(tmp_path, "dev")
    assert journal.entries == [entry()]
    assert journal.folder.stat().st_mode & 0o077 == (journal.folder / "run.json").stat().st_mode & 0o077 == 0
    journal.record(entry(status="failed"))
    assert [one.status for one in journal.entries] == ["failed"]


def test_a_finished_run_is_followed_by_another(tmp_path):
    journal = Journal.of(tmp_path, "dev")
    journal.begin_environment()
    (tmp_path / "0000-first").mkdir()
    journal.folder.rename(tmp_path / "2000-01-01T000000")
    journal = Journal.of(tmp_path, "dev")
    assert journal.environment_begun
    journal.finish()
    assert not Journal.of(tmp_path, "dev").environment_begun


def test_two_runs_of_a_stack_do_not_go_on_at_once(tmp_path):
    with only_run(tmp_path / "dev"):
        with (
            pytest.raises(RefusalError, match="another acceptance run of this stack is in progress"),
            only_run(tmp_path / "dev"),
        ):
            pass
        with only_run(tmp_path / "other"):
            pass
    with only_run(tmp_path / "dev"):
        pass


def test_long_output_keeps_its_end():
    findings = Findings()
    findings.saw("pulumi up", "a" * 9000 + "the end")
    assert findings.evidence[0].output.endswith("the end")
    assert len(findings.evidence[0].output) < 4100


def test_what_is_the_same_is_not_a_difference():
    findings = Findings()
    assert findings.compare("pods", 12, "12")
    assert not findings.compare("pods", 12, "13")
    assert [one.what for one in findings.differences] == ["pods"]
