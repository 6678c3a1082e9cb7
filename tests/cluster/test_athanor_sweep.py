"""`athanor sweep`: somebody with the installed package looks for the best arguments of a script."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

from tests.cluster.test_training_jobs import events
from tests.documentation import export_of_best
from tests.fixtures.engineer import SMALL
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.fixtures.engineer import Engineer


TUNED = """
import os, signal, subprocess, sys, time
from athanor_run import checkpoint_dir, report
run = os.environ["ATHANOR_JOB"]
if run.startswith("tune-1-"):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report(step=200, loss=99)
    signal.pause()
is_first = not any(checkpoint_dir().iterdir())
words = ["--data_dir=/data/data", "--output_dir=/data/output", f"--run_name={run}", f"--learning_rate={sys.argv[1]}"]
more = ["--epochs=10", "--checkpoint_interval_steps=20", "--last_scrape_seconds=0"]
training = subprocess.Popen([sys.executable, "-m", "trainer.train", *words, *more])
signal.signal(signal.SIGTERM, lambda *_: [training.send_signal(each) for each in (signal.SIGCONT, signal.SIGTERM)])
if is_first:
    while not any(checkpoint_dir().glob("*/complete.json")):
        time.sleep(0.02)
    training.send_signal(signal.SIGSTOP)
    (checkpoint_dir().parent / "held").touch()
sys.exit(training.wait())
"""
"""Trains with the first trial's values, and holds its first life at a checkpoint; the second only prints a bad loss."""


def test_a_sweep_survives_its_client_and_a_preemption_and_exports_the_best_model(engineer: Engineer) -> None:
    (engineer.folder / "tuned.py").write_text(TUNED, encoding="utf-8")
    search = "--param rate=1e-3..1e-2:log --search tpe --trials 2 --parallel 2"
    words = f"--kind batch {SMALL} {search} --stop-early median --stop-early-after 1"
    killed = engineer.started(f"athanor sweep --name tune {words} -- python3 tuned.py {{rate}}")
    assert killed.stderr is not None
    said = iter(killed.stderr.readline, "")
    assert any(line.startswith("tune-0: ") and "starting" not in line for line in said)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=60)

    resumed = engineer.started(f"athanor sweep --resume tune {export_of_best()} --json")
    best = engineer.jobs()["tune-0"]["metadata"]["name"]
    wait_until(engineer.volume(best, "held").exists, lambda: engineer.shell("athanor logs tune-0").stdout)
    [pod] = engineer.clone.objects("pods", "athanor.dev/job=tune-0")
    engineer.evict(pod["metadata"]["name"])
    printed, said = resumed.communicate(timeout=600)
    assert resumed.returncode == 0, said

    answer = json.loads(printed)
    assert [trial["state"] for trial in answer["trials"]] == ["completed", "stopped early"]
    assert answer["best"] == "tune-0"
    assert 1e-3 <= float(answer["trials"][0]["values"]["rate"]) <= 1e-2
    assert answer["then"] == {"run": "tune-then", "completed": True}
    [stopped] = [event for event in events(engineer.clone, best) if event["event"] == "stopped"]
    [continued] = [event for event in events(engineer.clone, best) if event["event"] == "resumed"]
    assert continued["step"] == stopped["step"] > 0
    assert engineer.jobs()["tune-0"]["status"].get("retryCount", 0) == 0
    exported = engineer.volume("models", "rate", "1")
    manifest = json.loads((exported / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["run_name"], (exported / "model.pt").is_file()) == (best, True)
    assert manifest["accuracy"] > 0.9

    assert {run["run"] for run in engineer.listed() if run["run"].startswith("tune-")} == {"tune-0", "tune-then"}
    wait_until(lambda: not engineer.objects_of("tune-1"), lambda: str(engineer.objects_of("tune-1")))
    engineer.shell("athanor sweep --delete tune")
    assert not [run for run in engineer.listed() if run["run"].startswith("tune-")]


SQUARE = """
import json, sys
print(json.dumps({"step": 1, "loss": (float(sys.argv[1]) - 3) ** 2}))
"""


def test_a_search_without_a_model_of_the_results(engineer: Engineer) -> None:
    (engineer.folder / "square.py").write_text(SQUARE, encoding="utf-8")
    words = f"--name square --kind batch {SMALL} --param x=1,3 --search grid --parallel 2 --json"
    answer = json.loads(engineer.shell(f"athanor sweep {words} -- python square.py {{x}}").stdout)
    engineer.shell("athanor sweep --delete square")

    losses = {str(trial["values"]["x"]): trial["metric"] for trial in answer["trials"]}
    assert losses == {"1": 4, "3": 0}
    best = min(answer["trials"], key=lambda trial: trial["metric"])
    assert answer["best"] == best["run"]
