"""From a call to its answer: who signs it, which operation it is, what it meets, and what is noted of it."""

from __future__ import annotations

import functools
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tests.api_double import signatures
from tests.api_double.account import request_id
from tests.api_double.faults import Faults, as_error
from tests.api_double.protocol import ApiError, Request
from tests.api_double.request_log import RequestLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.api_double.account import Account
    from tests.api_double.operation import Operation
    from tests.api_double.protocol import Route
    from tests.api_double.wire import Call

_CARRIED_BY_EVERY_CALL = {
    *("Action", "Version", "Format", "Timestamp", "AccessKeyId", "SecurityToken", "SourceIp", "SecureTransport"),
    *("Signature", "SignatureMethod", "SignatureVersion", "SignatureNonce", "SignatureType", "BearerToken"),
}
_READS = ("Describe", "Get", "List")


@dataclass(frozen=True)
class RpcService:
    """A product whose operations are named in the call."""

    product: str
    operations: Mapping[str, Operation]


@dataclass(frozen=True)
class RoaService:
    """A product whose operations are identified by method and path."""

    product: str
    routes: Sequence[Route]


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    status: int
    body: object = None
    """JSON content; None sends an empty body."""


@dataclass(frozen=True)
class _Target:
    """The operation that a call asks for; without `run` there is none of that name."""

    request: Request
    run: Callable[[], Any] | None
    roa: bool


class Dispatcher:
    """Answers calls, for one account in one region.

    Args:
        account: what exists.
        services: the products by API version.
        region: where the endpoints are.
    """

    def __init__(self, account: Account, services: Mapping[str, RpcService | RoaService], region: str) -> None:
        self.faults = Faults()
        self.log = RequestLog()
        self.unknown: list[str] = []
        self.mistakes: list[str] = []
        self._account = account
        self._services = services
        self._region = region

    def answer(self, call: Call) -> Answer | None:
        """Carry out a call and return its answer; None drops the connection instead."""
        request, roa = Request(product="", operation="", region=self._region), False
        try:
            target = self._target(call)
            request, roa = target.request, target.roa
            signer = signatures.check(call, self._account.credential)
            self._authorize(signer, f"{request.product}:{request.operation}")
            return self._answer(target, signer)
        except ApiError as error:
            self._note(request, error.status, error.code)
            return Answer(error.status, _error_body(error, roa=roa))
        except Exception:  # noqa: BLE001 - a mistake of the double itself must not look like a lost connection
            self.mistakes.append(traceback.format_exc())
            self._note(request, 500, "MistakeOfTheDouble")
            error = ApiError(500, "MistakeOfTheDouble", self.mistakes[-1])
            return Answer(error.status, _error_body(error, roa=roa))

    def _authorize(self, signer: str, action: str) -> None:
        """Refuse what the RAM policies of a temporary key do not allow; everybody may ask who they are."""
        credential = self._account.credential(signer)
        if credential is None or credential.allowed is None or action == "sts:GetCallerIdentity":
            return
        if action not in credential.allowed:
            raise ApiError(403, "Forbidden.RAM", f"RAM policy Forbidden for action {action}.")

    def _answer(self, target: _Target, signer: str) -> Answer | None:
        request = target.request
        if target.run is None:
            self.unknown.append(f"{request.product}.{request.operation}")
            raise ApiError(
                404, "InvalidAction.NotFound", "Specified api is not found, please check your url and method."
            )
        fault = self.faults.meet(request.operation, {**request.parameters, **_fields(request.body)})
        if fault is not None and fault.effect == "error":
            raise as_error(fault)
        if fault is not None and fault.effect == "drop":
            self._note(request, 0, "")
            return None
        content: Any = self._carry_out(request, target.run)
        status = 204 if content is None else 200
        dropped = fault is not None and fault.effect == "lose_answer"
        self._note(request, 0 if dropped else status, "")
        if fault is not None and fault.effect == "hold":
            self.faults.wait_for_release()
        if fault is not None and fault.effect == "expire":
            self._account.end_session(signer)
        if dropped:
            return None
        if target.roa:
            return Answer(status, content)
        return Answer(status, {"RequestId": request_id(), **cast("dict[str, Any]", content)})

    def _target(self, call: Call) -> _Target:
        service = self._services.get(call.version)
        if isinstance(service, RoaService):
            return self._roa_target(call, service)
        parameters = {**call.query, **call.form}
        operation = call.action or "(none)"
        request = Request(
            product=service.product if service else f"version {call.version}",
            operation=operation,
            parameters={name: value for name, value in parameters.items() if name not in _CARRIED_BY_EVERY_CALL},
            method=call.method,
            region=parameters.get("RegionId") or self._region,
            access_key_id=parameters.get("AccessKeyId", ""),
            client_token=parameters.get("ClientToken", ""),
        )
        handler = service.operations.get(operation) if service else None
        return _Target(request, functools.partial(handler, self._account, request) if handler else None, roa=False)

    def _roa_target(self, call: Call, service: RoaService) -> _Target:
        matched: Route | None = None
        names: dict[str, str] = {}
        for route in service.routes:
            match = route.match(call.method, call.path)
            if match is not None:
                matched, names = route, match
                break
        request = Request(
            product=service.product,
            operation=matched.operation if matched else f"{call.method} {call.path}",
            parameters=call.query,
            method=call.method,
            path=call.path,
            body=call.json(),
            region=call.query.get("RegionId") or self._region,
            client_token=call.query.get("ClientToken") or call.headers.get("x-acs-client-token", ""),
        )
        if matched is None:
            return _Target(request, None, roa=True)
        return _Target(request, functools.partial(matched.handler, self._account, request, **names), roa=True)

    def _carry_out(self, request: Request, run: Callable[[], Any]) -> Any:  # noqa: ANN401 - the handler's JSON
        token = "" if request.operation.startswith(_READS) else request.client_token
        content = [{**request.parameters, "ClientToken": ""}, request.path, request.body]
        with self._account.lock:
            try:
                return self._account.answer_once(token, request.operation, content, run)
            finally:
                # also after a refusal: what it looked at may have come a step further
                self._account.save()

    def _note(self, request: Request, status: int, code: str) -> None:
        self.log.add(
            product=request.product,
            operation=request.operation,
            parameters=dict(request.parameters),
            body=request.body,
            path=request.path,
            client_token=request.client_token,
            status=status,
            code=code,
        )


def _fields(body: object, path: str = "") -> dict[str, str]:
    """Return the strings in a JSON body by their paths, such as nodepool_info.name; lists are left out."""
    if isinstance(body, str):
        return {path: body}
    if not isinstance(body, dict):
        return {}
    fields: dict[str, str] = {}
    for name, value in cast("dict[str, object]", body).items():
        fields |= _fields(value, f"{path}.{name}" if path else name)
    return fields


def _error_body(error: ApiError, *, roa: bool) -> dict[str, Any]:
    if roa:
        return {
            "code": error.code,
            "message": error.message,
            "requestId": request_id(),
            "status": error.status,
        }
    return {"RequestId": request_id(), "HostId": "127.0.0.1", "Code": error.code, "Message": error.message}
