"""A client of Prometheus' HTTP API. Source: Prometheus, "HTTP API", format of expression query results."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode, urlsplit

from infra.errors import RefusalError
from tools.operations.dashboards.errors import PrometheusError, QueryError
from tools.proxies import urlopen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TIMEOUT_SECONDS = 60
_SHOWN = 500


@dataclass(frozen=True, kw_only=True)
class Series:
    """A time series, or its value at one time."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]
    """Unix time in seconds, value."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """From when to when, Unix time in seconds."""

    start: float
    end: float
    step: int
    """Seconds between two points."""

    @property
    def seconds(self) -> int:
        """Its length."""
        return round(self.end - self.start)


class Prometheus:
    """A Prometheus at an address."""

    def __init__(self, address: str) -> None:
        """Take over where it is.

        Args:
            address: host:port, or a URL with the path before /api.

        Raises:
            RefusalError: it is neither.
        """
        url = address if "://" in address else f"http://{address}"
        if not _is_http(url):
            fix = "use host:port or http(s)://host:port, such as localhost:9090"
            raise RefusalError("PROMETHEUS", address, "is not a valid address", fix)
        self.url = url.rstrip("/")

    def at(self, expr: str, time: float) -> list[Series]:
        """Return the series that a query yields at one time.

        Raises:
            QueryError: the query is refused.
            PrometheusError: there is no answer.
        """
        return self._ask("query", {"query": expr, "time": f"{time:.3f}"})

    def over(self, expr: str, window: Window) -> list[Series]:
        """Return the series that a query yields over time.

        Raises:
            QueryError: the query is refused.
            PrometheusError: there is no answer.
        """
        times = {"start": f"{window.start:.3f}", "end": f"{window.end:.3f}", "step": str(window.step)}
        return self._ask("query_range", {"query": expr, **times})

    def _ask(self, path: str, arguments: Mapping[str, str]) -> list[Series]:
        url = f"{self.url}/api/v1/{path}"
        request = urllib.request.Request(url, urlencode(arguments).encode())  # noqa: S310 - http(s), see __init__
        try:
            with urlopen(request, timeout_seconds=_TIMEOUT_SECONDS) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error.code, error.read()) from error
        except (OSError, HTTPException) as error:
            raise PrometheusError(
                f"no Prometheus answers at {self.url}: {error}. Fix: run `make up`, or use another one: PROMETHEUS=…"
            ) from error
        return _series(_data(body, self.url))


def _refused(status: int, body: bytes) -> Exception:
    try:
        return QueryError(str(json.loads(body)["error"]))
    except (ValueError, KeyError, TypeError):
        said = body[:_SHOWN].decode(errors="replace")
        return PrometheusError(f"Prometheus answered with status {status}: {said}")


def _data(body: bytes, url: str) -> Mapping[str, Any]:
    try:
        data: object = json.loads(body)["data"]
    except (ValueError, KeyError, TypeError) as error:
        raise PrometheusError(f"the server at {url} is not a Prometheus: {body[:_SHOWN]!r}") from error
    return cast("Mapping[str, Any]", data)


def _series(data: Mapping[str, Any]) -> list[Series]:
    kind, result = data["resultType"], data["result"]
    if kind == "scalar":
        return [Series(labels={}, points=[_point(result)])]
    return [
        Series(labels=each["metric"], points=[_point(pair) for pair in each.get("values", [each.get("value")])])
        for each in result
    ]


def _point(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:  # such as brackets around what is not an IPv6 address
        return False
    return parts.scheme in {"http", "https"} and bool(parts.netloc)
