"""Migration from arena: `athanor run --from-arena '…'` translates the flags of `arena submit` into its own options.

Source: kubeflow/arena 0.15.5 (e30882c1, July 2026), pkg/argsbuilder/submit*.go: the flags of `arena submit tfjob`,
`mpijob`, `horovodjob` and `pytorchjob`.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infra.errors import RefusalError, choices
from infra.job_source import COMMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPTION = "--from-arena"
_KINDS = {
    **dict.fromkeys(("tf", "tfjob"), "tensorflow"),
    **dict.fromkeys(("mpi", "mj", "mpijob", "horovod", "hj", "horovodjob"), "mpi"),
    **dict.fromkeys(("pytorch", "pytorchjob"), "pytorch"),
}
_SHORT = {"-e": "env", "-d": "data", "-p": "priority", "-n": "namespace", "-l": "label", "-a": "annotation"}
FLAGS = {
    "name": "name",
    "image": "image",
    "worker-image": "image",
    "workers": "workers",
    "gpus": "gpus",
    "cpu": "cpu",
    "worker-cpu": "cpu",
    "memory": "memory",
    "worker-memory": "memory",
    "ps": "ps",
    "ps-cpu": "ps-cpu",
    "ps-memory": "ps-memory",
    "env": "env",
    "data": "volume",
    "selector": "selector",
    "worker-selector": "selector",
    "toleration": "toleration",
    "priority": "priority",
    "share-memory": "shared-memory",
    "running-timeout": "deadline",
    "nproc-per-node": "processes",
    "namespace": "namespace",
}
"""Equivalent options by arena's flags."""
_BRANCH = "master"
"""Default branch of git-sync 3, which arena starts (kubernetes/git-sync v3, cmd/git-sync/main.go, GIT_SYNC_BRANCH)."""
_QUOTED = re.compile(r"""(?P<quote>['"])(?P<text>[^'"]*\s[^'"]*)(?P=quote)""")
_OF_GIT = {"sync-mode", "sync-source", "working-dir"}
_LEFT_OUT = {
    **dict.fromkeys(("tensorboard", "logdir", "tensorboard-image"), "`athanor tensorboard RUN` shows a run's files"),
    **dict.fromkeys(("label", "annotation"), "in a Pulumi program, the classes have labels"),
    **dict.fromkeys(("retry", "job-backoff-limit", "job-restart-policy"), "see `athanor run --help` for restarts"),
    **dict.fromkeys(("ps-port", "worker-port", "chief-port", "evaluator-port", "port"), "the job has ports of its own"),
    **dict.fromkeys(("gang", "scheduler", "queue"), "all pods of a job start together, when its queue has room"),
    **dict.fromkeys(("worker-cpu-limit", "worker-memory-limit"), "--cpu and --memory are what a pod gets"),
    **dict.fromkeys(("ps-cpu-limit", "ps-memory-limit"), "--ps-cpu and --ps-memory are what a pod gets"),
    **dict.fromkeys(("chief-cpu", "chief-memory", "chief-cpu-limit", "chief-memory-limit"), "the chief is a worker"),
    **dict.fromkeys(
        ("worker-affinity-policy", "worker-affinity-constraint"),
        "the platform places pods of a job close together where it knows the topology",
    ),
    **dict.fromkeys(
        ("ps-affinity-policy", "ps-affinity-constraint"),
        "the platform places pods of a job close together where it knows the topology",
    ),
    **dict.fromkeys(("model-name", "model-source"), "models are published into the model repository"),
    "shell": "the command runs without a shell, unless it begins with one",
    "success-policy": "the kind of job decides when it has succeeded",
    **dict.fromkeys(("clean-task-policy", "ttl-after-finished"), "the platform cleans up"),
    **dict.fromkeys(("sync-image", "image-pull-policy", "image-pull-secret"), "the platform's settings have these"),
    **dict.fromkeys(
        ("rdma", "gputopology", "mounts-on-launcher", "host-network"), "the pool and the kind of job decide"
    ),
    **dict.fromkeys(("chief", "ps-image", "role-sequence", "starting-timeout"), "the job decides"),
    **dict.fromkeys(("loglevel", "pprof", "trace", "arena-namespace", "config"), "of arena itself"),
}
"""Flags that mean nothing here, with what to know instead."""
_SWITCHES = {
    "tensorboard",
    "gang",
    "rdma",
    "gputopology",
    "queue",
    "host-network",
    "host-ipc",
    "host-pid",
    "mounts-on-launcher",
    "chief",
    "pprof",
    "trace",
    "evaluator",
}
"""Flags without a value."""
_REFUSED = {
    "data-dir": "copy the folder to a volume with `athanor copy`, or mount a claim with --data NAME:PATH",
    "ps-gpus": "omit it: parameter servers do no work that a GPU would speed up",
    "evaluator": "declare the job in a Pulumi program, whose TensorFlowJobArgs has an evaluator",
    **dict.fromkeys(("ps-selector", "chief-selector"), "write --selector, which holds for all pods of the job"),
    **dict.fromkeys(("host-ipc", "host-pid"), "omit it: pods of jobs share no resources of the host"),
    "device": "write --gpus; other devices need a Pulumi program",
    "config-file": "create a Secret with its content, and mount that: athanor run --secret NAME:/PATH",
}


@dataclass
class _Arena:
    """A parsed arena command."""

    options: list[str] = field(default_factory=list[str])
    git: dict[str, str] = field(default_factory=dict[str, str])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Variables of git-sync."""
    environment: list[str] = field(default_factory=list[str])
    """Variables of the program, as NAME=VALUE."""
    left_out: list[str] = field(default_factory=list[str])
    command: list[str] = field(default_factory=list[str])


def with_arena(words: Sequence[str]) -> list[str]:
    """Return the words of `athanor run` with those of an arena command in front, so that options that were typed win.

    Raises:
        RefusalError: the command is none that could run, or has a flag that cannot be translated.
    """
    end = words.index("--") if "--" in words else len(words)
    only = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    only.add_argument(_OPTION)
    known, rest = only.parse_known_args(words[:end])
    if known.from_arena is None:
        return list(words)
    from athanor.run.shell_words import shell_words  # noqa: PLC0415 - the classes of jobs, which other commands spare

    pasted = list(shell_words(_OPTION, known.from_arena))
    if pasted[:1] == ["arena"]:
        del pasted[0]
    if len(pasted) < 2 or pasted[0] != "submit" or pasted[1] not in _KINDS:
        fix = "write 'arena submit tfjob|mpijob|pytorchjob … \"COMMAND\"'"
        raise RefusalError(_OPTION, known.from_arena, "is not a training job of arena", fix)
    said = _read(pasted[2:])
    if said.left_out:
        sys.stderr.write(f"ignored in arena's command: {'; '.join(said.left_out)}\n")
    behind = words[end:] if end < len(words) else ["--", _command(said)]
    variables = [f"--env={_at_its_place(said, value)}" for value in said.environment]
    return [f"--kind={_KINDS[pasted[1]]}", *said.options, *variables, *_git(said), *rest, *behind]


def _read(words: list[str]) -> _Arena:
    said = _Arena()
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            said.command += waiting
            break
        if not word.startswith("-"):
            said.command.append(word)
            continue
        typed, equals, value = word.partition("=")
        flag = _SHORT.get(typed) or re.sub(r"(?<=[a-z])[A-Z]", lambda m: f"-{m[0]}", typed.lstrip("-")).lower()
        if not equals and flag not in _SWITCHES:
            if not waiting:
                raise RefusalError(_OPTION, word, "has no value", f"write {word}=VALUE")
            value = waiting.pop(0)
        _take(said, flag, value)
    return said


def _take(said: _Arena, flag: str, value: str) -> None:
    if flag in _REFUSED:
        raise RefusalError(_OPTION, f"--{flag}", "cannot be translated", _REFUSED[flag])
    if flag in _OF_GIT:
        said.git[flag] = value
    elif flag in _LEFT_OUT:
        said.left_out.append(f"--{flag} ({_LEFT_OUT[flag]})")
    elif flag not in FLAGS:
        raise RefusalError(
            _OPTION, f"--{flag}", "is not a flag that can be translated", choices(flag, [*FLAGS, *_OF_GIT])
        )
    elif flag == "env" and value.startswith("GIT_SYNC_"):
        name, _, content = value.partition("=")
        said.variables[name] = content
    elif flag == "toleration":
        said.options.append(f"--toleration={_toleration(value)}")
    elif flag == "env":
        said.environment.append(value)
    else:
        said.options.append(f"--{FLAGS[flag]}={value}")


def _toleration(value: str) -> str:
    """Return a toleration, which arena writes as key=value:effect,operator."""
    taint, _, operator = value.partition(",")
    if taint == "all":
        raise RefusalError(_OPTION, "--toleration=all", "cannot be translated", "name the taints to tolerate")
    key, _, rest = taint.partition("=")
    return f"{key}{':' * (':' in rest)}{rest.rpartition(':')[2]}" if operator == "Exists" and rest else taint


def _git(said: _Arena) -> list[str]:
    """Return the options of code from git: with it, the folder here is not sent; arena sends none either."""
    source = said.git.get("sync-source")
    if source is None:
        return ["--no-code"]
    if said.git.get("sync-mode", "git") != "git":
        limit = "is not code in git"
        raise RefusalError(
            _OPTION, f"--sync-mode={said.git['sync-mode']}", limit, "send this folder: omit --sync-source"
        )
    if "GIT_SYNC_USERNAME" in said.variables or "GIT_SYNC_PASSWORD" in said.variables:
        fix = "put both into a Secret of type kubernetes.io/basic-auth, omit them here, and add --git-secret NAME"
        raise RefusalError(_OPTION, "--env=GIT_SYNC_PASSWORD=…", "would be stored in plain text", fix)
    commit, branch = said.variables.get("GIT_SYNC_REV"), said.variables.get("GIT_SYNC_BRANCH")
    if not commit or commit == "HEAD":
        return [f"--git={source}@{branch or _BRANCH}"]
    if not COMMIT.fullmatch(commit):
        limit = "may be a tag, a branch or the beginning of a hash"
        fix = f"write all 40 digits of the commit, or omit it and add --git {source}@tag:NAME"
        raise RefusalError(_OPTION, f"--env=GIT_SYNC_REV={commit}", limit, fix)
    return [f"--git={source}@{commit}"]


def _command(said: _Arena) -> str:
    """Return the command, which may have been quoted twice: once for a shell and once for arena."""
    if not said.command:
        raise RefusalError(_OPTION, "arena submit", "starts nothing", 'write the command at its end: "python train.py"')
    text = " ".join(said.command).strip()
    quoted = _QUOTED.fullmatch(text)
    return _at_its_place(said, quoted["text"] if quoted else text)


def _at_its_place(said: _Arena, text: str) -> str:
    """Return a text with the paths of the code as the job has it: arena puts it into code/REPOSITORY."""
    source = said.git.get("sync-source")
    if source is None:
        return text
    repository = re.escape(source.rstrip("/").rpartition("/")[2].removesuffix(".git"))
    folder = re.escape(said.git.get("working-dir", "/root").rstrip("/"))
    return re.sub(rf"(?<![\w./-])(?:{folder}/|\./)?code/{repository}(?:/|(?=\s|$))", "./", text)
