"""Ask a server again and again over gRPC: `python -m benchmarks.grpc_load PORT FILE CONNECTIONS SECONDS`.

One call at a time on each connection; FILE holds a serialised ModelInferRequest. Prints what `serving_load.Load` holds.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import grpc.aio

from benchmarks.serving_load import report

_METHOD = "/inference.GRPCInferenceService/ModelInfer"
_ANSWER_SECONDS = 30.0


async def run(port: int, request: bytes, connections: int, seconds: float) -> None:
    """Put the load on a server and print the outcome; calls nothing after `seconds`, but awaits every answer."""
    latencies: list[float] = []
    failed = 0

    async def ask(channel: grpc.aio.Channel, end: float) -> None:
        nonlocal failed
        # bytes in, bytes out
        call = channel.unary_unary(_METHOD)
        while (began := time.perf_counter()) < end:
            try:
                await call(request, timeout=_ANSWER_SECONDS)
            except grpc.aio.AioRpcError:
                failed += 1
            latencies.append(time.perf_counter() - began)

    # a pool of its own: channels with the same address would share one connection
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) for _ in range(connections)]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    begin = time.perf_counter()
    await asyncio.gather(*(ask(channel, begin + seconds) for channel in channels))
    print(report(latencies, time.perf_counter() - begin, failed))
    for channel in channels:
        await channel.close()


if __name__ == "__main__":
    number, file, count, duration = sys.argv[1:]
    asyncio.run(run(int(number), Path(file).read_bytes(), int(count), float(duration)))
