"""Previews of stacks, and the refusal of one that nobody has described."""

import pytest

from athanor.review.engine import engine_preview
from infra.errors import RefusalError
from tools.stacks import preview as module
from tools.stacks.engine import Engine


@pytest.fixture
def project(fake_program, monkeypatch, tmp_path):
    """A folder with the settings of dev, whose backend has the stack `old`."""
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml"):
        (tmp_path / name).write_text("name: athanor\n" if name == "Pulumi.yaml" else "config: {}\n", encoding="utf-8")
    fake_program.answer("stack ls", '[{"name": "organization/athanor/old"}]')
    programs = dict.fromkeys(("pulumi", "kubectl"), fake_program.path)
    monkeypatch.setattr(module, "ensure", lambda *_: programs)
    for name in ("upstream_manifests", "install_commands"):
        monkeypatch.setattr(module, name, lambda *_, **__: None)
    monkeypatch.setattr(module, "Engine", lambda *, pulumi, stack: Engine(pulumi=pulumi, stack=stack, project=tmp_path))
    return tmp_path


def test_a_stack_that_nobody_described_is_refused_and_leaves_nothing(project, report):
    with pytest.raises(RefusalError, match=r"STACK = 'dve': has no Pulumi.dve.yaml, .* did you mean dev"):
        module.preview("dve", report.progress)
    assert not (project / "Pulumi.dve.yaml").exists()
    # Else the real engine would speak of the folder that it asks, on a machine where nothing ran yet.
    assert (project / "home" / "pulumi").is_dir()


@pytest.mark.usefixtures("project")
def test_a_wrong_passphrase_is_explained_in_previews_and_reviews(report, fake_program, capfd):
    fake_program.answer("preview", stderr="error: get stack secrets manager: incorrect passphrase", status=255)
    assert module.preview("old", report.progress) == 255
    assert "incorrect passphrase\nFix: set PULUMI_CONFIG_PASSPHRASE_FILE to" in capfd.readouterr().err
    [said] = engine_preview("old", (str(fake_program.path),)).diagnostics
    assert "incorrect passphrase\nFix: set PULUMI_CONFIG_PASSPHRASE_FILE to" in said.message


@pytest.mark.parametrize("stack", ["dev", "old"])
def test_a_file_or_the_backend_is_enough(project, report, stack):
    assert module.engine_for_a_preview(stack, report.progress).project == project
