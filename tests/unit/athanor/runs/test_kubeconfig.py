"""A kubeconfig that is copied: relative files and commands mean what they mean to kubectl."""

from __future__ import annotations

import json
import subprocess

from athanor.runs.kubeconfig import kubeconfig_files, standing_alone


def _view(user: dict) -> str:
    return json.dumps({"kind": "Config", "users": [{"name": "me", "user": user}]})


def _user(text: str) -> dict:
    [entry] = json.loads(text)["users"]
    return entry["user"]


def _write(folder, name: str, users: tuple[str, ...]):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"users": [{"name": each, "user": {}} for each in users]}), encoding="utf-8")
    return folder / name


def test_a_token_is_read_next_to_the_file_that_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = [tmp_path / "gone", _write(tmp_path, "a/config", ("you",)), _write(tmp_path, "b/config", ("you", "me"))]
    files += [_write(tmp_path, "c/config", ("me",))]
    for written, read in (("token", "b/token"), ("../x/t", "x/t"), ("/var/token", "/var/token")):
        user = _user(standing_alone(_view({"tokenFile": written}), files, tmp_path))
        assert user == {"tokenFile": str(tmp_path / read)}
    relative = [_write(tmp_path, "d/config", ("me",)).relative_to(tmp_path)]
    user = _user(standing_alone(_view({"tokenFile": "token"}), relative, tmp_path))
    assert user["tokenFile"] == str(tmp_path / "d" / "token")


def test_a_command_is_found_and_run_as_kubectl_does(tmp_path):
    file = _write(tmp_path, "kube/config", ("me",))
    here = tmp_path / "where I work"
    here.mkdir()
    (here / "token").write_text("of here", encoding="utf-8")
    for place, words in (("kube/bin/login", "bin/login"), ("kube/login", "./login")):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("#!/bin/sh\nprintf '%s|' \"$@\"; cat token\n", encoding="utf-8")
        (tmp_path / place).chmod(0o755)
        asked = {"command": words, "args": ["a b", "$HOME"], "apiVersion": "v1", "env": [{"name": "A", "value": "1"}]}
        command = _user(standing_alone(_view({"exec": asked}), [file], here))["exec"]
        said = subprocess.run(
            [command["command"], *command["args"]], cwd="/", capture_output=True, text=True, check=True
        )
        assert said.stdout == "a b|$HOME|of here"
        assert (command["apiVersion"], command["env"]) == ("v1", [{"name": "A", "value": "1"}])
    by_name = _user(standing_alone(_view({"exec": {"command": "cat", "args": ["token"]}}), [file], here))["exec"]
    assert (
        subprocess.run([by_name["command"], *by_name["args"]], cwd="/", capture_output=True, check=True).stdout
        == b"of here"
    )


def test_all_else_stays(tmp_path):
    other = {"name": "c", "cluster": {"server": "https://c", "proxy-url": "socks5://p", "tls-server-name": "n"}}
    user = {"as": "somebody", "auth-provider": {"name": "oidc"}}
    view = {"clusters": [other], "users": [{"name": "me", "user": user}], "current-context": "c"}
    assert json.loads(standing_alone(json.dumps(view), [tmp_path], tmp_path)) == view
    assert json.loads(standing_alone(json.dumps({"users": None}), [tmp_path], tmp_path)) == {"users": None}


def test_the_files_are_those_of_kubectl(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    names = [str(file) for file in kubeconfig_files(None, {"KUBECONFIG": ":/a::/b:"})]
    assert names == ["/a", "/b"]
    assert [*map(str, kubeconfig_files("/c", {"KUBECONFIG": "/a"}))] == ["/c"]
    assert kubeconfig_files(None, {"KUBECONFIG": ""}) == [tmp_path / ".kube" / "config"]
