"""The routes of the Open Inference Protocol v2, and of Triton's repository API.

Sources: Open Inference Protocol v2 (REST); Triton, "Model Repository Extension".
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import orjson
import torch

from trainer.serve.errors import RequestError
from trainer.serve.http import Call, Response, json_response
from trainer.serve.inference import infer
from trainer.serve.model_config import PLATFORM, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trainer.serve.registry import ModelRegistry
    from trainer.serve.watcher import RepositoryWatcher

_SERVER_METADATA = {
    "name": "athanor",
    "version": f"torch-{torch.__version__}",
    "extensions": ["binary_tensor_data", "model_repository"],
}


_MODEL = r"/v2/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?"
_REPOSITORY = "/v2/repository"


class Routes:
    """Which method and path leads to which answer."""

    def __init__(
        self, registry: ModelRegistry, max_json_bytes: int, explicit_control: RepositoryWatcher | None
    ) -> None:
        self._registry = registry
        self._max_json_bytes = max_json_bytes
        self._explicit_control = explicit_control
        self.draining = False
        """The server is about to stop: not ready, and each connection ends with its next response."""
        # the most frequent first; the named groups of a path become arguments
        table: list[tuple[str, str, Callable[..., Awaitable[Response]]]] = [
            ("POST", rf"{_MODEL}/infer", self._infer),
            ("GET", rf"{_MODEL}/ready", self._model_ready),
            ("GET", r"/v2/health/live", self._live),
            ("GET", r"/v2/health/ready", self._server_ready),
            ("GET", _MODEL, self._model_metadata),
            ("GET", r"/v2/?", self._server_metadata),
            ("POST", rf"{_REPOSITORY}/index", self._index),
            ("POST", rf"{_REPOSITORY}/models/(?P<model>[^/]+)/(?P<action>load|unload)", self._control),
        ]
        self._table = [(method, re.compile(path), handler) for method, path, handler in table]

    async def answer(self, call: Call) -> Response:
        """Return the response to a request.

        Raises:
            RequestError: 404 and 405 for what no route takes; others as the route says.
        """
        path, method = call.scope["path"], call.scope["method"]
        for route_method, pattern, handler in self._table:
            found = pattern.fullmatch(path)
            if found is None:
                continue
            if method != route_method:
                raise RequestError(405, f"{method} {path[:200]}: not allowed. Fix: use {route_method}")
            return await handler(call, **found.groupdict())
        raise RequestError(404, f"{path[:200]}: no such route. Fix: see the Open Inference Protocol v2")

    async def _infer(self, call: Call, model: str, version: str | None) -> Response:
        return await infer(self._registry.find(model, version), call, self._max_json_bytes)

    async def _live(self, _call: Call) -> Response:
        return json_response({"live": True})

    async def _server_ready(self, call: Call) -> Response:
        return await self._model_ready(call, self._registry.model_name, None)

    async def _model_ready(self, _call: Call, model: str, version: str | None) -> Response:
        batcher = self._registry.find(model, version)
        if self.draining:
            raise RequestError(503, "shutting down")
        return json_response({"name": model, "version": str(batcher.model.version), "ready": True})

    async def _server_metadata(self, _call: Call) -> Response:
        return json_response(_SERVER_METADATA)

    async def _model_metadata(self, _call: Call, model: str, version: str | None) -> Response:
        spec = self._registry.find(model, version).model.spec
        return json_response(
            {
                "name": spec.name,
                "versions": [str(number) for number in self._registry.versions],
                "platform": PLATFORM,
                "inputs": [_tensor_metadata(tensor) for tensor in spec.inputs],
                "outputs": [_tensor_metadata(tensor) for tensor in spec.outputs],
            }
        )

    async def _index(self, call: Call) -> Response:
        try:
            wanted: Any = orjson.loads(call.body) if call.body.strip() else {}
        except orjson.JSONDecodeError as error:
            raise RequestError(400, f"body is not valid JSON: {error}") from None
        if not isinstance(wanted, dict):
            raise RequestError(400, 'body must be a JSON object such as {"ready": true}')
        entries = self._registry.index()
        if wanted.get("ready") is True:  # pyright: ignore[reportUnknownMemberType]
            entries = [entry for entry in entries if entry["state"] == "READY"]
        return json_response(entries)

    async def _control(self, _call: Call, model: str, action: str) -> Response:
        self._registry.check_name(model)
        watcher = self._explicit_control
        if watcher is None:
            raise RequestError(400, f"{action}: the repository is polled. Fix: start with --model_control=explicit")
        snapshot = await asyncio.wrap_future(watcher.load() if action == "load" else watcher.unload())
        if action == "load" and (snapshot.problem or snapshot.unavailable):
            reasons = {str(version): reason for version, reason in snapshot.unavailable.items()}
            raise RequestError(400, f"load: {snapshot.problem or reasons}")
        return json_response({})


def _tensor_metadata(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype.name, "shape": spec.shape}
