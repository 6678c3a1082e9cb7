"""The adapter between the pack and Pulumi's policy SDK: resources in, violations out.

A value that is unknown during a preview raises the SDK's own error, which the engine shows as an advisory note whatever
the policy's level: it is neither a violation nor a pass.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, cast

import pulumi_policy.policy
from google.protobuf import json_format
from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError

from policies.catalogue import RULES, STACK_RULES
from policies.resources import Resource
from policies.values import Unknown, Value, plain

if TYPE_CHECKING:
    from policies.rule import Rule, RuleConfig, StackRule

sdk: Any = pulumi_policy.policy


class _Options(Protocol):
    protect: bool


_REMEMBERED = 512
"""Resources: more than a stack has."""


class _Once:
    """A function that remembers the results of the last arguments, the first of which counts by its identity."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._results: OrderedDict[tuple[object, ...], tuple[object, object]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, argument: object, *options: object) -> object:
        # As long as it is kept, no other object has its number.
        key = id(argument), *options
        with self._lock:
            if (remembered := self._results.get(key)) is not None:
                return remembered[1]
        result = self._function(argument, *options)
        with self._lock:
            self._results[key] = argument, result
            if len(self._results) > _REMEMBERED:
                self._results.popitem(last=False)
        return result


def decode_once() -> None:
    """Make the SDK decode a resource once, not once per policy.

    Of a stack with CRDs, whose schemas are large, that took 9 s of CPU in each preview (pulumi-policy 1.21, `Analyze`
    and `AnalyzeStack` in policy.py).
    """
    messages = {**vars(json_format), "MessageToDict": _Once(json_format.MessageToDict)}
    sdk.json_format = SimpleNamespace(**messages)
    sdk.deserialize_properties = _Once(sdk.deserialize_properties)
    sdk.unknown_checking_proxy = _Once(sdk.unknown_checking_proxy)


def policies() -> list[Policy]:
    """Return the pack's policies; every one is mandatory unless the configuration says otherwise."""
    declared: dict[str, Resource] = {}
    return [
        *(_resource_policy(rule, declared) for rule in RULES),
        *(_stack_policy(rule, declared) for rule in STACK_RULES),
    ]


def _resource_policy(rule: Rule[Any], declared: dict[str, Resource]) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = _resource(args.resource_type, args.name, args.urn, args.opts, args.props)
        declared[resource.urn] = resource
        undecided: Unknown | None = None
        for finding in rule.findings(resource, rule.parse(dict(args.get_config()))):
            if isinstance(finding, Unknown):
                undecided = undecided or finding
            else:
                report(finding, None)
        if undecided is not None:
            raise UnknownValueError(UNKNOWN_STRING_VALUE, list(undecided.path))

    return ResourceValidationPolicy(
        name=rule.name,
        description=rule.demand,
        validate=validate,
        enforcement_level=EnforcementLevel.MANDATORY,
        config_schema=config_schema(rule.config),
        severity=Severity(rule.severity),
    )


def _stack_policy(rule: StackRule[Any], declared: dict[str, Resource]) -> Policy:
    """Return the policy of a rule about resources together.

    Of a stack the engine shows outputs, of which a preview without a cluster knows none. So these rules, too, judge
    what the program declares, as the engine has shown it one resource at a time.
    """

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        resources = [
            declared.get(r.urn) or _resource(r.resource_type, r.name, r.urn, r.opts, r.props) for r in args.resources
        ]
        undecided: tuple[str, ...] | None = None
        for resource, finding in rule.findings(resources, rule.parse(dict(args.get_config()))):
            if isinstance(finding, Unknown):
                undecided = undecided or (*((resource.name,) if resource else ()), *finding.path)
            else:
                report(finding, resource.urn if resource else None)
        if undecided is not None:
            raise UnknownValueError(UNKNOWN_STRING_VALUE, list(undecided))

    return StackValidationPolicy(
        name=rule.name,
        description=rule.demand,
        validate=validate,
        enforcement_level=EnforcementLevel.MANDATORY,
        config_schema=config_schema(rule.config),
        severity=Severity(rule.severity),
    )


def _resource(kind: str, name: str, urn: str, options: _Options, properties: Mapping[str, Any]) -> Resource:
    return Resource(type=kind, name=name, urn=urn, protect=options.protect, properties=_plain_properties(properties))


def _plain_with_unknowns(properties: Mapping[str, Any]) -> Value:
    # Nothing at all: outputs that a preview cannot know.
    return plain(_with_unknowns(properties, ())) or Unknown()


# Each rule asks for the same ones again.
_plain_properties: Callable[[Mapping[str, Any]], Value] = cast("Any", _Once(_plain_with_unknowns))


def _with_unknowns(value: object, path: tuple[str, ...]) -> object:
    """Return the SDK's view of properties, which raises at unknown values, with `Unknown` in their place."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        return {key: _at(fields, key, (*path, key)) for key in fields}
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = cast("Sequence[object]", value)
        return [_at(items, place, (*path, str(place))) for place in range(len(items))]
    return value


def _at(holder: Any, key: str | int, path: tuple[str, ...]) -> object:  # noqa: ANN401 - a mapping or a sequence
    try:
        value = cast("object", holder[key])
    except UnknownValueError:
        return Unknown(path)
    return _with_unknowns(value, path)


def config_schema(config: type[RuleConfig]) -> PolicyConfigSchema:
    """Return the JSON Schema of a rule's configuration, against which the engine checks it."""
    schema = config.model_json_schema()
    return PolicyConfigSchema(properties=_inlined(schema["properties"], schema.get("$defs", {})))


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Replace references by what they refer to: the engine gets the properties alone."""
    if isinstance(node, dict):
        fields = cast("dict[str, Any]", node)
        if "$ref" in fields:
            return _inlined(definitions[fields["$ref"].rpartition("/")[2]], definitions)
        return {key: _inlined(value, definitions) for key, value in fields.items()}
    return [_inlined(item, definitions) for item in cast("list[Any]", node)] if isinstance(node, list) else node
