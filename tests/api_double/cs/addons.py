"""Add-ons of a cluster: install, upgrade, configure, uninstall."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from tests.api_double.account import public
from tests.api_double.cs import tasks
from tests.api_double.cs.addon_catalogue import ADDONS, KnownAddon
from tests.api_double.cs.addon_pods import waits_for_a_node
from tests.api_double.cs.body import body_of
from tests.api_double.cs.find import cluster_of
from tests.api_double.protocol import ApiError, Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.api_double.account import Account, Record
    from tests.api_double.protocol import Request

_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)")
_VERSION = re.compile(r"v?\d+\.\d+\.\d+[-.\w]*")


def key(cluster_id: str, name: str) -> str:
    """Return the id of an add-on in the account."""
    return f"{cluster_id}/{name}"


def installed(account: Account, cluster_id: str) -> dict[str, Record]:
    """Return the add-ons of a cluster by name."""
    return {addon["name"]: addon for addon in account.all("addon").values() if addon["_cluster"] == cluster_id}


def add(account: Account, cluster_id: str, asked: Mapping[str, Any]) -> Record:
    """Put an add-on into a cluster; of the same name there is only ever one.

    Raises:
        ApiError: no such add-on, no such version, or the configuration is not a JSON object.
    """
    known = _known(asked.get("name") or "")
    record: Record = {
        "name": known.name,
        "version": _version(known, asked.get("version") or ""),
        "config": json.dumps(_configuration(known.name, asked.get("config") or "")),
        "state": "active",
        "logging": {"capable": False, "enabled": False},
        "_cluster": cluster_id,
    }
    return account.add("addon", key(cluster_id, known.name), record)


def install(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer InstallClusterAddons."""
    cluster_of(account, cluster_id)
    asked = _items(request.body)
    present = installed(account, cluster_id)
    for item in asked:
        known = _known(item.get("name") or "")
        if known.name in present:
            raise ApiError(400, "AddonAlreadyInstalled", f"addon {known.name} is already installed in {cluster_id}")
        if known.birth_only:
            raise ApiError(400, "AddonNotSupported", f"addon {known.name} can only be chosen when a cluster is created")
        missing = [name for name in known.needs if name not in present]
        if missing:
            raise ApiError(400, "AddonDependencyNotMet", f"addon {known.name} needs {', '.join(missing)}")
    for item in asked:
        add(account, cluster_id, item)
    return _begin(account, cluster_id, [item["name"] for item in asked], "installing", "addon_install")


def upgrade(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer UpgradeClusterAddons."""
    cluster_of(account, cluster_id)
    asked = _items(request.body)
    for item in asked:
        record = _installed(account, cluster_id, item.get("component_name") or "")
        known = _known(record["name"])
        next_version = item.get("next_version") or ""
        if next_version and _numbers(next_version) < _numbers(record["version"]):
            raise ApiError(
                400, "InvalidAddonVersion", f"addon {known.name} {record['version']} can not go back to {next_version}"
            )
        record["version"] = _version(known, next_version) if next_version else record["version"]
        if item.get("config"):
            record["config"] = json.dumps(_merged(record, item["config"]))
    return _begin(account, cluster_id, [item["component_name"] for item in asked], "upgrading", "addon_upgrade")


def uninstall(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer UnInstallClusterAddons."""
    cluster_of(account, cluster_id)
    names = [item.get("name") or "" for item in _items(request.body)]
    present = installed(account, cluster_id)
    for name in names:
        _installed(account, cluster_id, name)
        users = [other for other in present if name in ADDONS[other].needs and other not in names]
        if ADDONS[name].stays or users:
            raise ApiError(400, "AddonRequired", f"addon {name} can not be uninstalled")
    answer = tasks.start(account, cluster_id, "addon_uninstall", ("addon", key(cluster_id, names[0])))
    for name in names:
        account.begin("addon", key(cluster_id, name), {"state": "deleting"}, None)
    _tell(account)
    return answer


def modify(account: Account, request: Request, cluster_id: str, name: str) -> None:
    """Answer ModifyClusterAddon: a new configuration, merged into the present one."""
    cluster_of(account, cluster_id)
    record = _installed(account, cluster_id, name)
    record["config"] = json.dumps(_merged(record, body_of(request).get("config") or ""))
    account.begin("addon", key(cluster_id, name), {"state": "updating"}, {"state": "active"})
    _tell(account)


def describe_instance(account: Account, _request: Request, cluster_id: str, name: str) -> dict[str, Any]:
    """Answer GetClusterAddonInstance."""
    cluster_of(account, cluster_id)
    addon = _installed(account, cluster_id, name)
    if waits_for_a_node(account, addon):
        return public(addon)
    record = account.read("addon", key(cluster_id, name))
    if record is None:
        raise _missing(name, cluster_id)
    return record


def describe_instances(account: Account, _request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer ListClusterAddonInstances."""
    cluster_of(account, cluster_id)
    addons = account.read_all("addon", lambda addon: addon["_cluster"] == cluster_id)
    return {"addons": [{name: one[name] for name in ("name", "state", "version")} for one in addons]}


def describe_status(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer DescribeClusterAddonsUpgradeStatus."""
    cluster_of(account, cluster_id)
    names: list[str] = json.loads(request.get("componentIds", "[]"))
    answer: dict[str, Any] = {}
    for name in names:
        record = account.read("addon", key(cluster_id, name))
        if record is not None:
            status = "Success" if record["state"] == "active" else "Running"
            answer[name] = {
                "addon_info": {"component_name": name, "version": record["version"]},
                "can_upgrade": False,
                "tasks": {"status": status, "message": ""},
            }
    return answer


def describe_known(account: Account, request: Request, name: str) -> dict[str, Any]:
    """Answer DescribeAddon: one add-on of the marketplace."""
    cluster_id = request.get("cluster_id")
    if cluster_id:
        cluster_of(account, cluster_id)
    known = _known(name)
    return {**_metadata(known, _version(known, request.get("version"))), "newer_versions": []}


def describe_all_known(_account: Account, _request: Request) -> dict[str, Any]:
    """Answer ListAddons: the marketplace."""
    return {"addons": [_metadata(known, known.default_version) for known in ADDONS.values()]}


def _metadata(known: KnownAddon, version: str) -> dict[str, Any]:
    return {
        "name": known.name,
        "version": version,
        "category": known.category,
        "managed": known.managed,
        "install_by_default": known.by_default or known.stays,
        "supported_actions": ["Install", "Upgrade", "Modify"] + ([] if known.stays else ["Uninstall"]),
        "architecture": ["amd64", "arm64"],
        "config_schema": "{}",
    }


def _begin(account: Account, cluster_id: str, names: list[str], passing: str, kind: str) -> dict[str, Any]:
    answer = tasks.start(account, cluster_id, kind, ("addon", key(cluster_id, names[0])))
    for name in names:
        account.begin("addon", key(cluster_id, name), {"state": passing}, {"state": "active"})
    _tell(account)
    return answer


def _tell(account: Account) -> None:
    account.kubernetes.changed()


def _known(name: str) -> KnownAddon:
    addon = ADDONS.get(name)
    if addon is None:
        raise ApiError(404, "AddonNotFound", f"addon {name!r} not found")
    return addon


def _missing(name: str, cluster_id: str) -> ApiError:
    return ApiError(404, "AddonNotFound", f"addon {name!r} is not installed in cluster {cluster_id}")


def _installed(account: Account, cluster_id: str, name: str) -> Record:
    record = account.find("addon", key(cluster_id, name))
    if record is None:
        raise _missing(name, cluster_id)
    return record


def _version(known: KnownAddon, requested: str) -> str:
    if requested and not _VERSION.fullmatch(requested):
        raise ApiError(404, "AddonNotFound", f"addon {known.name} has no version {requested!r}")
    return requested or known.default_version


def _numbers(version: str) -> list[int]:
    match = _NUMBERS.match(version)
    return [int(number) for number in match[1].split(".")] if match else []


def _configuration(name: str, text: str) -> dict[str, Any]:
    try:
        content: object = json.loads(text or "{}")
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ApiError(400, "InvalidParameter.Config", f"config of addon {name} is not a JSON object: {text!r}")
    return cast("dict[str, Any]", content)


def _merged(record: Record, text: str) -> dict[str, Any]:
    return _merge(json.loads(record["config"]), _configuration(record["name"], text))


def _merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for name, value in new.items():
        before: object = merged.get(name)
        both = isinstance(before, dict) and isinstance(value, dict)
        merged[name] = _merge(cast("dict[str, Any]", before), cast("dict[str, Any]", value)) if both else value
    return merged


def _items(body: object) -> list[dict[str, Any]]:
    """Return the add-ons that a request names."""
    if not isinstance(body, list) or not body:
        raise ApiError(400, "InvalidParameter.Addons", "the request names no addon")
    return cast("list[dict[str, Any]]", body)


_COMPONENTS = "/clusters/{cluster_id}/components"
ROUTES = [
    Route("GET", "/addons", "ListAddons", describe_all_known),
    Route("GET", "/addons/{name}", "DescribeAddon", describe_known),
    Route("GET", "/clusters/{cluster_id}/addon_instances", "ListClusterAddonInstances", describe_instances),
    Route("GET", "/clusters/{cluster_id}/addon_instances/{name}", "GetClusterAddonInstance", describe_instance),
    Route("POST", f"{_COMPONENTS}/install", "InstallClusterAddons", install),
    Route("POST", f"{_COMPONENTS}/upgrade", "UpgradeClusterAddons", upgrade),
    Route("POST", f"{_COMPONENTS}/uninstall", "UnInstallClusterAddons", uninstall),
    Route("GET", f"{_COMPONENTS}/upgradestatus", "DescribeClusterAddonsUpgradeStatus", describe_status),
    Route("POST", _COMPONENTS + "/{name}/config", "ModifyClusterAddon", modify),
]
