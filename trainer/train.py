"""Trains a model: `torchrun … -m trainer.train --data_dir … --output_dir …`, or `python -m …` for one process."""

from __future__ import annotations

import gc

from trainer.pytorch.processes import end_with


def main() -> None:
    """Run the command line.

    Raises:
        SystemExit: see `run`.
    """
    # A quarter of the time of the imports, and of a rank's start with it, would be collections that find nothing. `run`
    # turns them on when the model is there: torch imports its compiler, an eighth of all modules, with the optimizer.
    gc.disable()
    from trainer.pytorch.program import run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    end_with(main)
