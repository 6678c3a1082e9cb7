"""The stack's outputs are a contract with other teams: flat, typed, versioned, and without secrets."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, fields
from pathlib import Path

import pytest

from infra.errors import RefusalError
from infra.offers import PlatformOffers
from infra.outputs import CONTRACT_VERSION, PlatformOutputs
from tests.recording_engine import Secret, Unknown
from tests.tables import each_row

# What a stack of version 1 exported when the contract was introduced. It is never edited: when this file no longer
# fits, the contract has changed, CONTRACT_VERSION must rise and a frozen example of the new version joins this one.
FROZEN_V1 = json.loads((Path(__file__).parent / "contract_v1.json").read_text(encoding="utf-8"))


def test_a_stack_of_contract_1_can_still_be_read():
    outputs = PlatformOutputs.parse(FROZEN_V1)
    since_then = dict.fromkeys(
        ("offers", "serving_image", "tensorflow_image", "prometheus_url", "grafana_url", "logs_url"), ""
    )
    assert asdict(outputs) == {**{name: FROZEN_V1[name] for name in asdict(outputs) if name in FROZEN_V1}, **since_then}


def test_the_program_still_exports_all_of_contract_1(local_stack):
    """A consumer of version 1 finds each key it knows, with a value of the same type."""
    assert CONTRACT_VERSION == 1
    for key, value in FROZEN_V1.items():
        assert type(local_stack.exports[key]) is type(value), key


def test_outputs_are_flat_and_hold_no_secret(local_stack):
    for key, value in local_stack.exports.items():
        assert isinstance(value, str | int), key
        assert not isinstance(value, Secret | Unknown), key
        assert "kubeconfig" not in key


def test_what_is_exported_can_be_read_back(local_stack):
    outputs = PlatformOutputs.parse(local_stack.exports)
    assert outputs.namespace == "athanor"
    assert outputs.queue == "training"
    assert (outputs.data_claim, outputs.output_claim) == ("data", "output")


def test_a_disabled_example_exports_nothing_of_its_own(record_stack):
    exports = record_stack({"digits": {"enabled": False}}).exports
    assert set(exports) == {field.name for field in fields(PlatformOutputs)}


def test_keys_of_later_releases_are_ignored():
    assert PlatformOutputs.parse({**FROZEN_V1, "gpu_pools": ["a"]}) == PlatformOutputs.parse(FROZEN_V1)


@each_row("version", [1, 1.0, "1", "1.0"])
def test_the_version_may_come_back_as_a_float_or_text(version):
    assert PlatformOutputs.parse({**FROZEN_V1, "contract_version": version}).contract_version == 1


def test_a_newer_contract_is_refused():
    with pytest.raises(RefusalError, match="update athanor") as caught:
        PlatformOutputs.parse({**FROZEN_V1, "contract_version": CONTRACT_VERSION + 1})
    assert str(CONTRACT_VERSION + 1) in str(caught.value)


@each_row("version", ["next", None, [], 1.5])
def test_a_version_that_is_not_a_number_is_refused(version):
    with pytest.raises(RefusalError, match="contract_version"):
        PlatformOutputs.parse({**FROZEN_V1, "contract_version": version})


@each_row("key", [field.name for field in fields(PlatformOutputs) if field.default is MISSING])
def test_a_missing_key_is_named(key):
    with pytest.raises(RefusalError, match=f"lack {key}\\. Fix: use a stack"):
        PlatformOutputs.parse({name: value for name, value in FROZEN_V1.items() if name != key})


OFFERS = json.dumps(PlatformOffers(queues=("training",)).to_dict())


@each_row(
    ("name", "value", "says"),
    [
        ("offers", json.loads(OFFERS), r"offers of stack prod = .*: is not text"),
        ("offers", "[]", r"offers of stack prod = \[\]: cannot be read"),
        ("offers", '{"pools": {}}', r"offers.pools of stack prod = \{\}: cannot be read"),
        ("offers", OFFERS.replace('["training"]', '"training"'), r"offers.queues of stack prod = 'training'"),
        ("offers", '{"added": 1}', r"offers of stack prod = \['added'\]: lack pools"),
        ("offers", "[" * 99_999, r"offers of stack prod = '.*: is not JSON"),
        ("namespace", "", r"namespace of stack prod = '': is not the name of an object"),
        ("output_claim", "my claim", r"output_claim of stack prod = 'my claim': is not the name of an object"),
        ("offers", "no JSON", r"offers of stack prod = 'no JSON': is not JSON"),
        (
            "offers",
            '{"pools": [{}], "pod_networkings": [], "pod_security": "restricted"}',
            r"offers.pools.0.name of stack",
        ),
        ("namespace", ["ml"], r"namespace of stack prod = \['ml'\]: is not text"),
        ("trainer_image", None, r"trainer_image of stack prod = None: is not text"),
    ],
)
def test_an_output_of_another_shape_is_refused_with_its_stack(name, value, says):
    with pytest.raises(RefusalError, match=rf"^{says}.*Fix: use a stack of the athanor project"):
        PlatformOutputs.parse({**FROZEN_V1, name: value}, "stack prod")


@each_row("outputs", [[], "offers", None])
def test_outputs_that_have_no_names_are_refused(outputs):
    with pytest.raises(RefusalError, match=r"outputs of stack prod = .*: are not outputs by their names"):
        PlatformOutputs.parse(outputs, "stack prod")


def test_words_of_a_newer_release_are_left_to_who_needs_them():
    newer = {**json.loads(OFFERS), "pod_security": "stricter", "added": 1}
    assert PlatformOutputs.parse({**FROZEN_V1, "offers": json.dumps(newer)}).platform_offers.queues == ("training",)


def test_another_projects_stack_is_refused_without_its_values():
    with pytest.raises(RefusalError) as caught:
        PlatformOutputs.parse({"password": "hidden"})
    assert "password" in str(caught.value)
    assert "hidden" not in str(caught.value)
