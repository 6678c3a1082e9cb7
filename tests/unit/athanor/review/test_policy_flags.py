"""Who previews a stack names the policy pack, and the stack's configuration of it where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.review.engine import policy_flags

if TYPE_CHECKING:
    from pathlib import Path


def test_a_preview_checks_the_policies_as_its_stack_configures_them(tmp_path: Path) -> None:
    pack = tmp_path / "policies"
    file = pack / "environments" / "prod.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")

    assert policy_flags(pack, "prod") == ["--policy-pack", str(pack), "--policy-pack-config", str(file)]
    assert policy_flags(pack, "team") == ["--policy-pack", str(pack)]
    assert policy_flags(None, "prod") == []
