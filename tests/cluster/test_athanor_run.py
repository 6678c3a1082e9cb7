"""docs/user.md's first page: somebody with the installed package, a team's kubeconfig and a folder trains a script."""

from __future__ import annotations

import os
import re
import signal
import zipfile
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from athanor.run.image_modules import PROGRAMS
from tests.documentation import command_with, own_script
from tests.fixtures.engineer import SMALL
from tests.fixtures.example import assert_completed
from tests.ports import held_port
from tests.waiting import wait_until
from tools.stacks.state_file import backend_url

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.fixtures.engineer import Engineer


def test_the_script_trains_as_the_page_says(trained: subprocess.CompletedProcess[str]) -> None:
    assert re.search(r'^\[worker-0\] \{"step": 100, "loss": 0\.\d+\}', trained.stdout, re.MULTILINE), trained.stdout
    assert "PyTorchJob train-" in trained.stderr
    assert "2 pods of 250m CPU" in trained.stderr
    assert re.search(r"^queue: training, .* as far as you may see; pool: any", trained.stderr, re.MULTILINE)
    assert trained.stderr.splitlines()[-1].endswith(": Completed")


def test_a_program_with_the_five_arguments_of_uai_train(engineer: Engineer) -> None:
    """As the page prints it; the trainer is in the image."""
    done = engineer.shell(command_with("--num_gpu"))
    assert done.stderr.splitlines()[-1] == "digits: Completed"
    [digits] = [run for run in engineer.listed() if run["run"] == "digits"]
    assert digits["latest"]["loss"] < 1
    assert list(engineer.volume("digits-logs").iterdir())


def test_an_edited_script_is_another_job_that_replaces_the_first(engineer: Engineer) -> None:
    (engineer.folder / "edited.py").write_text('print("before")\n', encoding="utf-8")
    command = f"athanor run --kind batch --name edited {SMALL} --follow"
    assert "before" in engineer.shell(f"{command} -- python edited.py").stdout
    first = engineer.jobs()["edited"]["metadata"]["name"]
    (engineer.folder / "edited.py").write_text('print("after")\n', encoding="utf-8")
    refused = engineer.shell(f"{command} -- python edited.py", check=False)
    assert refused.returncode == 1
    assert "--name = 'edited': is the name of a run of yours" in refused.stderr
    assert "after" in engineer.shell(f"{command} --replace -- python edited.py").stdout
    assert engineer.jobs()["edited"]["metadata"]["name"] != first
    assert len([name for name in engineer.objects_of("edited") if name.startswith("configmap/code.")]) == 1
    assert "why: edited completed at " in engineer.shell("athanor why edited").stdout
    before = engineer.jobs()["edited"]["metadata"]
    engineer.shell("athanor rerun edited --fresh")
    assert "after" in engineer.shell("athanor logs --follow edited").stdout
    again = engineer.jobs()["edited"]["metadata"]
    assert (again["name"], again["uid"] == before["uid"]) == (before["name"], False)
    # The same content, whose job has ended: it starts once more, with and without the job.
    assert "after" in engineer.shell(f"{command} --replace -- python edited.py").stdout
    third = engineer.jobs()["edited"]["metadata"]["name"]
    assert third != again["name"]
    engineer.clone.kubectl("delete", "jobs.batch.volcano.sh", third, "-n", "athanor")
    assert "after" in engineer.shell(f"{command} --replace -- python edited.py").stdout
    assert engineer.jobs()["edited"]["metadata"]["name"] not in {again["name"], third}


RING = """
import json
from mpi4py import MPI
world = MPI.COMM_WORLD
for step in (1, 2):
    total = world.allreduce(world.Get_rank() + step)
    if world.Get_rank() == 0:
        print(json.dumps({"step": step, "loss": 1 / total}), flush=True)
"""


def test_a_pasted_mpirun_runs_and_its_progress_is_known(engineer: Engineer) -> None:
    """Only the launcher's pod prints what the ranks do."""
    (engineer.folder / "ring.py").write_text(RING, encoding="utf-8")
    words = f"--kind mpi --name ring --workers 2 {SMALL} --follow"
    done = engineer.shell(f"athanor run {words} -- mpirun -np 2 --allow-run-as-root python ring.py")
    assert done.stderr.splitlines()[-1] == "ring: Completed"
    assert '[launcher-0] {"step": 2, "loss": 0.2}' in done.stdout
    [ring] = [run for run in engineer.listed() if run["run"] == "ring"]
    assert (ring["step"], ring["latest"]) == (2, {"loss": 0.2})
    assert engineer.opened("ring") == []


CLUSTER = """
import json, os
own = json.loads(os.environ["TF_CONFIG"])
if own["task"] == {"type": "worker", "index": 0}:
    print(json.dumps({"step": 1, **{role: len(addresses) for role, addresses in own["cluster"].items()}}))
"""


def test_a_run_for_tensorflow_gives_each_pod_its_place_in_the_cluster(engineer: Engineer) -> None:
    (engineer.folder / "cluster.py").write_text(CLUSTER, encoding="utf-8")
    # The image of TensorFlow is loaded by another test; what it would read needs only Python.
    image = engineer.clone.outputs()["trainer_image"]
    words = f"--kind tensorflow --name roles --workers 2 {SMALL} --image {image} --follow"
    done = engineer.shell(f"athanor run {words} -- python cluster.py")
    assert done.stderr.splitlines()[-1] == "roles: Completed"
    assert '[worker-0] {"step": 1, "worker": 2}' in done.stdout


HABITS = """
import os
import greeting, torch, torchvision, tqdm, yaml
from project.model import build

epochs, device = 1, "cuda"
exec(open("configurator.py").read())
os.makedirs("../data/MNIST", exist_ok=True)
os.makedirs("out", exist_ok=True)
network = build().to(device)
torch.save(network.state_dict(), os.path.join("out", "ckpt.pt"))
torch.save(network.state_dict(), "mnist_cnn.pt")
print(greeting.WORD, epochs, device, sorted(each for each in os.listdir() if each.startswith(("mnist_", "out"))))
"""
"""As widely copied scripts do: data next to the code, files where it runs, settings in Python, packages in src."""
CONFIGURATOR = """
import sys
for word in sys.argv[1:]:
    if word.startswith("--"):
        name, value = word[2:].split("=")
        globals()[name] = value
    else:
        exec(open(word).read())
"""


def test_required_packages_are_installed_once_and_found_by_all_pods_and_the_next_run(engineer: Engineer) -> None:
    folder = engineer.folder.parent / "required"
    folder.mkdir()
    own = "greeting-1.0"
    with zipfile.ZipFile(folder / f"{own}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("greeting.py", "WORD = 'hello'\n")
        wheel.writestr(f"{own}.dist-info/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        wheel.writestr(f"{own}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{own}.dist-info/RECORD", "")
    (folder / "requirements.txt").write_text(f"./{own}-py3-none-any.whl\ntqdm\npyyaml\n", encoding="utf-8")
    (folder / "src" / "project").mkdir(parents=True)
    (folder / "config").mkdir()
    for name, text in {
        "train.py": HABITS, "configurator.py": CONFIGURATOR, "config/small.py": "epochs = 3\n",
        "src/project/model.py": "import torch\n\ndef build():\n    return torch.nn.Linear(2, 1)\n",
    }.items():  # fmt: skip
        (folder / name).write_text(text, encoding="utf-8")
    install = "--requirements requirements.txt --env PIP_NO_INDEX=1 --env PYTHONPATH=/source/code/src"
    words = f"{SMALL} {install} --follow -- bash -c 'exec python train.py config/small.py --device=cpu'"
    there = replace(engineer, folder=folder)
    first = there.shell(f"athanor run --kind batch --name required {words}").stdout
    assert "[pod-0 requirements] packages of requirements.txt: not in" in first
    assert "[pod-0] hello 3 cpu ['mnist_cnn.pt', 'out']" in first
    again = there.shell(f"athanor run --kind batch --name again {words}").stdout
    assert "[pod-0 requirements] packages of requirements.txt: found in" in again
    assert "[pod-0] hello 3 cpu" in again


FAILS = """import sys
import torch.distributed as dist

print("begun", flush=True)
dist.init_process_group("gloo")
dist.barrier()
sys.exit(7)
"""
"""Ranks that fail after all of them have begun: one that fails at once can end another before that one's first line."""


def test_a_program_that_fails_ends_the_command_with_its_exit_code_and_is_not_repeated(engineer: Engineer) -> None:
    (engineer.folder / "fails.py").write_text(FAILS, encoding="utf-8")
    words = f"--workers 2 {SMALL} --follow"
    done = engineer.shell(f"athanor run --name fails {words} -- python fails.py", check=False)
    assert done.returncode == 7, done.stderr
    assert {"[worker-0] begun", "[worker-1] begun"} <= set(done.stdout.splitlines())
    assert done.stdout.count("begun") == 2
    assert re.search(
        r"^fails: Failed: .* failed \(exit code 7\).*athanor run --replace --name fails", done.stderr, re.MULTILINE
    )
    typed = f"athanor run --name twice --max-restarts 1 {words} -- python fails.py"
    twice = engineer.shell(typed, check=False)
    assert twice.returncode == 7, twice.stderr
    assert twice.stdout.count("begun") == 4
    assert "attempt 2 of 2 ended with exit code 7, the last one" in twice.stdout
    assert "start 1 of all pods has ended" in twice.stderr


PRIVATE = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}
METADATA = {"169.254.0.0/16", "100.64.0.0/10"}
"""Where nodes of clouds have theirs; on Alibaba Cloud it is 100.100.100.200."""


def test_packages_are_installed_first_caches_outlive_the_run_and_it_may_connect_where_it_says(
    engineer: Engineer,
) -> None:
    folder = engineer.folder.parent / "prepared"
    folder.mkdir()
    # Where `pip install --user` puts packages, without an index.
    install = "import os, site\nfolder = site.getusersitepackages()\nos.makedirs(folder)\n"
    install += "open(os.path.join(folder, 'own_package.py'), 'w').write('NAME = \"own\"')\n"
    # A preparation with a program that is not among these is refused.
    install += f"import shutil\nassert not [name for name in {sorted(PROGRAMS)} if not shutil.which(name)]\n"
    (folder / "install.py").write_text(install, encoding="utf-8")
    program = "import os, pathlib, own_package\npathlib.Path(os.environ['XDG_CACHE_HOME']).mkdir(parents=True)\n"
    program += "pathlib.Path(os.environ['XDG_CACHE_HOME'], 'kept').write_text(own_package.NAME)\n"
    (folder / "use.py").write_text(program, encoding="utf-8")
    words = "--name prepared --cpu 250m --prepare 'python3 install.py' --cache own --follow"
    egress = "--egress internet --egress 203.0.113.7/32:5432"
    replace(engineer, folder=folder).shell(f"athanor run {words} {egress} -- python3 use.py")
    assert engineer.volume("caches", "own", "kept").read_text(encoding="utf-8") == "own"

    # The local cluster's network enforces no policies: what the API server was given is what can be seen here.
    internet, host = engineer.opened("prepared")
    block = internet["to"][0]["ipBlock"]
    assert (block["cidr"], internet["ports"]) == ("0.0.0.0/0", [{"protocol": "TCP", "port": 443}])
    assert set(block["except"]) >= PRIVATE | METADATA
    ports = [{"protocol": "TCP", "port": 5432}]
    assert host == {"to": [{"ipBlock": {"cidr": "203.0.113.7/32"}}], "ports": ports}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--queue nope -- python train.py",
            "--queue = 'nope': the platform has no queue of that name. Fix: use one",
        ),
        ("-- bash train.py", "command = 'bash': the job runs torchrun itself"),
    ],
)
def test_a_run_is_refused_before_it_starts_by_what_was_typed(engineer: Engineer, words: str, message: str) -> None:
    (engineer.folder / "train.py").write_text(own_script(), encoding="utf-8")
    before = engineer.shell("athanor runs").stdout
    refused = engineer.shell(f"athanor run {words}", check=False)
    assert refused.returncode == 1
    assert f"athanor run: {message}" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert engineer.shell("athanor runs").stdout == before


def test_the_printed_program_declares_the_same_job(engineer: Engineer) -> None:
    """Its platform is read from the outputs of the platform's stack, as --platform reads it, or from the cluster."""
    folder, name = engineer.folder.parent / "printed", "organization/athanor/local"
    folder.mkdir()
    (folder / "own.py").write_text("print('declared')\n", encoding="utf-8")
    there = replace(engineer, folder=folder)
    words = f"--platform {name} --kind batch --name printed {SMALL}"
    platform = f"PULUMI_BACKEND_URL='{backend_url(engineer.clone.home / 'pulumi')}'"
    program = there.shell(f"{platform} athanor run {words} --print-program -- python3 own.py").stdout
    previewed = there.shell(f"{platform} athanor run {words} --preview -- python3 own.py")
    assert "BatchJob printed" in previewed.stderr

    (folder / "__main__.py").write_text(program, encoding="utf-8")
    (folder / "Pulumi.yaml").write_text("name: printed\nruntime: python\n", encoding="utf-8")
    variables = {**engineer.clone.variables, "PYTHONPATH": str(engineer.package)}
    clone, at = replace(engineer.clone, variables=variables), (f"--cwd={folder}", "--stack", "printed")
    clone.pulumi("stack", "init", *at)
    try:
        kubeconfig = engineer.clone.cluster.kubeconfig.read_text(encoding="utf-8")
        clone.pulumi("config", "set", "--secret", "kubeconfig", kubeconfig, *at)
        clone.up(*at)
        assert_completed(engineer.clone, "printed")
        assert "declared" in engineer.clone.make("logs", "JOB=printed")

        alone = there.shell(f"athanor run --kind batch --name printed {SMALL} --print-program -- python3 own.py").stdout
        assert "Platform.from_cluster('athanor', cluster)" in alone
        (folder / "__main__.py").write_text(alone, encoding="utf-8")
        clone = replace(clone, variables={**variables, "KUBECONFIG": engineer.variables["KUBECONFIG"]})
        assert re.search(r"batch\.volcano\.sh\S+:Job printed", clone.pulumi("preview", *at))
    finally:
        clone.pulumi("destroy", "--yes", "--skip-preview", *at, check=False)
        clone.pulumi("stack", "rm", "--yes", *at, check=False)


def test_two_start_at_once_ctrl_c_detaches_and_delete_leaves_nothing(engineer: Engineer) -> None:
    sleeps = "print('begun', flush=True); import time; time.sleep(3600)"
    (engineer.folder / "sleeps.py").write_text(sleeps, encoding="utf-8")
    words = f"athanor run --kind batch {SMALL} --follow --name"
    runs = {name: engineer.started(f"{words} {name} -- python3 sleeps.py") for name in ("first", "second")}
    for name, process in runs.items():
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "begun" in line, f"{name}: {line}{process.communicate()[1]}"
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
        assert f"detached; the run continues: athanor logs --follow {name}" in said
    assert {run["phase"] for run in engineer.listed() if run["run"] in runs} == {"Running"}
    assert "begun" in engineer.shell("athanor logs first").stdout
    for name in runs:
        assert engineer.objects_of(name)
        engineer.shell(f"athanor delete {name}")
        wait_until(lambda name=name: not engineer.objects_of(name), lambda name=name: str(engineer.objects_of(name)))


def test_a_pod_to_develop_in_has_the_files_of_the_folder_and_gives_its_own_back(engineer: Engineer) -> None:
    folder = engineer.folder.parent / "developed"
    folder.mkdir()
    (folder / "grow.py").write_text(
        "import sys; open('made.txt', 'a').write(sys.argv[1]); sys.exit(7)", encoding="utf-8"
    )
    there = replace(engineer, folder=folder)
    first = there.shell(f"athanor dev --idle 20s {SMALL} -- python3 grow.py 1", check=False)
    assert first.returncode == 7, first.stderr
    assert (folder / "made.txt").read_text(encoding="utf-8") == "1"
    [name] = [run["run"] for run in engineer.listed() if run["run"].startswith("dev-developed-")]
    assert "this folder has a pod already" in there.shell("athanor dev --gpus 1 -- true", check=False).stderr

    # Nobody is connected, so it ends; the next command finds the files in the volume, and the deletion counts.
    wait_until(lambda: engineer.jobs()[name]["status"]["state"]["phase"] == "Completed", "the pod to be idle")
    (folder / "new.py").write_text("print('new')", encoding="utf-8")
    (folder / "grow.py").unlink()
    again = there.shell(f"athanor dev --idle 20s {SMALL} -- sh -c 'ls; python3 new.py; cat made.txt'")
    assert again.stdout.split() == ["made.txt", "new.py", "new", "1"]
    assert "copied to the pod: new.py" in again.stderr
    with ExitStack() as terminals:
        with over_ssh(there) as connect:
            assert there.shell(f"{connect} cat made.txt").stdout == "1"
            second = terminals.enter_context(client(there, "athanor dev --sync-only"))
            said_by(second, "another athanor dev is syncing this folder; this one takes over when that one ends")
        said_by(second, "the other athanor dev has ended: this one now syncs the folder")
        (folder / "later.py").write_text("print('later')", encoding="utf-8")
        said_by(second, "copied to the pod: later.py")
    there.shell("athanor dev --stop")
    assert not [run for run in engineer.listed() if run["run"] == name]


@contextmanager
def over_ssh(there: Engineer) -> Iterator[str]:
    """Yield what connects to the folder's pod as an editor does, to its image's sshd through a forwarded port."""
    key = there.folder.parent / "id_ed25519"
    there.shell(f"ssh-keygen -q -t ed25519 -N '' -f {key}")
    with held_port() as port, client(there, f"athanor dev --ssh {port} --ssh-key {key}.pub --sync-only") as dev:
        yield said_by(dev, "ssh: ").removeprefix("ssh: ").strip()


@contextmanager
def client(there: Engineer, command: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command that Ctrl-C ends with the block."""
    process = there.started(command)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)


def said_by(process: subprocess.Popen[str], beginning: str) -> str:
    """Return the next line on standard error that begins like that."""
    assert process.stderr is not None
    said: list[str] = []
    for line in iter(process.stderr.readline, ""):
        if line.startswith(beginning):
            return line
        said.append(line)
    raise AssertionError(f"no line that begins with {beginning!r} in:\n{''.join(said)}")


def test_the_state_has_no_code_no_credentials_and_no_path_in_clear(engineer: Engineer, trained: object) -> None:
    del trained
    state = "".join(
        file.read_text(encoding="utf-8") for file in (engineer.folder.parent / "backend").rglob("train-*.json")
    )
    assert "ciphertext" in state
    token = re.search(r"token: (\S+)}", (engineer.folder / engineer.variables["KUBECONFIG"]).read_text("utf-8"))
    assert token
    for secret in ("mse_loss", own_script()[:40], token[1], engineer.variables["KUBECONFIG"], str(engineer.folder)):
        assert secret not in state
