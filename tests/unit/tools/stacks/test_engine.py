"""The engine runs on private state with a private passphrase, and survives runs that were killed."""

import contextlib
import json
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from infra.errors import RefusalError
from tests.processes import until_executing
from tests.tables import each_row
from tests.waiting import wait_until
from tools.process import CommandError
from tools.stacks import engine as engine_module
from tools.stacks.engine import (
    Engine,
    engine_environment,
    engine_path,
    make_private_folders,
    remove_old_temporary_files,
    stack_config,
    strip_salt,
)
from tools.stacks.state_file import backend_url


@pytest.fixture
def home(monkeypatch, tmp_path):
    for name in ("PULUMI_HOME", "PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path / "state" / "athanor"))
    monkeypatch.setenv("ATHANOR_CACHE", str(tmp_path / "cache"))
    return (tmp_path / "state" / "athanor").resolve()


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_state_and_passphrase_are_private_whatever_the_umask(home, umask):
    before = os.umask(umask)
    try:
        make_private_folders()
    finally:
        os.umask(before)
    assert _mode(home) == _mode(home / "pulumi") == _mode(home / "tmp") == 0o700
    assert _mode(home / "passphrase") == 0o600


def test_a_passphrase_is_long_random_and_kept(home, monkeypatch, tmp_path):
    make_private_folders()
    first = (home / "passphrase").read_text()
    make_private_folders()
    assert (home / "passphrase").read_text() == first
    assert len(first) >= 40
    assert sorted(path.name for path in home.iterdir()) == ["passphrase", "pulumi", "tmp"]
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path / "other"))
    make_private_folders()
    assert (tmp_path / "other" / "passphrase").read_text() != first


def test_a_killed_run_leaves_no_empty_passphrase(home, monkeypatch):
    def killed(_length: int) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(engine_module.secrets, "token_urlsafe", killed)
        with pytest.raises(KeyboardInterrupt):
            make_private_folders()
    assert not (home / "passphrase").exists()
    make_private_folders()
    assert (home / "passphrase").read_text()


def test_the_passphrase_of_a_faster_run_counts(home, monkeypatch):
    make_private_folders()
    first = (home / "passphrase").read_text()
    monkeypatch.setattr(engine_module.Path, "exists", lambda _: False)
    make_private_folders()
    assert (home / "passphrase").read_text() == first


def test_state_and_secrets_are_in_the_users_private_folder_and_the_users_variables_win(home, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/somewhere/shared")
    ours = engine_environment(Path("/tools/pulumi"))
    assert ours["PULUMI_BACKEND_URL"] == f"file://{home}/pulumi?metadata=skip"
    assert ours["PULUMI_CONFIG_PASSPHRASE_FILE"] == str(home / "passphrase")
    assert ours["TMPDIR"] == str(home / "tmp"), "which is where providers write credentials"
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://bucket")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "theirs")
    theirs = engine_environment(Path("/tools/pulumi"))
    assert theirs["PULUMI_BACKEND_URL"] == "s3://bucket"
    assert "PULUMI_CONFIG_PASSPHRASE_FILE" not in theirs


def test_temporary_files_of_long_ago_are_removed_and_new_ones_kept(home):
    make_private_folders()
    for name, age_hours in (("old", 25), ("new", 1)):
        (home / "tmp" / name).touch()
        then = time.time() - age_hours * 3600
        os.utime(home / "tmp" / name, (then, then))
    remove_old_temporary_files()
    assert [file.name for file in (home / "tmp").iterdir()] == ["new"]


class TestOrphans:
    """Plugins and language hosts whose engine was killed."""

    @pytest.fixture
    def start(self, tmp_path):
        copy = tmp_path / "plugins" / "pulumi-resource-fake"
        copy.parent.mkdir()
        shutil.copy2(Path(shutil.which("sleep")).resolve(), copy)
        orphans, children = [], []

        def start(backend, *, orphan):
            """Start the program; as an orphan through a shell that ends at once."""
            environment = {**os.environ, "PULUMI_BACKEND_URL": backend}
            if not orphan:
                children.append(subprocess.Popen([copy, "600"], env=environment))
                return until_executing(children[-1].pid, copy)
            words = ["sh", "-c", '"$0" 600 >/dev/null 2>&1 & echo $!', str(copy)]
            orphans.append(
                int(subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout)
            )
            return until_executing(orphans[-1], copy)

        yield start
        for process in children:
            process.kill()
            process.wait()
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @staticmethod
    def runs(pid):
        try:
            return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False

    def test_those_of_this_backend_are_ended(self, engine, home, start):
        pid = start(backend_url(home / "pulumi"), orphan=True)
        engine.end_orphans()
        wait_until(lambda: not self.runs(pid), "the orphan to end")

    def test_those_of_another_backend_or_a_living_engine_are_not(self, engine, home, start):
        pids = [start("file:///elsewhere", orphan=True), start(backend_url(home / "pulumi"), orphan=False)]
        engine.end_orphans()
        assert all(self.runs(pid) for pid in pids)

    @pytest.mark.parametrize("orphan", [True, False])
    def test_an_engine_is_seen_at_work_with_this_backend_alone(self, engine, home, start, orphan):
        named = replace(engine, pulumi=Path("/tools/pulumi-resource-fake"))
        start("file:///elsewhere", orphan=orphan)
        assert not named.is_running()
        start(backend_url(home / "pulumi"), orphan=orphan)
        assert named.is_running()
        assert not engine.is_running()


def test_the_language_host_finds_this_python_and_the_engine_its_host():
    variables = engine_environment(Path("/tools/pulumi/bin/pulumi"))
    assert variables["PATH"].split(":")[:2] == [str(Path(sys.executable).parent.resolve()), "/tools/pulumi/bin"]
    assert variables["PATH"].endswith(os.environ["PATH"])


def test_the_engine_finds_python_when_the_clone_that_set_it_up_is_gone(tmp_path, monkeypatch):
    """Clones with equal requirements share one environment, and `.venv/bin/pulumi` in it holds this path."""
    shared = tmp_path / "cache" / "venv"
    (shared / "bin").mkdir(parents=True)
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / ".venv").symlink_to(shared)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "clone" / ".venv" / "bin" / "python"))
    assert engine_path(Path("/a/pulumi"))[0] == str(shared / "bin")


SALT = "encryptionsalt: v1:abc=:v1:def\n"


@each_row(
    ("text", "kept"),
    [
        (SALT, ""),
        ("# note\nconfig:\n  athanor:namespace: a\n" + SALT, "# note\nconfig:\n  athanor:namespace: a\n"),
        (SALT + "config: {}\n", "config: {}\n"),
        ("config:\r\n  a: b\r\n" + SALT, "config:\r\n  a: b\r\n"),
        ("config:\n  athanor:encryptionsalt: x\n", "config:\n  athanor:encryptionsalt: x\n"),
        ("config: {}", "config: {}"),
        ("", ""),
    ],
)
def test_only_the_salt_leaves_the_file(tmp_path, text, kept):
    file = tmp_path / "Pulumi.local.yaml"
    file.write_bytes(text.encode())
    strip_salt(file)
    assert file.read_bytes().decode() == kept


def test_a_file_without_salt_is_not_written(tmp_path):
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text("config: {}\n")
    os.utime(file, (1, 1))
    strip_salt(file)
    assert file.stat().st_mtime == 1
    strip_salt(tmp_path / "absent.yaml")


def test_the_projects_own_keys_are_read(tmp_path):
    (tmp_path / "Pulumi.dev.yaml").write_text(
        "config:\n  athanor:namespace: a\n  athanor:digits: {workers: 3}\n  kubernetes:context: b\n" + SALT
    )
    assert stack_config("dev", tmp_path) == {"namespace": "a", "digits": {"workers": 3}}


@each_row("text", ["", "config:\n", SALT, "# nothing\n"])
def test_an_empty_or_absent_stack_file_sets_nothing(tmp_path, text):
    (tmp_path / "Pulumi.dev.yaml").write_text(text)
    assert stack_config("dev", tmp_path) == stack_config("absent", tmp_path) == {}


@pytest.fixture
def engine(home, fake_program, tmp_path):
    assert home
    return Engine(pulumi=fake_program.path, stack="local", project=tmp_path)


def _stacks(*names: str) -> str:
    return json.dumps([{"name": name} for name in names])


def test_a_new_stack_is_made_without_somebody_elses_salt(engine, fake_program, tmp_path):
    (tmp_path / "Pulumi.local.yaml").write_text("config: {}\n" + SALT)
    fake_program.answer("stack ls", _stacks("dev"))
    fake_program.answer("stack init local")
    engine.prepare()
    assert fake_program.lines[-1] == "stack init local --non-interactive"
    assert (tmp_path / "Pulumi.local.yaml").read_text() == "config: {}\n"


def _exists(fake_program, deployment) -> None:
    """Have the engine answer as for a stack that is in its backend."""
    fake_program.answer("stack ls", _stacks("organization/athanor/local"))
    fake_program.answer("stack select local")
    fake_program.answer("stack export", json.dumps({"deployment": deployment}))


@pytest.mark.parametrize("deployment", [None, {}, {"resources": []}], ids=str)
def test_an_existing_stack_is_selected_and_keeps_its_salt(engine, fake_program, tmp_path, deployment):
    (tmp_path / "Pulumi.local.yaml").write_text(SALT)
    _exists(fake_program, deployment)
    engine.prepare()
    assert not any("init" in line or "refresh" in line for line in fake_program.lines)
    assert (tmp_path / "Pulumi.local.yaml").read_text() == SALT


@pytest.fixture
def keep(home, engine):
    """Write the stack's state as the engine's file backend keeps it."""

    def keep(deployment, **changed):
        (engine.project / "Pulumi.yaml").write_text("name: athanor\n")
        file = home / "pulumi" / ".pulumi" / "stacks" / "athanor" / "local.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"version": 3, "checkpoint": {"latest": deployment}, **changed}))

    return keep


def _with_outputs(**outputs: object) -> dict:
    return {"resources": [{"type": "pulumi:pulumi:Stack", "outputs": outputs}]}


SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:x"}


@pytest.mark.parametrize("version", [{}, {"version": 4, "features": ["views"]}], ids=["3", "4"])
def test_an_update_of_a_stack_in_this_machines_folder_is_two_calls_of_the_engine(engine, fake_program, keep, version):
    keep(_with_outputs(namespace="athanor"), **version)
    fake_program.answer("stack select local")
    fake_program.answer("up --yes")
    engine.prepare()
    engine.up()
    assert engine.outputs() == {"namespace": "athanor"}
    assert [line.split(" --")[0] for line in fake_program.lines] == ["stack select local", "up"]


EMPTY_OR_NOT = [(None, True), ({"manifest": {}}, True), ({"resources": []}, True), (_with_outputs(), False)]


@pytest.mark.parametrize(("deployment", "is_empty"), EMPTY_OR_NOT, ids=str)
@pytest.mark.parametrize("state_is", ["in this machine's folder", "elsewhere"])
def test_a_stack_is_empty_until_an_update_has_made_something(
    *, engine, fake_program, keep, state_is, deployment, is_empty
):
    if state_is == "elsewhere":
        _exists(fake_program, deployment)
    else:
        keep(deployment)
    assert engine.is_empty() == is_empty


def test_a_stack_that_does_not_exist_is_empty(engine, fake_program):
    fake_program.answer("stack ls", _stacks("dev"))
    assert engine.is_empty()


@pytest.mark.parametrize("written_once", [True, False])
def test_the_state_is_written_once_only_where_that_is_asked_for(engine, fake_program, written_once):
    fake_program.answer("up --yes")
    (engine.writing_once() if written_once else engine).up()
    assert fake_program.calls[0]["env"].get("PULUMI_SKIP_CHECKPOINTS") == ("true" if written_once else None)


@pytest.mark.parametrize("state_is", ["in this machine's folder", "elsewhere"])
def test_operations_of_a_killed_run_are_cleared_first(engine, fake_program, keep, state_is):
    undecided = {"pending_operations": [{"type": "creating"}]}
    if state_is != "elsewhere":
        keep(undecided)
    _exists(fake_program, undecided if state_is == "elsewhere" else None)
    fake_program.answer("refresh")
    engine.prepare()
    assert "--clear-pending-creates" in fake_program.lines[-1]


@pytest.mark.parametrize(
    "state",
    [
        {"version": 5, "checkpoint": {"latest": _with_outputs(namespace="wrong")}},
        {"checkpoint": None},
        {"checkpoint": {"latest": _with_outputs(namespace="wrong", key=SECRET)}},
    ],
    ids=["another version", "no stack", "a secret"],
)
def test_what_cannot_be_read_in_the_folder_the_engine_is_asked_for(engine, fake_program, keep, state):
    keep(None, **state)
    fake_program.answer("stack output", json.dumps({"namespace": "athanor"}))
    assert engine.outputs() == {"namespace": "athanor"}


@pytest.mark.parametrize("url", ["s3://bucket", "file://~/x", "file:///x?no_tmp_dir=true"])
def test_the_state_of_another_backend_is_the_engines_business(engine, fake_program, keep, monkeypatch, url):
    keep(_with_outputs(namespace="wrong"))
    monkeypatch.setenv("PULUMI_BACKEND_URL", url)
    fake_program.answer("stack ls", _stacks("dev"))
    assert not engine.exists()


def test_another_teams_stack_is_the_engines_business(fake_program, keep, tmp_path):
    keep(_with_outputs(namespace="wrong"))
    fake_program.answer("stack output", json.dumps({"namespace": "theirs"}))
    theirs = Engine(pulumi=fake_program.path, stack="org/athanor/local", project=tmp_path)
    assert theirs.outputs() == {"namespace": "theirs"}


def test_a_stack_without_an_update_has_no_outputs(engine, keep):
    keep(None)
    assert engine.exists()
    assert engine.outputs() == {}


def test_it_runs_in_the_project_with_its_own_state(engine, fake_program, home, tmp_path):
    fake_program.answer("stack output", json.dumps({"namespace": "athanor"}))
    assert engine.outputs() == {"namespace": "athanor"}
    [call] = fake_program.calls
    assert call["cwd"] == str(tmp_path)
    assert call["env"]["PULUMI_BACKEND_URL"] == f"file://{home}/pulumi?metadata=skip"
    assert call["words"][-1] == "--non-interactive"
    assert "stack output" in (home / "logs" / "pulumi-local.log").read_text()


def _dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def _lock(pid: int, host: str = "") -> str:
    owner = f"me@{host or platform.node()} (pid {pid})"
    return f"error: the stack is currently locked by 1 lock(s)\n  lock.json: created by {owner} at now"


def test_the_lock_of_a_killed_run_is_freed(engine, fake_program):
    fake_program.answer("up --yes", stderr=_lock(_dead_pid()), status=255, once=True)
    fake_program.answer("cancel --yes")
    fake_program.answer("up --yes")
    engine.up()
    assert [line.split()[0] for line in fake_program.lines] == ["up", "cancel", "up"]


@pytest.mark.parametrize("failure", ["alive", "elsewhere", "mixed", "no lock"])
def test_the_lock_of_a_run_that_may_be_alive_and_any_other_failure_are_raised_at_once(engine, fake_program, failure):
    said = {
        "alive": [_lock(os.getpid())],
        "elsewhere": [_lock(_dead_pid(), "another-machine")],
        "mixed": [_lock(_dead_pid()), _lock(os.getpid())],
        "no lock": ["error: something else"],
    }
    fake_program.answer("destroy", stderr="\n".join(said[failure]), status=255)
    with pytest.raises(CommandError, match="something else" if failure == "no lock" else "currently locked"):
        engine.destroy()
    assert len(fake_program.lines) == 1


@pytest.mark.parametrize("file", [None, "/team/passphrase"])
def test_a_wrong_passphrase_is_named_with_where_it_is_from(engine, fake_program, home, monkeypatch, file):
    if file:
        monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE_FILE", file)
    said = "error: getting secrets manager: incorrect passphrase, please set PULUMI_CONFIG_PASSPHRASE to the correct"
    fake_program.answer("refresh", stderr=said, status=255)
    with pytest.raises(RefusalError) as refused:
        engine.read_again(["urn"])
    assert f"passphrase = '{file or home / 'passphrase'}': is not the one" in str(refused.value)
    assert "of stack local are encrypted with. Fix: set PULUMI_CONFIG_PASSPHRASE_FILE" in str(refused.value)


def test_forgetting_drops_state_and_salt_and_touches_no_resource(engine, fake_program, tmp_path):
    (tmp_path / "Pulumi.local.yaml").write_text("config: {}\n" + SALT)
    fake_program.answer("stack ls", _stacks("local"))
    fake_program.answer("stack rm --force --yes --preserve-config")
    engine.forget()
    assert not any(line.startswith("destroy") for line in fake_program.lines)
    assert (tmp_path / "Pulumi.local.yaml").read_text() == "config: {}\n"
