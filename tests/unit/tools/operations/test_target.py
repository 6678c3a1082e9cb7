"""Where a question is asked: a stack's own cluster, or the one that the command line names."""

import json
from pathlib import Path

import pytest

from infra.errors import RefusalError
from tools.operations import target
from tools.operations.target import Place, resolve

OUTPUTS = {
    "contract_version": 1,
    "namespace": "of-the-stack",
    "queue": "training",
    "data_claim": "d",
    "output_claim": "o",
    "trainer_image": "i",
    "tensorflow_image": "t",
}


@pytest.fixture(autouse=True)
def local(monkeypatch, own_folders, fake_program) -> Path:
    """The kubeconfig of a local cluster that runs."""
    monkeypatch.setattr(target, "ensure", lambda names, _: dict.fromkeys(names, fake_program.path))
    (own_folders / "local").mkdir(parents=True)
    (own_folders / "local" / "kubeconfig").touch()
    return own_folders / "local" / "kubeconfig"


@pytest.fixture
def users(tmp_path) -> Path:
    file = tmp_path / "users-kubeconfig"
    file.touch()
    return file


def made(fake_program) -> None:
    fake_program.answer("stack output", json.dumps(OUTPUTS))
    fake_program.answer("config get-contexts --output=name", "dev-cluster\nprod-cluster\n")


NAMESPACE = "get --raw /api/v1/namespaces/athanor"
NOT_FOUND = {"stderr": 'Error from server (NotFound): namespaces "athanor" not found', "status": 1}


def test_the_local_stack_has_its_cluster_whose_namespace_no_engine_is_asked_for(fake_program, report, local, users):
    fake_program.answer(NAMESPACE, "{}")
    resolved = resolve(Place(stack="local"), report.progress, {"KUBECONFIG": str(users)})
    assert resolved.kubectl.kubeconfig == local, "not the shell's"
    assert (resolved.kubectl.context, resolved.namespace, resolved.local) == ("athanor-local", "athanor", True)
    assert [line.endswith(NAMESPACE) for line in fake_program.lines] == [True]


@pytest.mark.parametrize(
    ("engine_says", "namespace"),
    [
        pytest.param({"stdout": json.dumps(OUTPUTS)}, "of-the-stack", id="the settings name another since the last up"),
        pytest.param({"stderr": "error: no stack named 'local' found", "status": 1}, "athanor", id="never made"),
        pytest.param({"stderr": "error: the backend does not answer", "status": 1}, None, id="the engine fails"),
    ],
)
def test_where_the_settings_namespace_is_not_there_the_engine_is_asked(fake_program, report, engine_says, namespace):
    fake_program.answer(NAMESPACE, **NOT_FOUND)
    fake_program.answer("stack output", **engine_says)
    if namespace:
        assert resolve(Place(stack="local"), report.progress, {}).namespace == namespace
    else:
        with pytest.raises(RuntimeError, match="does not answer"):
            resolve(Place(stack="local"), report.progress, {})


def test_a_local_cluster_that_is_down_is_reported(report, local):
    local.unlink()
    with pytest.raises(RefusalError, match=r"no kubeconfig yet .* `make up`"):
        resolve(Place(stack="local"), report.progress, {})


@pytest.mark.parametrize(
    ("stack", "context"), [("dev", "dev-cluster"), ("org/athanor/prod", "prod-cluster"), ("local", "dev-cluster")]
)
def test_a_stack_in_a_cluster_that_is_named_is_asked_with_the_users_own_credentials(
    *, fake_program, report, users, stack, context
):
    made(fake_program)
    resolved = resolve(Place(stack=stack, context=context, kubeconfig=str(users)), report.progress, {})
    assert (resolved.kubectl.kubeconfig, resolved.kubectl.context) == (users, context)
    assert (resolved.namespace, resolved.local) == ("of-the-stack", False)
    assert any(f"--stack {stack}" in line for line in fake_program.lines)


def test_the_shells_kubeconfig_counts_for_a_cloud_stack(fake_program, report, users):
    made(fake_program)
    resolved = resolve(Place(stack="dev", context="dev-cluster"), report.progress, {"KUBECONFIG": str(users)})
    assert resolved.kubectl.kubeconfig == users


def test_of_several_kubeconfigs_the_one_with_the_context_counts(fake_program, report, users, tmp_path):
    other = tmp_path / "other"
    other.touch()
    fake_program.answer(f"--kubeconfig={other} config", "dev-cluster\n")
    fake_program.answer(f"--kubeconfig={users} config", "prod-cluster\n")
    place = Place(namespace="team", kubeconfig=f"{users}:{other}", context="dev-cluster")
    assert resolve(place, report.progress, {}).kubectl.kubeconfig == other


def test_another_team_names_all_three_and_needs_no_engine(fake_program, report, users):
    fake_program.answer("config get-contexts", "dev-cluster\n")
    place = Place(kubeconfig=str(users), context="dev-cluster", namespace="team")
    resolved = resolve(place, report.progress, {})
    assert (resolved.namespace, resolved.local) == ("team", False)
    assert all("config get-contexts" in line for line in fake_program.lines)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place(stack="dev", context="dev-cluster", kubeconfig="/none"), r"KUBECONFIG = '/none'.*a stack's out"),
        (Place(stack="dev"), r"CONTEXT = None: .*CONTEXT= to one of dev-cluster, prod-cluster"),
        (Place(stack="dev", context="dev-clustr"), r"CONTEXT = 'dev-clustr'.*did you mean dev-cluster, prod"),
        (Place(stack="dve", kubeconfig="/none"), r"STACK = 'dve': has no Pulumi.dve.yaml, .*did you mean dev"),
        (Place(context="dev-cluster"), r"namespace = None.*--namespace"),
    ],
)
def test_what_is_missing_is_said(fake_program, report, users, place, words):
    made(fake_program)
    fake_program.answer("stack ls", "[]")
    with pytest.raises(RefusalError, match=words):
        resolve(place, report.progress, {"KUBECONFIG": str(users)})


def test_a_cloud_stack_without_outputs_is_reported(fake_program, report, users):
    fake_program.answer("stack output", "{}")
    fake_program.answer("config get-contexts", "dev-cluster\n")
    with pytest.raises(RefusalError, match=r"has no outputs .* `pulumi up -s dev` first"):
        resolve(Place(stack="dev", context="dev-cluster"), report.progress, {"KUBECONFIG": str(users)})
