"""Code from a folder: what is sent, what is refused, and that every pod gets the same bytes."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from infra.errors import RefusalError
from tests.pod_security import violations
from tests.recording_engine import Secret, record
from tests.tables import each_row
from tests.unit.workloads.job_cases import RESOLVED, manifest_of, plain_platform, pod
from workloads import folder_archive
from workloads.folder_archive import MAXIMUM_BYTES
from workloads.git_source import CODE_PATH
from workloads.local_folder import LocalFolder, config_map_manifests
from workloads.owner import owner_label
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.unpack_folder import unpack


def _write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _packed(folder: Path) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(LocalFolder(path=str(folder)).archive.content)) as archive:
        return set(archive.getnames())


def _refusal(folder: Path) -> str:
    with pytest.raises(RefusalError) as caught:
        _ = LocalFolder(path=str(folder)).archive
    return str(caught.value)


def _args(folder: Path, **changes: object) -> PyTorchJobArgs:
    return PyTorchJobArgs(program=("train.py",), workers=2, source=LocalFolder(path=str(folder)), **changes)


def _name(folder: Path) -> str:
    args = _args(folder)
    return manifest_of(args)["metadata"]["name"]


@pytest.mark.parametrize(
    ("files", "sent"),
    [
        ({"train.py": "", "lib/a.py": ""}, {"train.py", "lib/a.py"}),
        ({".gitignore": "*.bin\n!keep.bin\n", "a.bin": "", "keep.bin": ""}, {".gitignore", "keep.bin"}),
        ({"lib/.gitignore": "/out\n", "lib/out/x": "", "out/x": ""}, {"lib/.gitignore", "out/x"}),
        # of the two, .athanorignore decides
        ({".gitignore": "big\n", ".athanorignore": "!big\n", "big": ""}, {".gitignore", ".athanorignore", "big"}),
        ({".athanorignore": "notes/\n", "notes/a": "", "a": ""}, {".athanorignore", "a"}),
        # also where git's is deeper
        (
            {".athanorignore": "*.big\n", "lib/.gitignore": "!*.big\n", "lib/a.big": ""},
            {".athanorignore", "lib/.gitignore"},
        ),
        (
            {".athanorignore": "!*.big\n", "lib/.gitignore": "*.big\n", "lib/a.big": ""},
            {".athanorignore", "lib/.gitignore", "lib/a.big"},
        ),
        (
            {".athanorignore": "*.big\n", "lib/.athanorignore": "!a.big\n", "lib/a.big": "", "b.big": ""},
            {".athanorignore", "lib/.athanorignore", "lib/a.big"},
        ),
        # git's own rule: nothing in a folder that is left out can be taken in
        ({".gitignore": "out/\n!out/a\n", "out/a": "", "b": ""}, {".gitignore", "b"}),
        ({"a.py": "", "__pycache__/a.pyc": "", ".venv/bin/python": "", ".git/config": ""}, {"a.py"}),
        ({".athanorignore": "!.venv/\n", ".venv/a": ""}, {".athanorignore", ".venv/a"}),
    ],
)
def test_what_the_ignore_files_name_is_left_out(tmp_path, files, sent):
    assert _packed(_write(tmp_path, files)) == sent


def test_the_rules_of_the_repository_around_the_folder_apply(tmp_path):
    _write(tmp_path, {".git/HEAD": "", ".gitignore": "*.bin\n/scratch/\n", "code/a.bin": "", "code/b.py": ""})
    assert _packed(tmp_path / "code") == {"b.py"}
    # unless they leave out the very folder that was named
    _write(tmp_path, {"scratch/a.bin": "", "scratch/b.py": ""})
    assert _packed(tmp_path / "scratch") == {"a.bin", "b.py"}


@pytest.mark.parametrize(
    "name", [".env", ".env.local", "deploy/id_ed25519", "team.kubeconfig", "tls.key", "service-account-ci.json"]
)
def test_a_file_that_looks_like_a_secret_is_refused_until_it_is_left_out_or_insisted_on(tmp_path, name):
    _write(tmp_path, {"train.py": "", name: "hunter2"})
    message = _refusal(tmp_path)
    assert f"source.path = '{name}'" in message
    assert "looks like a secret" in message
    assert "hunter2" not in message
    (tmp_path / ".athanorignore").write_text(f"/{name}\n", encoding="utf-8")
    assert name not in _packed(tmp_path)
    (tmp_path / ".athanorignore").write_text(f"!/{name}\n", encoding="utf-8")
    assert name in _packed(tmp_path)


@pytest.mark.parametrize("name", [".env.example", "keyboard.py", "secrets.py", "environment.yaml", "monkey"])
def test_a_name_that_only_resembles_one_is_sent(tmp_path, name):
    assert _packed(_write(tmp_path, {name: ""})) == {name}


def test_links_inside_the_folder_are_sent_and_others_refused(tmp_path):
    folder = _write(tmp_path / "code", {"lib/a.py": "1"})
    (folder / "a.py").symlink_to("lib/a.py")
    (folder / "again").symlink_to("lib")
    assert _packed(folder) == {"a.py", "again", "lib/a.py"}
    for target, words in (
        ("../outside", "does not exist in the pods"),
        ("gone", "which does not exist"),
        ("link", "which does not exist"),
    ):
        (tmp_path / "outside").touch()
        (folder / "link").symlink_to(target)
        assert f"source.path = 'link': links to {target}" in _refusal(folder)
        assert words in _refusal(folder)
        (folder / "link").unlink()
    (folder / "link").symlink_to(folder / "lib" / "a.py")
    assert "copy its target" in _refusal(folder)


@each_row(
    ("links", "refused"),
    [
        ({"data": "cache"}, "links to cache, which is not sent"),
        ({"data": "cache/a.bin"}, "links to cache/a.bin, which is not sent"),
        ({"data": "./lib/../cache"}, "links to ./lib/../cache, which is not sent"),
        ({"data": "lib/again", "lib/again": "../cache"}, "which is not sent"),
        ({"data": "empty"}, "links to empty, which is not sent"),
        ({"data": "lib", "more": "data/a.py", "lib/up": "../lib"}, None),
        ({"data": "."}, None),
    ],
)
def test_a_link_to_what_is_left_out_is_refused(tmp_path, links, refused):
    folder = tmp_path / f"to-{'+'.join(links.values())}".replace("/", "_")
    _write(folder, {".gitignore": "cache/\n", "cache/a.bin": "", "lib/a.py": "", "empty/x/.venv/y": ""})
    for name, target in links.items():
        (folder / name).symlink_to(target)
    if refused is None:
        assert set(links) <= _packed(folder)
    else:
        assert refused in _refusal(folder)


def test_what_is_left_out_by_gits_rules_is_said(tmp_path):
    files = {
        ".gitignore": "*.bin\nout/\n__pycache__/\nREADME\n*.one\n*.two\n", ".athanorignore": "*.mine\n", "a.py": "",
        "a.bin": "x" * 2048, "deep/b.bin": "x" * 1024, "out/c.bin": "", "out/d.log": "x" * 3 * 1024**2, "e.mine": "x",
        "__pycache__/a.pyc": "x" * 9, "README": "x" * 512, "f.one": "x", "g.two": "xx", "out/__pycache__/h.pyc": "",
    }  # fmt: skip
    archive = LocalFolder(path=str(_write(tmp_path, files))).archive
    said = "1 *.log (3.0 MiB), 3 *.bin (3.0 KiB), 1 README (0.5 KiB), 3 of other kinds (0.0 KiB)"
    assert archive.left_out == said
    assert LocalFolder(path=str(_write(tmp_path / "other", {"a.py": ""}))).archive.left_out == ""


def test_neither_pipes_nor_nothing_are_sent(tmp_path):
    assert "has no files" in _refusal(tmp_path)
    assert "or omit source if the program is in the image" in _refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "'pipe': is neither a file" in _refusal(tmp_path)


def test_the_folder_needs_no_name(tmp_path, monkeypatch):
    _write(tmp_path, {"train.py": ""})
    monkeypatch.chdir(tmp_path)
    assert LocalFolder(".") == LocalFolder(path=".") == LocalFolder()
    assert LocalFolder(".").archive.names == {"train.py"}
    with pytest.raises(RefusalError, match=r"source\.path = 1: must be a string"):
        LocalFolder(1)


@each_row("path", ["gone", "", "x" * 140_000, "a\0b", "\ud800"])
def test_what_is_not_a_folder_is_refused(path):
    with pytest.raises(RefusalError, match="is not a folder"):
        LocalFolder(path=path)


def test_what_is_too_large_is_refused_with_the_largest_files(tmp_path, monkeypatch):
    _write(tmp_path, {"train.py": ""})
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(MAXIMUM_BYTES)
    message = _refusal(tmp_path)
    assert "the largest: weights.bin (8.0 MiB)" in message
    ways = (".athanorignore", "`athanor copy FOLDER data:`", "--volume", "--image", "--no-code", "program GitSource")
    assert [way for way in ways if way not in message] == []
    monkeypatch.setattr(folder_archive, "_MOST_ENTRIES", 1)
    assert "has more than 1 files" in _refusal(tmp_path)


def test_the_same_content_is_the_same_job_and_a_change_another(tmp_path):
    first = _write(tmp_path / "one", {"train.py": "print(1)", "lib/a.py": ""})
    second = _write(tmp_path / "two", {"lib/a.py": "", "train.py": "print(1)"})
    os.utime(second / "train.py", (0, 0))
    assert _name(first) == _name(second)
    before = _name(second)
    (second / "train.py").chmod(0o755)
    assert _name(second) != before
    _write(second, {"train.py": "print(2)"})
    assert _name(second) != before


def test_the_pods_unpack_what_was_packed(tmp_path):
    folder = _write(tmp_path / "code", {"train.py": "print(1)", "lib/größe.py": "x" * 2_500_000})
    (folder / "link.py").symlink_to("train.py")
    (folder / "train.py").chmod(0o755)
    source = LocalFolder(path=str(folder))
    maps = config_map_manifests(source, "job", "me", "athanor")
    assert [len(part["binaryData"]) for part in maps] == [1, 1, 1]
    parts = tmp_path / "parts"
    parts.mkdir()
    for part in maps:
        for key, content in part["binaryData"].items():
            (parts / key).write_bytes(base64.b64decode(content))
    destination = _write(tmp_path / "there", {"half": ""})
    assert unpack(parts, source.archive.digest, destination) == 3
    assert not (destination / "half").exists()
    assert (destination / "lib/größe.py").stat().st_size == 2_500_000
    assert (destination / "link.py").readlink() == Path("train.py")
    assert os.access(destination / "train.py", os.X_OK)
    (parts / "part-001").write_bytes(b"other")
    with pytest.raises(SystemExit, match="somebody changed or deleted a ConfigMap"):
        unpack(parts, source.archive.digest, destination)


def test_every_pod_unpacks_before_anything_else_and_starts_there(tmp_path):
    _write(tmp_path, {"train.py": "print(1)"})
    args = _args(tmp_path, minimum_workers=1, prepare=("python3", "prepare.py"))
    manifest = manifest_of(args)
    spec = pod(manifest, "worker")
    steps = {step["name"]: step for step in spec["initContainers"]}
    assert list(steps) == ["unpack", "prepare", "wait"]
    assert steps["unpack"]["image"] == "trainer:1"
    assert steps["prepare"]["workingDir"] == spec["containers"][0]["workingDir"] == CODE_PATH
    assert "unpack" not in json.dumps(pod(manifest, "rendezvous"))
    assert violations(spec) == []
    names = [part["configMap"]["name"] for part in _volume(spec, "code")["projected"]["sources"]]
    declared = config_map_manifests(args.source, "job", RESOLVED.owner, "athanor")
    assert names == [each["metadata"]["name"] for each in declared]


def test_the_program_that_is_sent_along_runs(tmp_path):
    source = LocalFolder(path=str(_write(tmp_path / "code", {"train.py": "print(1)"})))
    args = PyTorchJobArgs(program=("train.py",), workers=1, source=source)
    manifest = manifest_of(args)
    [step] = pod(manifest, "worker")["initContainers"]
    [part] = config_map_manifests(source, "job", "me", "athanor")
    (tmp_path / "part-000").write_bytes(base64.b64decode(part["binaryData"]["part-000"]))
    words = [*step["command"][1:3], str(tmp_path), step["command"][4], str(tmp_path / "there")]
    subprocess.run([sys.executable, *words], check=True)
    assert (tmp_path / "there" / "train.py").read_text(encoding="utf-8") == "print(1)"


def _volume(spec: dict, name: str) -> dict:
    return next(volume for volume in spec["volumes"] if volume["name"] == name)


def test_the_state_has_the_code_encrypted_and_the_job_waits_for_it(tmp_path):
    folder = _write(tmp_path, {"train.py": "print(1)"})

    def program() -> None:
        PyTorchJob("train", plain_platform(), _args(folder))

    recording = record(program, preview=False)
    [code] = recording.of_kind("ConfigMap")
    assert isinstance(code.inputs["binaryData"], Secret)
    assert code.inputs["immutable"] is True
    assert owner_label("athanor", "local") in code.inputs["metadata"]["name"]
    [job] = recording.of_kind("Job")
    assert code.urn in job.depends_on
    assert len(recording.of_kind("NetworkPolicy")) == 1


def test_a_job_whose_code_is_in_its_image_has_none_of_this():
    args = PyTorchJobArgs(program=("train.py",), workers=2)
    manifest = manifest_of(args)
    assert pod(manifest, "worker")["initContainers"] == []
