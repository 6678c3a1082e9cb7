"""An ended job runs again, with the code that is asked for, and nothing else is touched."""

import json

import pytest

from athanor.inspection.objects import JOBS
from athanor.runs import recreate
from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.athanor.inspection.cluster_objects import NAMESPACE, container, job, pod, pod_spec, task
from tools.operations import job_code
from tools.operations import rerun as module
from tools.operations.job_code import Source, fetched_commit
from tools.operations.rerun import Request, code_sentence, job_resources, rerun
from tools.operations.target import Target
from tools.process import CommandError

URN = "urn:pulumi:local::athanor::athanor:workloads:PyTorchJob$kubernetes:batch.volcano.sh/v1alpha1:Job::my-run"
NAME = "my-run-0a1b2c3d"
OLD, NEW = "a" * 40, "b" * 40
REPOSITORY = "https://git.example/team/project.git"
LIST, ONE = f"get {JOBS} -n athanor", f"get {JOBS} {NAME} -n athanor"


def entry(urn: str = URN, **more: object) -> dict[str, object]:
    volcano_job = job()
    inputs = {
        "metadata": {key: volcano_job["metadata"][key] for key in ("name", "namespace", "labels")},
        "spec": volcano_job["spec"],
    }
    return {"urn": urn, "type": "kubernetes:batch.volcano.sh/v1alpha1:Job", "inputs": inputs, **more}


def live(phase: str = "Completed", *, uid: str = "old", git: dict[str, str] | None = None) -> dict:
    """A job as the cluster has it."""
    spec = pod_spec()
    if git:
        words = [f"--{key}={value}" for key, value in {"repository": REPOSITORY, **git}.items()]
        spec["initContainers"] = [{"name": "source", "command": ["python3", "-m", "trainer.source", *words]}]
    volcano_job = job("my-run", task("worker", 2, spec), phase=phase)
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        **volcano_job,
        "metadata": {**volcano_job["metadata"], "uid": uid},
    }


def fetched(of: dict, commit: str) -> dict:
    """A pod of a job that has fetched its code."""
    first_pod = pod(of, phase="Failed", initContainerStatuses=[ended_source(json.dumps({"commit": commit}))])
    first_pod["metadata"]["ownerReferences"] = [{"uid": of["metadata"]["uid"]}]
    return first_pod


def ended_source(message: str) -> dict:
    return container("source", terminated={"exitCode": 0, "message": message})


@pytest.fixture
def cluster(monkeypatch, fake_program):
    """Answer what is asked about jobs and pods, before and after."""
    monkeypatch.setattr(job_code, "LONGEST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(recreate, "_POLL_SECONDS", 0.0)

    def say(before: list[dict], *between: list[dict], after: list[dict], pods: list[list[dict]] | None = None) -> None:
        for jobs in (before, *between):
            fake_program.answer(LIST, json.dumps({"items": jobs}), once=True)
        fake_program.answer(LIST, json.dumps({"items": after}))
        for listed in pods or []:
            fake_program.answer("get pods -n athanor", json.dumps({"items": listed}), once=True)
        fake_program.answer("get pods -n athanor", json.dumps({"items": []}))
        for words in ("auth can-i", "get configmap", "delete ", "create ", "apply ", "patch "):
            fake_program.answer(words)

    return say


@pytest.fixture
def ask(monkeypatch, tmp_path, fake_program, kubectl, report):
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(module, "ensure", lambda names, _: dict.fromkeys(names, fake_program.path))
    monkeypatch.setattr(module, "upstream_manifests", lambda _, **__: None)

    def ask(name: str = "my-run", *, stack: str | None = "local", stacks: tuple[str, ...] = ("local",), **more):
        fake_program.answer("stack ls", json.dumps([{"name": each} for each in stacks]))
        fake_program.answer("stack export", json.dumps({"deployment": {"resources": [entry()]}}))
        fake_program.answer("stack select")
        fake_program.answer("up --yes")
        target = Target(kubectl=kubectl, namespace=NAMESPACE, local=True)
        return rerun(stack, Request(job=name, **more), target, report.progress)

    return ask


def ups(fake_program) -> list[str]:
    return [line for line in fake_program.lines if line.startswith("up ")]


def changes(fake_program) -> list[str]:
    """What was changed in the cluster, without kubectl's own flags."""
    words = [line.split(" ", 2)[2] for line in fake_program.lines if line.startswith("--kubeconfig")]
    return [line for line in words if not line.startswith(("get ", "auth "))]


# --- a job of this project's own stack


@pytest.mark.parametrize(
    ("jobs", "how"),
    [
        pytest.param([live("Completed")], {}, id="done"),
        pytest.param([live("Failed")], {}, id="failed"),
        pytest.param([], {}, id="gone"),
        pytest.param([live()], {"name": NAME}, id="named as in the cluster"),
        pytest.param([live("Running")], {"force": True}, id="running, but forced"),
    ],
)
def test_an_ended_job_is_replaced_alone(ask, cluster, fake_program, jobs, how):
    cluster(jobs, after=[live("", uid="new")])
    again = ask(**how)
    assert (again.name, again.code) == (NAME, "")
    [line] = ups(fake_program)
    assert line.startswith(f"up --yes --skip-preview --target-replace={URN} --target-dependents --stack local")
    assert changes(fake_program) == []


def test_a_job_that_its_program_has_dropped_is_reported_to_be_gone(ask, cluster):
    cluster([live()], after=[])
    with pytest.raises(RefusalError, match="no longer exists: its program does not declare it any more"):
        ask()


def test_after_an_update_that_did_not_create_everything_an_update_comes_first(ask, cluster, fake_program):
    cluster([live()], after=[])
    words = "error: Resource 'a' depends on 'b' which was was not specified in --target list."
    fake_program.answer("up --yes", words, status=255)
    with pytest.raises(
        RefusalError, match=r"the last update did not create\. Fix: run `pulumi up`, and then this again"
    ):
        ask()


def test_a_job_that_runs_is_refused(ask, cluster, fake_program):
    cluster([live("Running")], after=[])
    with pytest.raises(RefusalError, match=r"is Running.*FORCE=1"):
        ask()
    assert ups(fake_program) == changes(fake_program) == []


def test_a_job_that_nobody_has_names_the_near_ones_of_both(ask, cluster):
    other = live()
    other["metadata"]["labels"] = {"athanor.dev/job": "my-rum"}
    cluster([other], after=[])
    with pytest.raises(
        RefusalError, match=r"'athanor' has no such job, and stack 'local' declares none.*my-run, my-rum"
    ):
        ask("my-rnu")


# --- a job of somebody else's program


@pytest.mark.parametrize(
    "where",
    [{"stack": "organization/team/prod"}, {"stack": None}, {"stacks": ("prod",)}],
    ids=["theirs", "none", "new"],
)
def test_a_job_whose_program_is_not_at_hand_is_recreated_as_it_is(ask, cluster, fake_program, where, tmp_path):
    old = live("Failed")
    old["metadata"] |= {"annotations": {"a": "b"}, "resourceVersion": "7", "ownerReferences": [{"uid": "x"}]}
    fields = [
        {"manager": "vc-controller-manager", "operation": "Update", "subresource": "status"},
        {"manager": "pulumi-kubernetes-1a2b", "operation": "Apply"},
    ]
    whole = {**old, "metadata": {**old["metadata"], "managedFields": fields}}
    fake_program.answer(ONE, json.dumps(whole))
    cluster([old], [old], after=[live("", uid="new")])
    assert ask(**where).name == NAME
    assert ups(fake_program) == []
    delete, apply = changes(fake_program)
    assert delete == f"delete {JOBS} {NAME} -n athanor --cascade=foreground --wait=false"
    assert apply.startswith("apply --server-side --field-manager=pulumi-kubernetes-1a2b -f ")
    assert list((tmp_path / "home" / "reruns").iterdir()) == [], "nothing is left once it is there again"


def test_what_was_deleted_is_not_lost(ask, cluster, fake_program, report, tmp_path):
    old = live("Failed")
    old["metadata"]["resourceVersion"] = "7"
    fake_program.answer(ONE, json.dumps(old))
    fake_program.answer("create -f", stderr="quota", status=1)
    cluster([old], after=[])
    with pytest.raises(CommandError, match="quota"):
        ask(stack=None)
    [file] = (tmp_path / "home" / "reruns").iterdir()
    assert f"kubectl create -f {file}" in report.text.replace("\n", "").replace("         ", " ")
    kept = json.loads(file.read_text())
    assert (kept["kind"], kept["spec"]) == ("Job", old["spec"])
    assert set(kept["metadata"]) == {"name", "namespace", "labels"}


@pytest.mark.parametrize("verb", ["delete", "create"])
def test_who_may_not_do_all_of_it_does_nothing(ask, cluster, fake_program, verb):
    fake_program.answer(f"auth can-i {verb}", "no", status=1)
    cluster([live()], after=[])
    with pytest.raises(RefusalError, match=f"this user is not allowed to {verb} jobs there"):
        ask(stack=None)
    assert changes(fake_program) == []


# --- which code


def test_without_a_choice_the_latest_commit_runs_and_both_are_named(ask, cluster, fake_program):
    old, new = live(git={"branch": "main"}), live("", uid="new", git={"branch": "main"})
    cluster([old], after=[new], pods=[[fetched(old, OLD)], [fetched(new, NEW), fetched(old, OLD)]])
    code = ask().code
    assert f"Its code is commit {NEW}, the latest of branch main of {REPOSITORY}; the previous run used {OLD} " in code
    assert "COMMIT=same" in code
    assert changes(fake_program) == []


def test_a_choice_of_before_is_taken_back(ask, cluster, fake_program):
    fake_program.answer("get configmap", f"configmap/{NAME}-source")
    cluster([live(git={"branch": "main"})], after=[live("", uid="new", git={"branch": "main"})])
    assert "not fetched yet: it will be the latest of branch main" in ask().code
    assert changes(fake_program) == [f"delete configmap {NAME}-source -n athanor --ignore-not-found"]


def test_who_may_not_read_configmaps_runs_the_latest(ask, cluster, fake_program):
    """A choice of before goes with the run that it was made for."""
    fake_program.answer("get configmap", stderr="Error from server (Forbidden): configmaps is forbidden", status=1)
    cluster([live(git={"branch": "main"})], after=[live("", uid="new", git={"branch": "main"})])
    assert ask().name == NAME
    with pytest.raises(CommandError, match="Forbidden"):
        ask(commit="same", force=True)


@pytest.mark.parametrize("commit", ["same", OLD])
def test_a_chosen_commit_goes_with_its_run(ask, cluster, fake_program, commit):
    old, new = live(git={"branch": "main"}), live("", uid="new", git={"branch": "main"})
    cluster([old], after=[new], pods=[[fetched(old, OLD)], [fetched(new, OLD)]])
    which = "that of the previous run" if commit == "same" else "the chosen one"
    assert ask(commit=commit).code == f"Its code is commit {OLD}, {which}."
    create, patch = changes(fake_program)
    assert create == f"create configmap {NAME}-source -n athanor --from-literal=commit={commit}"
    assert '"uid": "new"' in patch
    lines = fake_program.lines
    assert lines.index(next(line for line in lines if "create configmap" in line)) < lines.index(ups(fake_program)[0])


@pytest.mark.parametrize(
    ("git", "commit", "words"),
    [
        (None, OLD, "in its image, not in git.*omit COMMIT"),
        ({"commit": NEW}, OLD, f"sets commit {NEW}.*change it there"),
        ({"branch": "main"}, "main", "not a full hash.*git rev-parse"),
    ],
)
def test_what_cannot_be_chosen_is_refused_first(*, ask, cluster, fake_program, git, commit, words):
    cluster([live(git=git)], after=[])
    with pytest.raises(RefusalError, match=words):
        ask(commit=commit)
    assert ups(fake_program) == changes(fake_program) == []


@each_row(
    ("kind", "chosen", "commit", "before", "words"),
    [
        ("branch", None, OLD, OLD, f"commit {OLD}, still the latest of branch x"),
        ("branch", None, NEW, "", "the previous run used an unknown commit"),
        ("branch", "same", "", OLD, f"not fetched yet: it will be that of the previous run, {OLD}."),
        ("branch", NEW, "", OLD, f"it will be the chosen one, {NEW}."),
        ("branch", "same", "", "", "not fetched yet: it will be that of the previous run."),
        ("commit", None, OLD, OLD, f"commit {OLD}, which its program sets."),
        ("commit", None, "", OLD, "it will be commit x, which its program sets."),
    ],
)
def test_what_is_known_of_the_code_is_said(kind, chosen, commit, before, words):
    source = Source(repository=REPOSITORY, kind=kind, name="x")
    assert words in code_sentence(source, Request(job="my-run", commit=chosen), commit, before)


@each_row("message", ["", "no JSON", "[]", '{"commit": 7}', '{"commit": "\\u001b[2J"}', "[" * 100_000])
def test_what_a_pod_says_is_a_commit_or_nothing(message):
    worker = pod(live(), initContainerStatuses=[ended_source(message)])
    assert fetched_commit([worker]) == ""


def test_jobs_are_found_among_all_resources_by_their_names():
    other = {"urn": "urn:x::y::z::ns", "type": "kubernetes:core/v1:Namespace", "inputs": {}}
    unlabelled = {**entry(URN.replace("my-run", "plain")), "inputs": {"metadata": {"name": "plain-1"}}}
    state = {"deployment": {"resources": [other, entry(delete=True, id="old"), entry(), unlabelled]}}
    resources = job_resources(state)
    assert sorted(resources) == ["my-run", "plain"]
    assert "id" not in resources["my-run"]
