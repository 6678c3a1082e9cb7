"""Serve the policy pack to the engine."""

from pulumi_policy import PolicyPack

from policies.crossguard import decode_once, policies

decode_once()
PolicyPack("athanor", policies())
