"""The double as a server: TLS, signatures, faults, log, administration, restarts."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import closing, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.api_double import faults
from tests.api_double.double import ApiDouble
from tests.api_double.faults import Fault
from tests.api_double.protocol import Request, Route
from tests.api_double.signatures import Credential
from tests.unit.api_double.api_client import Client, RefusedError, client_of
from tests.unit.api_double.cs.service import KUBECONFIG
from tools.paths import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.api_double.account import Account


def test_every_way_of_signing_is_checked(double: ApiDouble, client: Client) -> None:
    for caller in (client.rpc, client.v3):
        assert caller("sts", "GetCallerIdentity")["AccountId"] == double.account.id
        assert caller("vpc", "DescribeVpcs", VpcId="vpc-ä*~ /+")["TotalCount"] == 0
    assert client.rpc("vpc", "DescribeVpcs", "GET")["Vpcs"] == {"Vpc": []}
    assert client.rpc("vpc", "DescribeVpcs", "GET", VpcId="vpc-ä*~ /+")["TotalCount"] == 0
    for wrong, code in (
        (client.with_key(client.key, "guessed"), "SignatureDoesNotMatch"),
        (client.with_key("LTAIsomebody", client.secret), "InvalidAccessKeyId.NotFound"),
        (client.with_key(client.key, client.secret, "a-token"), "InvalidSecurityToken.MismatchWithAccessKey"),
    ):
        for call in (wrong.rpc, wrong.v3):
            with pytest.raises(RefusedError) as refused:
                call("sts", "GetCallerIdentity")
            assert refused.value.code == code
        with pytest.raises(RefusedError) as refused:
            wrong.roa("GET", "/clusters")
        assert refused.value.code == code


def test_an_unsigned_call_is_refused(client: Client) -> None:
    with pytest.raises(RefusedError, match="MissingAccessKeyId"):
        client.send("POST", "/?Action=DescribeVpcs&Version=2016-04-28", {}, b"")


def test_a_role_can_be_assumed_for_a_while(client: Client) -> None:
    trust = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {}}]}
    trust["Statement"][0]["Principal"] = {"Service": ["ecs.aliyuncs.com"]}
    role = client.rpc("ram", "CreateRole", RoleName="ci", AssumeRolePolicyDocument=json.dumps(trust))["Role"]
    made = client.rpc("sts", "AssumeRole", RoleArn=role["Arn"], RoleSessionName="test", DurationSeconds=3600)
    keys = made["Credentials"]
    temporary = client.with_key(keys["AccessKeyId"], keys["AccessKeySecret"], keys["SecurityToken"])
    assert temporary.rpc("sts", "GetCallerIdentity")["IdentityType"] == "AssumedRoleUser"
    assert temporary.v3("vpc", "DescribeVpcs")["TotalCount"] == 0
    with pytest.raises(RefusedError, match="MissingSecurityToken"):
        temporary.with_key(temporary.key, temporary.secret).rpc("sts", "GetCallerIdentity")
    with pytest.raises(RefusedError, match=r"InvalidParameter\.DurationSeconds"):
        client.rpc("sts", "AssumeRole", RoleArn=role["Arn"], RoleSessionName="test", DurationSeconds=7200)
    with pytest.raises(RefusedError, match=r"EntityNotExist\.Role"):
        client.rpc("sts", "AssumeRole", RoleArn=role["Arn"] + "x", RoleSessionName="test")


def test_an_operation_that_is_not_served_is_reported_and_kept(double: ApiDouble, client: Client) -> None:
    with pytest.raises(RefusedError, match=r"404 InvalidAction\.NotFound"):
        client.rpc("vpc", "CreateVpnGateway", VpcId="vpc-1")
    with pytest.raises(RefusedError, match=r"404 InvalidAction\.NotFound"):
        client.roa("GET", "/nowhere")
    assert double.unknown_operations() == ["cs.GET /nowhere", "vpc.CreateVpnGateway"]


def test_routes_of_the_container_service(certificates: Path) -> None:
    def describe(_: Account, request: Request, cluster_id: str) -> dict[str, object]:
        return {"cluster_id": cluster_id, "query": dict(request.query), "body": request.body}

    routes = [
        Route("POST", "/clusters/{cluster_id}/nodepools", "CreateClusterNodePool", describe),
        Route("DELETE", "/clusters/{cluster_id}", "DeleteCluster", lambda *_, **__: None),
    ]
    with ApiDouble(certificates, cluster_routes=routes) as double:
        client = client_of(double)
        answer = client.roa("POST", "/clusters/c1/nodepools", {"a": [1], "login_password": "x"}, {"k": "v w", "b": ""})
        assert answer == {"cluster_id": "c1", "query": {"k": "v w", "b": ""}, "body": {"a": [1], "login_password": "x"}}
        double.faults.add(Fault(operation="CreateClusterNodePool", where={"nodepool_info.name": "a10"}))
        client.roa("POST", "/clusters/c1/nodepools", {"nodepool_info": {"name": "system"}})
        with pytest.raises(RefusedError, match="InternalError"):
            client.roa("POST", "/clusters/c1/nodepools", {"nodepool_info": {"name": "a10"}})
        assert client.roa("DELETE", "/clusters/c1") is None
        logged = double.log.calls("CreateClusterNodePool")[0]
        assert logged.body == {"a": [1], "login_password": "[redacted]"}
        assert [call.status for call in double.log.calls()] == [200, 200, 500, 204]


def test_the_log_keeps_calls_in_order_without_secrets(double: ApiDouble, client: Client) -> None:
    client.rpc("vpc", "CreateVpc", VpcName="one", ClientToken="token-1", Password="x", NextToken="7")
    with pytest.raises(RefusedError):
        client.rpc("vpc", "DescribeVpcAttribute", VpcId="vpc-none")
    first, second = double.log.calls()
    assert (first.number, first.product, first.operation, first.client_token) == (1, "vpc", "CreateVpc", "token-1")
    assert first.parameters == {
        "VpcName": "one",
        "ClientToken": "token-1",
        "Password": "[redacted]",
        "NextToken": "7",
    }
    assert (second.number, second.status, second.code) == (2, 404, "InvalidVpcID.NotFound")
    assert double.log.calls("CreateVpc") == [first]
    assert double.log.calls(since=1) == [second]
    double.log.wait_for(lambda call: call.status == 404)
    with pytest.raises(TimeoutError):
        double.log.wait_for(lambda call: call.status == 404, since=2, timeout_seconds=0)


def test_faults_meet_the_calls_they_are_for(double: ApiDouble, client: Client) -> None:
    double.faults.add(faults.throttling("CreateVpc", call=2, times=2), faults.server_error("DescribeVpcs"))
    client.rpc("vpc", "CreateVpc")
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"400 Throttling\.User"):
            client.rpc("vpc", "CreateVpc")
    client.rpc("vpc", "CreateVpc")
    with pytest.raises(RefusedError, match="503 ServiceUnavailable"):
        client.rpc("vpc", "DescribeVpcs")
    assert client.rpc("vpc", "DescribeVpcs")["TotalCount"] == 2
    double.faults.add(faults.quota_exceeded("CreateVpc", "Vpc"), faults.no_stock("CreateVSwitch"))
    with pytest.raises(RefusedError, match=r"400 QuotaExceeded\.Vpc"):
        client.rpc("vpc", "CreateVpc")
    assert [fault["operation"] for fault in double.faults.waiting()] == ["CreateVSwitch"]
    with pytest.raises(RefusedError, match=r"403 OperationDenied\.NoStock"):
        client.rpc("vpc", "CreateVSwitch")


def test_a_call_meets_one_fault_and_the_next_call_the_next(double: ApiDouble, client: Client) -> None:
    double.faults.add(faults.throttling("CreateVpc"), faults.server_error("*", call=1), faults.no_stock("CreateVpc"))
    for code in ("Throttling.User", "ServiceUnavailable", "OperationDenied.NoStock"):
        with pytest.raises(RefusedError) as refused:
            client.rpc("vpc", "CreateVpc")
        assert refused.value.code == code
    client.rpc("vpc", "CreateVpc")


def test_a_fault_can_meet_each_third_call(double: ApiDouble, client: Client) -> None:
    double.faults.add(faults.server_error("*", call=3, every=3, times=2))
    for _ in range(9):
        with suppress(RefusedError):
            client.rpc("vpc", "DescribeVpcs")
    assert [call.status for call in double.log.calls()] == [200, 200, 503, 200, 200, 503, 200, 200, 200]
    assert double.faults.waiting() == []


def test_a_temporary_key_can_expire_half_way(double: ApiDouble, client: Client) -> None:
    double.account.add_session("STS.a", Credential("secret", "token"))
    temporary = client.with_key("STS.a", "secret", "token")
    double.faults.add(Fault(operation="CreateVpc", effect="expire"))
    made = temporary.rpc("vpc", "CreateVpc")["VpcId"]
    for call in (temporary.rpc, temporary.v3):
        with pytest.raises(RefusedError, match=r"400 InvalidSecurityToken\.Expired"):
            call("vpc", "DescribeVpcAttribute", VpcId=made)
    assert client.rpc("vpc", "DescribeVpcAttribute", VpcId=made)["VpcId"] == made


def test_a_fault_can_be_for_certain_parameters(double: ApiDouble, client: Client) -> None:
    double.faults.add(Fault(operation="CreateVpc", where={"VpcName": "second"}, code="QuotaExceeded.Vpc", status=400))
    client.rpc("vpc", "CreateVpc", VpcName="first")
    with pytest.raises(RefusedError, match=r"QuotaExceeded\.Vpc"):
        client.rpc("vpc", "CreateVpc", VpcName="second")


def test_a_dropped_call_did_nothing_and_a_lost_answer_did(double: ApiDouble, client: Client) -> None:
    double.faults.add(Fault(operation="CreateVpc", effect="drop"))
    with pytest.raises((http.client.HTTPException, OSError)):
        client.rpc("vpc", "CreateVpc", ClientToken="t")
    assert double.inventory() == {}
    double.faults.add(Fault(operation="CreateVpc", effect="lose_answer"))
    with pytest.raises((http.client.HTTPException, OSError)):
        client.rpc("vpc", "CreateVpc", ClientToken="t")
    assert len(double.inventory()["vpc"]) == 1
    # the same token gets the first call's answer, and nothing is created twice
    again = client.rpc("vpc", "CreateVpc", ClientToken="t")
    assert double.inventory() == {"vpc": [again["VpcId"]]}
    assert [call.status for call in double.log.calls()] == [0, 0, 200]


def test_a_client_token_is_good_for_one_request(client: Client) -> None:
    first = client.rpc("vpc", "CreateVpc", ClientToken="t", VpcName="one")
    assert client.rpc("vpc", "CreateVpc", ClientToken="t", VpcName="one")["VpcId"] == first["VpcId"]
    with pytest.raises(RefusedError, match="400 IdempotentParameterMismatch"):
        client.rpc("vpc", "CreateVpc", ClientToken="t", VpcName="two")
    with pytest.raises(RefusedError, match="400 IdempotentParameterMismatch"):
        client.rpc("vpc", "DeleteVpc", ClientToken="t", VpcName="one")
    assert client.rpc("vpc", "CreateVpc", ClientToken="u", VpcName="one")["VpcId"] != first["VpcId"]
    # a refused call leaves its token free
    with pytest.raises(RefusedError):
        client.rpc("vpc", "CreateVpc", ClientToken="v", CidrBlock="300.0.0.0/8")
    client.rpc("vpc", "CreateVpc", ClientToken="v", CidrBlock="10.0.0.0/8")


def test_a_held_call_is_done_before_it_is_answered(double: ApiDouble, client: Client) -> None:
    double.faults.add(Fault(operation="CreateVpc", effect="hold"))
    answers: list[str] = []
    caller = threading.Thread(target=lambda: answers.append(client.rpc("vpc", "CreateVpc")["VpcId"]))
    caller.start()
    double.log.wait_for(lambda call: call.operation == "CreateVpc")
    assert len(double.inventory()["vpc"]) == 1
    assert answers == []
    double.faults.release()
    caller.join()
    assert answers == double.inventory()["vpc"]


def test_another_process_can_administer_it(double: ApiDouble, client: Client) -> None:
    def ask(method: str, path: str, body: object = None) -> object:
        request = urllib.request.Request(
            double.administration_url + path, method=method, data=None if body is None else json.dumps(body).encode()
        )
        with urllib.request.urlopen(request) as response:
            content = response.read()
        return json.loads(content) if content else None

    made = client.rpc("vpc", "CreateVpc")["VpcId"]
    assert ask("GET", "/inventory") == {"vpc": [made]}
    assert [call["operation"] for call in ask("GET", "/requests")] == ["CreateVpc"]
    assert ask("GET", "/requests?since=1") == []
    ask("POST", "/faults", {"operation": "CreateVpc", "code": "Throttling.User", "status": 400})
    assert len(ask("GET", "/faults")) == 1
    with pytest.raises(RefusedError, match=r"Throttling\.User"):
        client.rpc("vpc", "CreateVpc")
    ask("POST", "/faults", {"operation": "CreateVpc"})
    ask("DELETE", "/faults")
    client.rpc("vpc", "CreateVpc")
    assert ask("GET", "/unknown") == []
    assert ask("GET", "/refused") == []
    for method, path, body, status in (("GET", "/", None, 404), ("POST", "/faults", {"nonsense": 1}, 400)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(method, path, body)
        assert refused.value.code == status
        refused.value.close()


def test_a_second_double_continues_where_the_first_ended(tmp_path: Path) -> None:
    with ApiDouble(tmp_path) as first:
        port = int(first.address.split(":")[1])
        made = client_of(first).rpc("vpc", "CreateVpc", ClientToken="t", VpcName="kept")
    with ApiDouble(tmp_path, port=port) as second:
        assert second.address == first.address
        client = client_of(second)
        assert second.inventory() == {"vpc": [made["VpcId"]]}
        assert client.rpc("vpc", "CreateVpc", ClientToken="t", VpcName="kept")["VpcId"] == made["VpcId"]
        assert client.rpc("vpc", "CreateVpc")["VpcId"] != made["VpcId"]


def test_it_runs_as_a_program_and_forgets_nothing_when_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.api_double", "--folder", str(tmp_path), "--region", "cn-beijing"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        exported: dict[str, str] = {}
        for line in process.stdout:
            if line.startswith("#"):
                break
            name, _, value = line.removeprefix("export ").strip().partition("=")
            exported[name] = value
        client = Client(
            address=exported["VPC_ENDPOINT"],
            trusted=exported["SSL_CERT_FILE"],
            key=exported["ALIBABA_CLOUD_ACCESS_KEY_ID"],
            secret=exported["ALIBABA_CLOUD_ACCESS_KEY_SECRET"],
        )
        made = client.rpc("vpc", "CreateVpc")["VpcId"]
        assert client.rpc("vpc", "DescribeVpcAttribute", VpcId=made)["RegionId"] == "cn-beijing"
        process.kill()
    with ApiDouble(tmp_path) as double:
        assert double.inventory() == {"vpc": [made]}


def test_it_runs_until_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.api_double", "--folder", str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("#"):
                break
        process.terminate()
        assert process.wait() == 0


def test_all_can_be_done_at_once(tmp_path: Path) -> None:
    with ApiDouble(tmp_path, settling_reads=0) as double:
        client = client_of(double)
        vpc = client.rpc("vpc", "CreateVpc")["VpcId"]
        assert client.rpc("vpc", "DescribeVpcAttribute", VpcId=vpc)["Status"] == "Available"
        client.rpc("vpc", "DeleteVpc", VpcId=vpc)
        assert client.rpc("vpc", "DescribeVpcs")["TotalCount"] == 0


def test_it_listens_on_loopback_alone(double: ApiDouble) -> None:
    assert double.address.startswith("127.0.0.1:")
    assert double.administration_url.startswith("http://127.0.0.1:")


def through(double: ApiDouble, host: str) -> http.client.HTTPSConnection:
    """Return a connection to a host, opened by a client that has the double as its proxy and trusts its authority."""
    environment = double.environment()
    proxy = urlsplit(environment["HTTPS_PROXY"])
    context = ssl.create_default_context(cafile=environment["SSL_CERT_FILE"])
    connection = http.client.HTTPSConnection(proxy.hostname or "", proxy.port, timeout=20, context=context)
    connection.set_tunnel(host, 443)
    return connection


@pytest.mark.parametrize("host", ["cs.aliyuncs.com", "a-project.cn-hangzhou.log.aliyuncs.com"])
def test_every_host_of_the_cloud_is_the_double_for_those_who_have_it_as_their_proxy(
    double: ApiDouble, host: str
) -> None:
    with closing(through(double, host)) as connection:
        for _ in range(2):
            connection.request("POST", "/?Action=DescribeVpcs&Version=2016-04-28")
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["Code"]) == (400, "MissingAccessKeyId")
    assert (double.gate.caught(), double.gate.refused()) == ([host], [])


def test_its_own_address_can_be_reached_through_it(double: ApiDouble) -> None:
    host, port = double.address.split(":")
    connection = through(double, host)
    connection.set_tunnel(host, int(port))
    with closing(connection):
        connection.request("GET", "/?Action=DescribeVpcs&Version=2016-04-28")
        assert connection.getresponse().status == 400
    assert (double.gate.caught(), double.gate.refused()) == ([], [])


def test_nobody_else_is_reached_through_it(double: ApiDouble) -> None:
    for host in ("example.com", "aliyuncs.com.example.com"):
        with closing(through(double, host)) as connection, pytest.raises(OSError, match="403"):
            connection.request("GET", "/")
    in_the_clear = urllib.request.ProxyHandler({"http": double.environment()["HTTP_PROXY"]})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.build_opener(in_the_clear).open("http://example.org/file")
    assert (refused.value.code, b"nobody else" in refused.value.read()) == (403, True)
    refused.value.close()
    assert double.gate.refused() == ["aliyuncs.com.example.com", "example.com", "example.org"]


def test_the_cluster_behind_is_reached_without_the_proxy(certificates: Path) -> None:
    kubeconfig = KUBECONFIG.replace("127.0.0.1:1", "10.1.2.3:6443")
    double = ApiDouble(certificates, kubeconfig=kubeconfig)
    try:
        assert "10.1.2.3" in double.environment()["NO_PROXY"].split(",")
    finally:
        double.stop()


def test_a_mistake_of_the_double_is_not_taken_for_the_clouds(certificates: Path) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("oops")

    with ApiDouble(certificates, cluster_routes=[Route("GET", "/clusters", "DescribeClusters", broken)]) as double:
        with pytest.raises(RefusedError, match="500 MistakeOfTheDouble"):
            client_of(double).roa("GET", "/clusters")
        assert "KeyError: 'oops'" in double.mistakes()[0]
