"""Serve the policy pack to the engine."""

from pulumi_policy import PolicyPack

from policies.crossguard import policies

PolicyPack("athanor", policies())
