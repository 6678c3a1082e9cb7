"""The platform's own description in the cluster: what a kubeconfig's holder reads is what other stacks read."""

from __future__ import annotations

import json

from infra.contract_object import CONTRACT_OBJECT, read_contract
from infra.outputs import PlatformOutputs


def test_it_holds_the_outputs_of_the_stack(record_stack):
    recording = record_stack()
    [described] = [each for each in recording.of_kind("ConfigMap") if each.name == "platform-contract"]
    metadata = described.inputs["metadata"]
    outputs = json.loads(metadata["annotations"]["athanor.dev/outputs"])
    assert (metadata["name"], metadata["namespace"]) == (CONTRACT_OBJECT, outputs["namespace"])
    assert read_contract(described.inputs, outputs["namespace"]) == PlatformOutputs.parse(outputs)
    exported = {name: recording.exports[name] for name in outputs}
    assert outputs == exported
