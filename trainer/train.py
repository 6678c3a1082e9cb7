"""Train: `torchrun … -m trainer.train --data_dir … --output_dir …`, or `python -m trainer.train …` for one process."""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command line.

    Raises:
        SystemExit: 2 for wrong arguments, 143 after a stop on request.
    """
    # A quarter of the time of the imports, and of a rank's start with it, would be collections that find nothing.
    gc.disable()
    from trainer.pytorch.program import run  # noqa: PLC0415

    gc.freeze()  # what is there now stays: later collections need not look at it
    gc.enable()
    run()


if __name__ == "__main__":
    main()
