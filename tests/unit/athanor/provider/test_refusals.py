"""A refusal reaches the engine in its own words, without those that the host and gRPC have for other errors."""

import asyncio

import grpc
import pulumi
import pytest
from pulumi.errors import InputPropertiesError
from pulumi.provider import ConstructResult
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError, ProviderServicer
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from athanor.provider.package import Package
from infra.errors import RefusalError

REFUSAL = RefusalError("workers", 0, "must be 1 to 1000", "choose a number from 1 to 1000")


@pytest.fixture
def package(monkeypatch):
    """A package that knows no components: what it does with those of others is tested elsewhere."""
    monkeypatch.setattr(Package, "_program", lambda _: None)
    monkeypatch.setattr("athanor.provider.package.settings.set_root_resource", lambda _: None)
    return Package.__new__(Package)


async def _details(error):
    """Return the details of the status that an error in Construct becomes on its way to the engine."""
    servicer = ProviderServicer(None, [], "")

    async def construct(*_):
        raise error

    servicer._construct = construct
    server = grpc.aio.server()
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await stub.Construct(provider_pb2.ConstructRequest())
            return failed.value.details()
    finally:
        await server.stop(None)


def test_a_refusal_while_a_component_is_declared(package, monkeypatch):
    def refuse(*_):
        raise ComponentInitError(REFUSAL)

    monkeypatch.setattr(ComponentProvider, "construct", refuse)
    with pytest.raises(InputPropertiesError) as raised:
        package.construct("ours", "athanor:index:PyTorchJob", {})
    assert asyncio.run(_details(raised.value)) == str(REFUSAL)


def test_a_refusal_that_comes_with_an_output(package, monkeypatch):
    async def refused():
        future = asyncio.get_running_loop().create_future()
        future.set_exception(REFUSAL)
        known = asyncio.get_running_loop().create_future()
        known.set_result(True)
        return pulumi.Output(known, future, known)

    async def read():
        output = await refused()
        monkeypatch.setattr(ComponentProvider, "construct", lambda *_: ConstructResult("urn", {"name": output}))
        return await package.construct("ours", "athanor:index:PyTorchJob", {}).state["name"].future()

    with pytest.raises(InputPropertiesError) as raised:
        asyncio.run(read())
    assert asyncio.run(_details(raised.value)) == str(REFUSAL)
