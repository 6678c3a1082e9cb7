"""The order of `make up`, with stand-ins for all that takes time: what waits for what, and what is shown when."""

import fcntl
import io
import itertools
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from rich.console import Console

from infra.settings.parse import parse_settings
from tools.local_environment import up as flow
from tools.local_environment.programs import CORE, MONITORING
from tools.local_environment.training_job import ExportedModel, ModelFile
from tools.operations.predict import Prediction, ServingError
from tools.process import CommandError
from tools.toolchain import ToolchainError

OUTPUTS = {"namespace": "athanor", "digits_training_job": "digits-training-1", "digits_service_url": "http://digits"}
USERS_OWN = {"cluster": {"kubeconfig": "~/.kube/config", "context": "kind"}}


class Programs:
    """Stands for the process that gets programs: what is there, and what fails."""

    def __init__(self, happened, missing, failing=""):
        self._happened = happened
        self._ready = {CORE, MONITORING} - set(missing)
        self._failing = failing

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._happened.append("compilers ended")

    def is_ready(self, group):
        return group in self._ready

    def wait(self, group):
        self._happened.append(f"wait for {group}")
        if group == self._failing:
            raise ToolchainError("compilation failed")
        self._ready.add(group)


class Engine:
    """Stands for the engine: what its updates were asked for, and whether the mark of a first one was there."""

    def __init__(self, happened, mark):
        self._happened = happened
        self._writes_once = False
        self.mark = mark
        self.is_made, self.fails, self.runs = False, False, False
        self.written_once, self.marked = [], []

    def prepare(self):
        pass

    def is_empty(self):
        return not self.is_made

    def is_running(self):
        return self.runs

    def outputs(self):
        return OUTPUTS

    def writing_once(self):
        self._writes_once = True
        return self

    def up(self, *, exclude=()):
        self._happened.append(f"update without {', '.join(exclude)}" if exclude else "update")
        self.written_once.append(self._writes_once)
        self.marked.append(self.mark.exists())
        self._writes_once = False
        if self.fails:
            raise CommandError(["pulumi", "up"], 1, "no such image", None)
        self.is_made = True


@pytest.fixture
def make_up(monkeypatch, tmp_path, own_folders, report):
    """Run `make up` where programs of these groups are missing; return what happened, in order."""
    happened = []
    record = happened.append
    cluster = SimpleNamespace(
        is_created=False,
        status=lambda: SimpleNamespace(running=False),
        preflight=list,
        start_runtime=lambda _: record("container runtime"),
        up=lambda _: record("cluster"),
        down=lambda _: record("cluster removed"),
        containerd_socket=tmp_path / "socket",
        layout=SimpleNamespace(folder=own_folders / "local"),
    )

    engine = Engine(happened, own_folders / "local" / "first-update")

    # One with more room than usual may refuse the machine, but not start: less room is left when it does.
    spacious = SimpleNamespace(status=cluster.status, preflight=cluster.preflight)
    monkeypatch.setattr(flow, "LocalCluster", lambda _, requirements=None, **__: spacious if requirements else cluster)
    monkeypatch.setattr(flow.system_packages, "ensure_system_packages", lambda _: record("packages"))
    monkeypatch.setattr(flow, "ensure_trainer_images", lambda *_, **__: record("trainer image"))
    monkeypatch.setattr(
        flow,
        "ensure_platform_images",
        lambda _, names, __, **___: record("images with prometheus" if "prometheus" in names else "images"),
    )
    monkeypatch.setattr(flow.commands, "tools", lambda _, groups: record(f"install {', '.join(groups)}"))
    monkeypatch.setattr(flow.commands, "status", lambda *_: record("status"))
    monkeypatch.setattr(flow.stack, "local_engine", lambda _: engine)
    monkeypatch.setattr(flow.stack, "local_kubectl", lambda *_: None)
    monkeypatch.setattr(flow.stack, "service_address", lambda *_: nullcontext("10.0.0.1:8000"))
    monkeypatch.setattr(
        flow.training_job, "wait_for_job", lambda *_, until_exported: record("export" if until_exported else "training")
    )
    file, small = ModelFile(accuracy=0.98, size_bytes=71_051), ModelFile(accuracy=0.977, size_bytes=30_928)
    model = ExportedModel(version="1", torch_version="2.15.0", file=file, variants={"int8": small})
    monkeypatch.setattr(flow.training_job, "exported_model", lambda *_: model)
    monkeypatch.setattr(flow.model_service, "is_ready", lambda *_: True)
    digit = Prediction(index=0, pixels=[[0.0]], label=4, predicted=4, model_version="1")
    monkeypatch.setattr(flow.model_service, "predict", lambda *_: [digit])
    monkeypatch.setattr(flow.Forecast, "of", lambda *_: SimpleNamespace(on_share=None))
    screen = io.StringIO()

    class Screen(Console):
        def print(self, *objects, **named):
            super().print(*objects, **named)
            if "served: 4" in "".join(map(str, objects)):
                record("prediction")

    def run(missing=(), raw=None, failing=""):
        monkeypatch.setattr(flow.stack, "local_settings", lambda: parse_settings(raw or {}))
        groups = {group: SimpleNamespace(are_present=lambda gone=group in missing: not gone) for group in flow.GROUPS}
        real = flow.programs

        def programs(settings, group):
            real_programs = real(settings, group)
            return SimpleNamespace(are_present=groups[group].are_present, in_images=real_programs.in_images)

        monkeypatch.setattr(flow, "programs", programs)
        monkeypatch.setattr(flow, "Background", lambda *_, **__: Programs(happened, missing, failing))
        flow.up(Screen(file=screen, width=120), report.progress)
        return happened

    run.happened, run.screen = happened, screen
    run.engine, run.cluster = engine, cluster
    return run


def test_where_everything_is_there_one_update_does_it_and_the_variants_are_compared(make_up, own_folders):
    assert make_up() == [
        "packages",
        "wait for core",
        "install core",
        "cluster",
        "images with prometheus",
        "trainer image",
        "update",
        "training",
        "status",
        "prediction",
        "compilers ended",
    ]
    assert "98.00% of the held-out digits" in make_up.screen.getvalue()
    assert {"data", "output"} <= {folder.name for folder in (own_folders / "local" / "volumes").iterdir()}
    assert "97.70% of the held-out digits, 31 of the model's 71 kB" in make_up.screen.getvalue()


def test_the_first_time_the_prediction_comes_before_what_watches_it(make_up):
    assert make_up([CORE, MONITORING]) == [
        "packages",
        "container runtime",
        "trainer image",
        "wait for core",
        "install core",
        "cluster",
        "images",
        "trainer image",
        "update without **athanor:infra:Monitoring**",
        "export",
        "prediction",
        "wait for monitoring",
        "images with prometheus",
        "update",
        "training",
        "status",
        "compilers ended",
    ]


def test_a_run_that_was_killed_after_the_prediction_continues_with_the_monitoring(make_up):
    happened = make_up([MONITORING])
    assert "container runtime" not in happened
    assert happened.index("prediction") < happened.index("wait for monitoring") < happened.index("update")


def test_without_the_example_the_monitoring_follows_at_once(make_up):
    happened = make_up([CORE, MONITORING], {"digits": {"enabled": False}})
    assert "training" not in happened
    assert "prediction" not in happened
    assert happened[-3:] == ["update", "status", "compilers ended"]


def test_a_cluster_of_the_users_gets_neither_node_nor_images(make_up):
    happened = make_up([CORE], USERS_OWN)
    assert happened[:3] == ["wait for core", "install core", "update"]
    assert not {"packages", "container runtime", "cluster", "images", "trainer image"} & set(happened)


@pytest.mark.parametrize(
    ("failing", "last"),
    [
        (CORE, ["packages", "container runtime", "trainer image", "wait for core", "compilers ended"]),
        (MONITORING, ["prediction", "wait for monitoring", "compilers ended"]),
    ],
)
def test_programs_that_cannot_be_had_end_the_run_where_they_are_needed(make_up, failing, last):
    with pytest.raises(ToolchainError, match="compilation failed"):
        make_up([CORE, MONITORING], failing=failing)
    assert make_up.happened[-len(last) :] == last


@pytest.mark.parametrize(("ready", "is_refused"), [("True", True), ("False", False)])
def test_an_address_that_stays_silent_ends_the_wait_once_its_pods_are_ready(make_up, monkeypatch, ready, is_refused):
    answers = itertools.chain([False] * 5, itertools.repeat(not is_refused))
    monkeypatch.setattr(flow.model_service, "is_ready", lambda *_: next(answers))
    monkeypatch.setattr(flow, "_POLL_SECONDS", 0)
    monkeypatch.setattr(flow, "_READY_POD_ANSWERS_SECONDS", 0)
    pod = {"status": {"conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready}]}}
    kubectl = SimpleNamespace(items=lambda *_: [pod, {"status": {}}])
    monkeypatch.setattr(flow.stack, "local_kubectl", lambda *_: kubectl)
    if is_refused:
        with pytest.raises(ServingError, match=r"are ready, but http://10\.0\.0\.1:8000 does not answer"):
            make_up()
    else:
        assert "prediction" in make_up()


@pytest.mark.parametrize("missing", [[], [CORE, MONITORING]])
def test_every_step_is_planned_and_runs(make_up, report, monkeypatch, missing):
    planned = []
    monkeypatch.setattr(
        flow.Forecast, "of", lambda _, steps, __: planned.extend(steps) or SimpleNamespace(on_share=None)
    )
    make_up(missing)
    begun = [line.split("▶ ")[1].split(" (")[0] for line in report.text.splitlines() if "▶" in line]
    assert begun == planned


def test_the_first_update_of_a_new_cluster_is_written_once_and_later_ones_are_not(make_up):
    make_up([CORE, MONITORING])
    assert make_up.engine.written_once == [True, False]
    assert make_up.engine.marked == [True, False]
    make_up.cluster.is_created = True
    make_up()
    assert make_up.engine.written_once == [True, False, False]


@pytest.mark.parametrize(("cluster_exists", "is_made"), [(True, False), (False, True)])
def test_an_update_that_could_lose_something_is_written_step_by_step(make_up, cluster_exists, is_made):
    """A stack was destroyed, and its cluster has volumes; or a stack's cluster is gone."""
    make_up.cluster.is_created, make_up.engine.is_made = cluster_exists, is_made
    make_up()
    assert make_up.engine.written_once == [False]
    assert not make_up.engine.mark.exists()


@pytest.mark.parametrize("is_made", [True, False])
def test_a_cluster_goes_only_if_its_first_update_wrote_nothing(make_up, is_made):
    """One that failed by itself has written what it did, and the next continues from there."""
    make_up.engine.fails = True
    with pytest.raises(CommandError):
        make_up()
    assert make_up.engine.mark.exists()
    make_up.engine.fails, make_up.cluster.is_created, make_up.engine.is_made = False, True, is_made
    make_up.happened.clear()
    make_up()
    assert ("cluster removed" in make_up.happened) == (not is_made)
    assert not make_up.engine.mark.exists()


def test_a_cluster_stays_while_its_first_update_is_under_way(make_up):
    """An engine that lives on when `make up` was killed, or another `make up`."""
    make_up.cluster.is_created, make_up.engine.runs = True, True
    make_up.engine.mark.parent.mkdir(parents=True)
    make_up.engine.mark.touch()
    make_up()
    make_up.engine.runs, make_up.engine.is_made = False, False
    with make_up.engine.mark.open() as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        make_up()
    assert "cluster removed" not in make_up.happened
    assert make_up.engine.mark.exists()
