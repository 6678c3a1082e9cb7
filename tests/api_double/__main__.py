"""Run the API double until interrupted: `python -m tests.api_double`, then export what it prints."""

from __future__ import annotations

import argparse
import shlex
import signal
from pathlib import Path

from infra.kubeconfig import minified_kubeconfig
from tests.api_double.double import ApiDouble
from tools.paths import paths
from tools.terminal import status_of


def main() -> int:
    """Start a double and print what points a provider at it."""
    parser = argparse.ArgumentParser(prog="python -m tests.api_double", description=__doc__)
    parser.add_argument("--region", default="cn-hangzhou", help="region of its endpoints (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port of the API (default: a free one)")
    parser.add_argument(
        "--folder", type=Path, default=paths().home / "api-double", help="keeps the account (default: %(default)s)"
    )
    parser.add_argument("--kubeconfig", type=Path, help="of the cluster behind every ACK cluster of this double")
    parser.add_argument("--context", default="", help="its context there")
    options = parser.parse_args()
    kubeconfig = minified_kubeconfig(options.kubeconfig, options.context) if options.kubeconfig else None
    ends = {signal.SIGINT, signal.SIGTERM}
    # blocked before any thread starts, so that they wait for this one
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    with ApiDouble(options.folder, region=options.region, port=options.port, kubeconfig=kubeconfig) as double:
        for name, value in double.environment().items():
            print(f"export {name}={shlex.quote(value)}")
        print(
            f"# administration: {double.administration_url}/requests, /inventory, /unknown, /refused, /faults",
            flush=True,
        )
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    raise SystemExit(status_of(main))
