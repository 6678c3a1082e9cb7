"""Ask a server again and again over HTTP/1.1: `python -m benchmarks.http_load PORT FILE CONNECTIONS SECONDS RATE`.

One thread, plain sockets, one request at a time on each connection. RATE 0 sends the next as soon as an answer is
there; else requests become due at random times with so many per second on average, and the time that one waits for a
free connection counts. Prints what `serving_load.Load` holds.
"""

from __future__ import annotations

import random
import select
import socket
import sys
import time
from collections import deque
from pathlib import Path

from benchmarks.serving_load import report

_ANSWER_SECONDS = 30.0
_RECEIVE_BYTES = 1 << 18


class _Connection:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due = 0.0
        self._received = b""

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, request: bytes, due: float) -> None:
        self.due = due
        self._received = b""
        self.socket.sendall(request)

    def receive(self) -> bool | None:
        """Read what came; whether the answer is a success, None while it is not complete."""
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return None
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if len(body) < int(length):
            return None
        return head[9:12] == b"200"


def run(port: int, request: bytes, connections: int, seconds: float, rate: float) -> None:
    """Put the load on a server and print the outcome; sends nothing after `seconds`, but awaits every answer."""
    idle = deque(_Connection(port) for _ in range(connections))
    busy: set[_Connection] = set()
    latencies: list[float] = []
    failed = 0
    arrivals = random.Random(0)
    begin = now = due = time.perf_counter()
    while (now < begin + seconds and (not rate or due < begin + seconds)) or busy:
        while idle and due <= now < begin + seconds:
            connection = idle.popleft()
            connection.send(request, due if rate else time.perf_counter())
            busy.add(connection)
            due = due + arrivals.expovariate(rate) if rate else now
        wait = max(0.0, due - now) if rate and idle and due < begin + seconds else _ANSWER_SECONDS
        ready = select.select(list(busy), [], [], wait)[0]
        now = time.perf_counter()
        if not ready and wait == _ANSWER_SECONDS:
            raise TimeoutError(f"no answer for {_ANSWER_SECONDS:g} s")
        for connection in ready:
            succeeded = connection.receive()
            if succeeded is None:
                continue
            latencies.append(now - connection.due)
            failed += not succeeded
            busy.remove(connection)
            idle.append(connection)
    print(report(latencies, now - begin, failed))


if __name__ == "__main__":
    number, file, count, duration, per_second = sys.argv[1:]
    run(int(number), Path(file).read_bytes(), int(count), float(duration), float(per_second))
