"""What a killed update made is found in the account, whatever kind it is, and nothing else is taken for it."""

import json
import re
from typing import Any

import pytest

from athanor.account.cloud import Cloud, Keys
from athanor.account.credentials import open_cloud
from athanor.account.errors import CloudError
from athanor.account.lookup import LOOKUPS, REPEATABLE, candidates
from infra.errors import RefusalError
from infra.settings.parse import parse_settings
from tests.api_double import faults
from tests.api_double.double import ApiDouble
from tests.fixtures.recorded_stack import REPOSITORY
from tests.unit.api_double.api_client import client_of
from tests.unit.tools.recovery.one_of_every_kind import OWNER, REGION, ZONE, Made, one_of_every_kind
from tools.recovery import recover
from tools.recovery.state import pending, settled

VPC = "alicloud:vpc/network:Network"
SETTINGS = {
    "alicloud": {
        "region": REGION,
        "zones": [ZONE],
        "node_pools": [
            {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge"], "minimum": 2, "maximum": 2}
        ],
    }
}


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    with ApiDouble(tmp_path_factory.mktemp("double"), settling_reads=0) as double:
        yield double
    assert double.mistakes() == []
    assert double.unknown_operations() == []


@pytest.fixture(scope="module")
def cloud(double) -> Cloud:
    return open_cloud(parse_settings(SETTINGS).alicloud, double.environment())


@pytest.fixture(scope="module")
def made(double) -> Made:
    return one_of_every_kind(double)


@pytest.mark.parametrize("kind", LOOKUPS)
def test_what_exists_is_found_by_what_the_program_asked_for_and_nothing_else(cloud, made, kind):
    inputs, identifier = made[kind]
    assert [match.id for match in candidates(cloud, kind, inputs)] == [identifier]
    kept = {"type", "policyType", "fileSystemType"}
    other = {name: value if name in kept else "other" for name, value in inputs.items()}
    assert candidates(cloud, kind, other) == []


def test_every_kind_that_the_program_makes_is_known():
    text = "\n".join(file.read_text(encoding="utf-8") for file in (REPOSITORY / "infra").rglob("*.py"))
    used = set(re.findall(r"alicloud\.(?:vpc|ecs|ram|cs|nas)\.([A-Z]\w+)\(", text))
    assert used == {kind.rpartition(":")[2] for kind in {*LOOKUPS, *REPEATABLE}}


def test_another_owner_s_of_the_same_name_is_left_alone(cloud, made):
    inputs, _ = made[VPC]
    assert candidates(cloud, VPC, {**inputs, "tags": {**OWNER, "athanor:stack": "prod"}}) == []


def test_all_pages_are_read(double, cloud):
    client = client_of(double)
    for number in range(60):
        client.rpc("vpc", "CreateVpc", CidrBlock="192.168.0.0/16", VpcName=f"page-{number:02d}")
    assert len(candidates(cloud, VPC, {"vpcName": "page-59"})) == 1


def test_a_busy_cloud_is_asked_again(double, cloud, made):
    inputs, identifier = made[VPC]
    double.faults.add(faults.throttling("DescribeVpcs"), faults.server_error("DescribeVpcs"))
    assert [match.id for match in candidates(cloud, VPC, inputs)] == [identifier]
    assert double.faults.waiting() == []


def test_a_refusal_is_not_an_absence(double, made):
    wrong = Cloud(REGION, Keys(access_key_id="nobody", access_key_secret="x"), double.environment())
    with pytest.raises(CloudError, match=r"vpc DescribeVpcs: InvalidAccessKeyId\.NotFound"):
        candidates(wrong, VPC, made[VPC][0])


def test_nobody_there_is_no_absence():
    nowhere = {"VPC_ENDPOINT": "127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    cloud = Cloud(REGION, Keys(access_key_id="k", access_key_secret="s"), nowhere)
    with pytest.raises(CloudError, match="vpc DescribeVpcs: no answer"):
        candidates(cloud, VPC, {"vpcName": "x"})


# -- the state -----------------------------------------------------------------------------------------------------

URN = f"urn:pulumi:dev::athanor::athanor:infra:AlicloudNetwork${VPC}::vpc"
PROVIDER = "urn:pulumi:dev::athanor::pulumi:providers:alicloud::alicloud::1234"


def resource(**changed: Any) -> dict[str, Any]:
    inputs = {"__defaults": ["dryRun"], "vpcName": "athanor-dev-vpc", "tags": {**OWNER, "__defaults": []}}
    return {"urn": URN, "custom": True, "type": VPC, "inputs": inputs, "provider": PROVIDER, **changed}


def exported(*operations: tuple[str, dict[str, Any]], resources: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    undecided = [{"type": kind, "resource": what} for kind, what in operations]
    return {"version": 3, "deployment": {"resources": resources or [], "pending_operations": undecided}}


def test_a_state_that_never_was_has_nothing_undecided():
    assert pending({"version": 3, "deployment": {}}) == []


def test_what_was_tried_twice_is_undecided_once():
    assert len(pending(exported(("creating", resource()), ("creating", resource())))) == 1


def test_what_is_adopted_stands_as_its_create_would_have_left_it():
    state = exported(("creating", resource()))
    new = settled(state, {URN: (pending(state)[0], "vpc-1")})
    [entry] = new["deployment"]["resources"]
    assert "pending_operations" not in new["deployment"]
    assert entry == {
        **resource(),
        "id": "vpc-1",
        "outputs": {"vpcName": "athanor-dev-vpc", "tags": OWNER, "id": "vpc-1"},
        "refreshBeforeUpdate": True,
    }
    assert state == exported(("creating", resource()))


def test_what_was_deleted_before_its_replacement_is_not_a_reminder_any_more():
    state = exported(("creating", resource()), resources=[resource(id="vpc-0", pendingReplacement=True)])
    new = settled(state, {URN: (pending(state)[0], "vpc-1")})
    assert [entry["id"] for entry in new["deployment"]["resources"]] == ["vpc-1"]


# -- what becomes of each operation --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _at_home(monkeypatch, double):
    """Ask the double's account, as `pulumi up` of this shell would."""
    for name, value in double.environment().items():
        monkeypatch.setenv(name, value)


def looked(report, state: dict[str, Any]) -> list[recover.Outcome]:
    return recover.look(state, parse_settings(SETTINGS), report.progress, poll_seconds=0)


def test_what_the_state_knows_is_not_adopted_again(report, made):
    old = resource(id=made[VPC][1])
    [outcome] = looked(report, exported(("creating", resource()), resources=[old]))
    assert (outcome.resource_id, outcome.said) == (None, "was not created")


@pytest.mark.parametrize("known", [False, True], ids=["neither-in-the-state", "one-in-the-state"])
def test_of_two_a_person_chooses(report, double, known):
    client, name = client_of(double), f"twice-{known}"
    two = [client.rpc("vpc", "CreateVpc", CidrBlock="10.0.0.0/8", VpcName=name)["VpcId"] for _ in range(2)]
    resources = [resource(id=two[0])] if known else []
    state = exported(("creating", resource(inputs={"vpcName": name})), resources=resources)
    with pytest.raises(RefusalError, match=r"2 with this name: .* Fix: delete the unused one") as refused:
        looked(report, state)
    assert all(one in str(refused.value) for one in two)
    assert (f"{two[0]} (in the state)" in str(refused.value)) is known


def test_what_is_half_made_is_waited_for(report, double, monkeypatch):
    monkeypatch.setattr(double.account, "_settling_reads", 2)
    client_of(double).rpc("vpc", "CreateVpc", CidrBlock="10.0.0.0/8", VpcName="slow")
    [outcome] = looked(report, exported(("creating", resource(inputs={"vpcName": "slow"}))))
    assert outcome.resource_id
    assert "is still 'Pending'" in report.text


def test_what_never_gets_ready_is_adopted_as_it_is(report, double):
    double.account.standing_still.add("vpc")
    try:
        made = client_of(double).rpc("vpc", "CreateVpc", CidrBlock="10.0.0.0/8", VpcName="stuck")["VpcId"]
        state = exported(("creating", resource(inputs={"vpcName": "stuck"})))
        settings = parse_settings(SETTINGS)
        [outcome] = recover.look(state, settings, report.progress, poll_seconds=0, patience_seconds=0)
    finally:
        double.account.standing_still.clear()
    assert (outcome.resource_id, outcome.said) == (made, f"adopted as {made}, still 'Pending'")
    assert "is still 'Pending'" in report.text


def test_what_failed_half_made_is_a_person_s(report, double):
    kind = "alicloud:cs/managedKubernetes:ManagedKubernetes"
    record = {"cluster_id": "c-bad", "name": "bad", "state": "failed", "region_id": REGION, "tags": []}
    double.account.add("cluster", "c-bad", record)
    try:
        with pytest.raises(RefusalError, match=r"c-bad is 'failed'.*Fix: delete it in the console"):
            looked(report, exported(("creating", resource(type=kind, inputs={"name": "bad"}))))
    finally:
        double.account.remove("cluster", "c-bad")


def test_without_the_cloud_nobody_is_asked(report, monkeypatch):
    monkeypatch.setattr(recover, "open_cloud", None)
    namespace = resource(type="kubernetes:core/v1:Namespace", urn=URN + "-n")
    scaler = resource(type="alicloud:cs/autoscalingConfig:AutoscalingConfig", urn=URN + "-a")
    said = [one.said for one in looked(report, exported(("creating", namespace), ("creating", scaler)))]
    assert said == ["created again, or adopted as it is, by the next up"] * 2
    said = [one.said for one in looked(report, exported(("updating", resource()), ("deleting", namespace)))]
    assert said == ["read again", "repeated by the next up or destroy"]


def test_without_credentials_nothing_is_decided(report, monkeypatch):
    for name in ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALICLOUD_ACCESS_KEY", "ALIBABA_CLOUD_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RefusalError, match=r"credentials.*Fix: set the same credentials as for `pulumi up`"):
        looked(report, exported(("creating", resource())))


# -- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def pulumi(monkeypatch, fake_program, own_folders):
    """A stack `dev` of a folder of its own, and a program that stands for the engine."""
    del own_folders
    monkeypatch.setattr(recover, "ensure", lambda *_: {"pulumi": fake_program.path})
    monkeypatch.setattr(recover, "stack_config", lambda _: SETTINGS)
    fake_program.answer("stack ls", json.dumps([{"name": "organization/athanor/dev"}]))
    fake_program.answer("stack import")
    fake_program.answer("refresh")
    return fake_program


def commands(pulumi) -> list[str]:
    return [line.split(" --")[0] for line in pulumi.lines]


def recovered(report) -> str:
    recover.recover("dev", report.progress.console, report.progress)
    return report.text


def test_what_was_made_is_taken_into_the_state_and_read(pulumi, report, made):
    pulumi.answer("stack export", json.dumps(exported(("creating", resource()))))
    said = recovered(report)
    assert f"adopted as {made[VPC][1]}" in said
    assert "`pulumi up -s dev` continues from here. If it was `pulumi destroy` that was killed, run that" in said
    assert commands(pulumi) == ["stack ls", "stack export", "stack export", "stack import", "refresh"]
    assert f"--target={URN}" in pulumi.calls[-1]["words"]


def test_with_nothing_undecided_only_the_lock_of_a_dead_owner_is_freed(pulumi, report):
    pulumi.answer("stack export", json.dumps({"version": 3, "deployment": None}))
    assert "There were no pending operations." in recovered(report)
    assert commands(pulumi) == ["stack ls", "stack export", "stack export", "stack import"]


def test_an_interrupted_change_is_read_again(pulumi, report):
    pulumi.answer("stack export", json.dumps(exported(("updating", resource()), resources=[resource(id="vpc-1")])))
    recovered(report)
    assert commands(pulumi)[-1] == "refresh"
    assert f"--target={URN}" in pulumi.calls[-1]["words"]


def test_what_another_update_changes_meanwhile_is_not_overwritten(pulumi, report):
    pulumi.answer("stack export", json.dumps(exported()), once=True)
    pulumi.answer("stack export", json.dumps(exported(resources=[resource(id="vpc-1")])))
    with pytest.raises(RefusalError, match="was changed by another update in the meantime"):
        recovered(report)
    assert "stack import" not in commands(pulumi)


def test_a_stack_that_is_not_there_is_refused(pulumi, report):
    with pytest.raises(RefusalError, match="does not exist in this backend"):
        recover.recover("staging", report.progress.console, report.progress)
    assert commands(pulumi) == ["stack ls"]
