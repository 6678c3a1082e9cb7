"""Words of commands and values of variables, in which Kubernetes replaces $(NAME) and $$: they arrive as written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row
from tests.unit.workloads.job_cases import RESOLVED, manifest_of
from workloads.batch import BatchJobArgs
from workloads.git_source import GitSource
from workloads.mpi import MPIJobArgs
from workloads.pods import as_written
from workloads.pytorch import PyTorchJobArgs
from workloads.roles import PodArgs
from workloads.tensorflow import ParameterServers, TensorFlowJobArgs

TEXTS = ("pa$$word", "$(HOME)", "$$(HOME)", "echo $$", "$$$", "$", "a$(", "$(A", "$()", "${HOME} $HOME", "$(ls $(pwd))")


def expand(text: str, known: dict[str, str]) -> str:
    """Return a text as a container gets it (k8s.io/kubernetes 1.34, third_party/forked/golang/expansion/expand.go)."""
    result, position = "", 0
    while position < len(text):
        if text[position] != "$" or position + 1 == len(text):
            result += text[position]
            position += 1
            continue
        following = text[position + 1]
        end = text.find(")", position)
        if following == "(" and end >= 0:
            name = text[position + 2 : end]
            # The kubelet leaves a name that it does not know as it is.
            result += known.get(name, f"$({name})")
            position = end + 1
            continue
        result += {"$": "$", "(": "$("}.get(following, f"${following}")
        position += 2
    return result


@given(st.text("$()HOMEx {}", max_size=12))
def test_any_text_arrives_as_written(text):
    assert expand(as_written(text), {"HOME": "/tmp", "": "nothing", "M": "m"}) == text


@given(st.text("$(AB)", max_size=12))
def test_what_stands_around_a_documented_name_arrives_as_written(text):
    assert expand(as_written(f"{text}$(JOB)", "JOB"), {"A": "a", "B": "b", "JOB": "mine"}) == f"{text}mine"


@each_row("text", ["echo $HOME", "a$", "${A}", "plain"])
def test_a_text_that_kubernetes_does_not_touch_stays_in_the_manifest(text):
    """Else each such job would be a changed one, and be replaced."""
    assert as_written(text) == text


def _mpi(words: tuple[str, ...], env: dict[str, str]):
    args = MPIJobArgs(program=("run", *words), mpirun_options=words, workers=2, env=env, prepare=("make", *words))
    return manifest_of(args)


def _pytorch(words: tuple[str, ...], env: dict[str, str]):
    args = PyTorchJobArgs(program=("run.py", *words), workers=2, env=env, prepare=("make", *words))
    return manifest_of(args)


def _elastic(words: tuple[str, ...], env: dict[str, str]):
    args = PyTorchJobArgs(program=("run.py", *words), workers=2, minimum_workers=1, env=env, liveness_probe=True)
    return manifest_of(args)


def _tensorflow(words: tuple[str, ...], env: dict[str, str]):
    servers, other = ParameterServers(env=env), PodArgs(env=env)
    args = TensorFlowJobArgs(
        program=("run", *words), workers=2, env=env, parameter_servers=servers, chief=other, evaluator=other
    )
    return manifest_of(args)


def _batch(words: tuple[str, ...], env: dict[str, str]):
    args = BatchJobArgs(command=("run", *words), pods=2, env=env, working_directory="/app")
    return manifest_of(args)


def _containers(manifest):
    for task in manifest["spec"]["tasks"]:
        spec = task["template"]["spec"]
        yield from ((task["name"], each) for each in (*spec.get("initContainers", ()), *spec["containers"]))


def _arriving(container):
    """Return a container's command and variables as its program gets them."""
    known: dict[str, str] = {"VC_TASK_INDEX": "7", "OTHER": "of a Secret"}
    for each in container["env"]:
        if "value" in each:
            known[each["name"]] = expand(each["value"], known)
    words = [*container.get("command", ()), *container.get("args", ())]
    return [expand(word, known) for word in words], known


@pytest.mark.parametrize("job", [_pytorch, _elastic, _mpi, _tensorflow, _batch])
def test_a_job_gets_its_users_words_and_variables_as_written(job):
    given_env = {f"{letter}{number}": text for number, text in enumerate(TEXTS) for letter in "AZ"}
    manifest = job(TEXTS, given_env)
    seen = {"words": 0, "variables": 0}
    for _role, container in _containers(manifest):
        words, known = _arriving(container)
        if any(text in words for text in TEXTS):
            assert [word for word in words if word in TEXTS] == [*TEXTS] * words.count(TEXTS[0])
            seen["words"] += 1
        if "A0" in known:
            assert {name: known[name] for name in given_env} == given_env
            seen["variables"] += 1
    assert min(seen.values()) > 0


@pytest.mark.parametrize("job", [_pytorch, _mpi, _tensorflow, _batch])
def test_documented_names_stand_for_their_values(job):
    manifest = job(("--name=$(ATHANOR_JOB)", "$(VC_TASK_INDEX)$$"), {"A_RUN": "x-$(ATHANOR_JOB)", "RUN": "$(OTHER)"})
    name = manifest["metadata"]["name"]
    mains = [each for role, each in _containers(manifest) if each["name"] == role]
    commands = [words for words, _ in map(_arriving, mains) if any("--name=" in word for word in words)]
    assert commands
    assert all(f"--name={name}" in words and "7$$" in words for words in commands)
    environments = [known for _, known in map(_arriving, mains) if "A_RUN" in known]
    assert environments
    assert all(known["A_RUN"] == f"x-{name}" and known["RUN"] == "$(OTHER)" for known in environments)


def test_a_git_reference_is_never_a_variable():
    source = GitSource("https://example.com/a.git", branch="$(VC_TASK_INDEX)$$")
    args = BatchJobArgs(command=("run",), source=source)
    manifest = manifest_of(args)
    fetching = [words for words, _ in map(_arriving, (each for _, each in _containers(manifest))) if "-m" in words]
    assert len(fetching) == 2
    assert all("--branch=$(VC_TASK_INDEX)$$" in words for words in fetching)


def test_what_the_platform_starts_is_not_changed_by_kubernetes():
    """Its shells and programs have dollars of their own."""
    args = MPIJobArgs(program=("run",), workers=2)
    manifest = manifest_of(args, RESOLVED)
    [launcher] = [each for role, each in _containers(manifest) if role == each["name"] == "launcher"]
    words, _ = _arriving(launcher)
    assert any('"$@" & child=$!' in word for word in words)
