"""Which product a call's API version means."""

from __future__ import annotations

from tests.api_double.dispatch import RpcService
from tests.api_double.rpc import cpfs, ecs, eip, nas, nas_access, nat, ram, security_groups, sts, vpc

CS_VERSION = "2015-12-15"
RPC_SERVICES = {
    "2016-04-28": RpcService("vpc", {**vpc.OPERATIONS, **nat.OPERATIONS, **eip.OPERATIONS}),
    "2014-05-26": RpcService("ecs", {**ecs.OPERATIONS, **security_groups.OPERATIONS}),
    "2015-05-01": RpcService("ram", ram.OPERATIONS),
    "2015-04-01": RpcService("sts", sts.OPERATIONS),
    "2017-06-26": RpcService("nas", {**nas.OPERATIONS, **nas_access.OPERATIONS, **cpfs.OPERATIONS}),
}
