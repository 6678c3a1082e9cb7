"""Measures a machine's GPUs: `python -m trainer.hardware_check --minutes 8 --output report.json`."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainer.common import command_line
from trainer.common.validation import SettingsError, between, listed
from trainer.hardware_check import report
from trainer.hardware_check.site import FULL, MINIATURE, Site
from trainer.hardware_check.steps import Result, all_steps, results

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class HardwareCheckConfig:
    """Measure what this machine's GPUs do with the trainer and with the models that it publishes.

    Each step is bounded in time, the most telling ones come first, and a step that lacks something is left out with its
    reason. It needs no network. Without a GPU the steps run as miniatures on the CPU.
    """

    minutes: float = 8.0
    """Most that the whole check may take."""
    output: Path = Path("report.json")
    """The report; the same as Markdown is written next to it."""
    work_dir: Path = Path(tempfile.gettempdir())
    """Where a scratch folder is created, which needs about 15 GB for the time of the check."""
    steps: tuple[str, ...] = ()
    """Names of the steps to do; without any all of them."""

    def __post_init__(self) -> None:
        between("minutes", self.minutes, 0.1, 24 * 60)


def check(config: HardwareCheckConfig, site: Site) -> list[Result]:
    """Run the steps, and write the report after each of them: measurements are not lost with the machine.

    Raises:
        SettingsError: there is no step of a given name.
        OSError: the report cannot be written.
    """
    steps = all_steps(site.scale.gpt_sizes)
    names = [each.name for each in steps]
    if unknown := [each for each in config.steps if each not in names]:
        raise SettingsError(f"steps={listed(unknown)}: must be of {', '.join(names)}")
    chosen = [each for each in steps if not config.steps or each.name in config.steps]
    done: list[Result] = []
    date = datetime.now(UTC).isoformat(timespec="seconds")
    for result in results(chosen, site, seconds=60 * config.minutes):
        done.append(result)
        print(f"{result.outcome:8}{result.seconds:6.1f} s  {result.title}  {result.reason[:200]}", flush=True)
        content = report.document(done, date=date, minutes=config.minutes, torch_version=torch.__version__)
        report.write(config.output, content)
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 if no step failed, 1 if one did."""
    config = command_line.parse(HardwareCheckConfig, "trainer.hardware_check", arguments)
    gpus = torch.cuda.device_count()
    with tempfile.TemporaryDirectory(prefix="athanor-check-", dir=config.work_dir) as folder:
        site = Site(Path(folder), FULL if gpus else MINIATURE, gpus=gpus)
        try:
            done = check(config, site)
        except (SettingsError, OSError) as error:
            print(f"hardware_check: {error}", file=sys.stderr)
            return 1
        finally:
            site.close()
    print(config.output.with_suffix(".md").read_text(encoding="utf-8"))
    print(json.dumps({report.KEY: json.loads(config.output.read_text(encoding="utf-8"))}), flush=True)
    return int(any(each.outcome == "failed" for each in done))


if __name__ == "__main__":
    sys.exit(main())
