"""The steps of a check in order, the most informative first, and the outcome of each."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from trainer.hardware_check import more_steps as more
from trainer.hardware_check import training_steps as training
from trainer.hardware_check.site import SkippedError, StepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trainer.hardware_check.site import Site

_SHORTEST_SECONDS = 5.0
"""A step that would have less is left out: a process takes that long to start."""
_NO_TIME = "no time left; give more --minutes"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that a check shows."""

    name: str
    title: str
    seconds: float
    """Most that it may take."""
    run: Callable[[Site], dict[str, Any]]
    """Returns its figures, or raises what is in site.py."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a step."""

    name: str
    title: str
    outcome: Literal["done", "failed", "skipped"]
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict[str, Any])
    reason: str = ""
    """The reason why it was skipped, or the failure."""


def all_steps(sizes: Sequence[str]) -> list[Step]:
    """Return the steps of a check with these sizes of the language model."""
    small, large = sizes[0], sizes[-1]
    main, *others = training.VARIANTS
    gpts = dict.fromkeys([(small, main), (large, main), *((size, each) for each in others for size in (small, large))])
    return [
        Step(name="machine", title="What the GPU is", seconds=60, run=more.machine),
        Step(name="digits", title="The example by default settings", seconds=60, run=training.digits),
        *(_gpt(size, each) for size, each in gpts if each in {"bf16", "bf16 autocast"}),
        *(_plain_loop(size) for size in dict.fromkeys((small, large))),
        *(_gpt(size, each) for size, each in gpts if each in {"fp32", "TF32"}),
        Step(name="checkpoint", title="Asynchronous checkpoint, synchronous one", seconds=90, run=training.checkpoint),
        Step(name="sharded", title="Language model on two GPUs, shard=2", seconds=60, run=more.sharded),
        Step(name="lost-rank", title="One of two ranks is killed", seconds=90, run=more.lost_rank),
        Step(name="network", title="All-reduce between two GPUs", seconds=60, run=more.network),
        Step(name="stop-and-resume", title="SIGTERM, and started again", seconds=60, run=training.stop_and_resume),
        Step(name="out-of-memory", title="More memory than there is", seconds=60, run=training.out_of_memory),
        _images(0),
        _images(None),
        Step(name="server", title="The example's model on our server", seconds=60, run=more.server),
        Step(name="torchscript", title="TorchScript in fp32 and fp16", seconds=60, run=more.torchscript),
        *(_gpt(size, each) for size, each in gpts if "," in each),
    ]


def results(steps: Sequence[Step], site: Site, *, seconds: float) -> Iterator[Result]:
    """Run as many steps as there is time for, and yield the outcome of each."""
    end = time.monotonic() + seconds
    for step in steps:
        left = end - time.monotonic()
        if left < _SHORTEST_SECONDS:
            yield _result(step, "skipped", reason=_NO_TIME)
        else:
            yield _done(step, site, min(step.seconds, left))


def _done(step: Step, site: Site, seconds: float) -> Result:
    begin = time.monotonic()
    site.allow(seconds)
    try:
        figures = step.run(site)
    except SkippedError as error:
        return _result(step, "skipped", begin, reason=str(error))
    except StepError as error:
        if seconds < step.seconds and site.seconds_left <= 0:
            return _result(step, "skipped", begin, reason=_NO_TIME)
        return _result(step, "failed", begin, reason=str(error))
    except Exception as error:  # noqa: BLE001  the steps after it have figures of their own
        return _result(step, "failed", begin, reason=f"{type(error).__name__}: {error}")
    finally:
        site.close()
    return _result(step, "done", begin, figures=figures)


def _result(
    step: Step,
    outcome: Literal["done", "failed", "skipped"],
    begin: float | None = None,
    **more: Any,  # noqa: ANN401
) -> Result:
    seconds = 0.0 if begin is None else round(time.monotonic() - begin, 1)
    return Result(name=step.name, title=step.title, outcome=outcome, seconds=seconds, **more)


def _gpt(size: str, variant: str) -> Step:
    return Step(
        name=training.gpt_name(size, variant),
        title=f"GPT {size}, {variant}",
        seconds=120 if "compiled" in variant else 60,
        run=partial(training.gpt, size=size, variant=variant),
    )


def _plain_loop(size: str) -> Step:
    return Step(
        name=f"plain-loop-{size}",
        title=f"GPT {size}, bf16 autocast, in a plain loop",
        seconds=60,
        run=partial(more.plain_loop, size=size),
    )


def _images(workers: int | None) -> Step:
    def run(site: Site) -> dict[str, Any]:
        return training.images(site, site.scale.image_workers if workers is None else workers)

    title = "image files, decoded by " + ("the rank" if workers == 0 else "processes of its own")
    return Step(name=f"images-{'workers' if workers is None else 'rank'}", title=title, seconds=60, run=run)
