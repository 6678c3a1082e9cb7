"""Before a run: what would be lost, what it costs, who says yes. After it: the exit status and the next step."""

import io

import pytest
from rich.console import Console

import tools.acceptance.command as program
from infra.errors import RefusalError
from infra.settings.parse import parse_settings
from tools.acceptance.command import Options, accept, check_nothing_is_lost, gpu_pools
from tools.acceptance.findings import Findings, StepFailedError
from tools.acceptance.journal import Journal
from tools.acceptance.runner import Step
from tools.paths import paths
from tools.stacks.engine import stack_config


class FakeEngine:
    def __init__(self, resources):
        self.resources = resources

    def exists(self):
        return self.resources is not None

    def export(self):
        return {"deployment": {"resources": self.resources or []}}


pytestmark = pytest.mark.usefixtures("own_folders")


def settings(stack):
    return parse_settings(stack_config(stack))


def test_an_environment_of_somebody_is_never_destroyed(site_of):
    site = site_of(engine=FakeEngine([{}, {}]))
    with pytest.raises(RefusalError, match="has 2 resources that no acceptance run created"):
        check_nothing_is_lost(site)
    with pytest.raises(RefusalError, match=r"alicloud\.protected"):
        check_nothing_is_lost(site_of("prod", engine=FakeEngine(None)))


@pytest.mark.parametrize("resources", [None, [], [{}]], ids=["no stack", "an empty one", "what the run itself made"])
def test_nothing_is_there_to_be_lost(site_of, resources):
    site = site_of(engine=FakeEngine(resources))
    if resources:
        site.journal.begin_environment()
    check_nothing_is_lost(site)


def test_pools_can_be_chosen_and_a_wrong_name_is_refused():
    assert [pool.name for pool in gpu_pools(settings("staging"), ())] == ["a10-spot", "a10-shared"]
    assert [pool.name for pool in gpu_pools(settings("staging"), ["a10-spot"])] == ["a10-spot"]
    with pytest.raises(RefusalError, match="did you mean a10-spot"):
        gpu_pools(settings("staging"), ["a10-spots"])


def test_a_stack_that_nobody_described_is_refused(report):
    with pytest.raises(RefusalError, match=r"STACK = 'dve': has no Pulumi\.dve\.yaml\. Fix: did you mean dev"):
        accept("dve", Options(), Console(), report.progress)


@pytest.fixture
def run(monkeypatch, report, site_of):
    """Run `accept` with these steps; an account and programs are not needed for them."""

    def go(*steps, stdin="", terminal=False, screen=None, **options):
        made = site_of(engine=FakeEngine(None))

        def site(stack, _settings, _pools, journal, console, _report):
            made.stack, made.journal, made.console = stack, journal, console
            return made

        class Typed(io.StringIO):
            def isatty(self):
                return terminal

        monkeypatch.setattr(program, "_site", site)
        monkeypatch.setattr(program, "ALL", steps)
        monkeypatch.setattr("sys.stdin", Typed(stdin))
        made.console.file = screen or io.StringIO()
        return accept("dev", Options(**options), made.console, report.progress)

    return go


def step(name, run=lambda _, __: None, **more):
    return Step(name=name, title=name, run=run, **more)


def failing(_, __):
    raise StepFailedError("no GPU")


def interrupted(_, __):
    raise KeyboardInterrupt


def begun(site, _):
    site.journal.begin_environment()


def journal():
    return Journal.of(paths().home / "acceptance" / "dev", "dev")


def report_text():
    [file] = (paths().home / "acceptance" / "dev").glob("*/report.md")
    return file.read_text()


def test_without_a_yes_and_without_a_terminal_nothing_happens(run):
    with pytest.raises(RefusalError, match="set YES=1"):
        run(step("up"))
    assert journal().entries == []


def test_what_it_costs_is_said_before_it_is_asked(run):
    screen = io.StringIO()
    with pytest.raises(RefusalError, match="is not the name of the stack"):
        run(step("up"), stdin="yes\n", terminal=True, screen=screen)
    assert "CNY" in screen.getvalue()
    assert run(step("up"), stdin="dev\n", terminal=True) == 0


def test_the_exit_status_is_one_to_gate_on(run):
    assert run(step("up"), step("destroy", last=True), yes=True) == 0
    assert run(step("up", failing), step("destroy", last=True), yes=True) == 1
    assert run(step("up", interrupted), step("destroy", last=True), yes=True) == 130


def test_a_destroy_that_was_interrupted_says_how_to_go_on(run):
    def destroy(site, _):
        site.journal.leave()
        raise KeyboardInterrupt

    screen = io.StringIO()
    assert run(step("up", begun), step("destroy", destroy, last=True), yes=True, screen=screen) == 130
    said = " ".join(screen.getvalue().split())
    assert "`make acceptance STACK=dev` or `pulumi destroy -s dev` removes them" in said
    assert "pulumi destroy -s dev" in report_text()
    assert run(step("up", failing), step("destroy", last=True)) == 0  # asks nobody: it only gets cheaper
    assert journal().entries == []  # the next run is another one


def test_an_environment_that_is_kept_is_gone_on_with(run):
    screen = io.StringIO()
    steps = (step("up", begun), step("job", failing), step("destroy", last=True))
    assert run(*steps, yes=True, keep=True, screen=screen) == 1
    assert "exists and costs money" in " ".join(screen.getvalue().split())
    assert journal().entry("destroy").status == "skipped"
    assert run(*steps[:1], step("job"), step("destroy", last=True), yes=True) == 0
    assert journal().entries == []


def test_a_failure_is_explained_by_the_engines_log(site_of):
    log = paths().logs / "pulumi-dev.log"
    log.parent.mkdir(parents=True)
    log.write_text("error: OperationDenied.NoStock")
    findings = Findings()
    program.why(site_of(), findings)
    assert findings.evidence[0].output == "error: OperationDenied.NoStock"


def test_a_failure_is_explained_by_the_cluster_where_it_is_known(site_of):
    site, findings = site_of(), Findings()
    site.kubeconfig.touch()
    site.kubectl.answers["get events"] = "FailedScheduling"
    program.why(site, findings)
    assert [one.output for one in findings.evidence] == ["FailedScheduling", ""]
