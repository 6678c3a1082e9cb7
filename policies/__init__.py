"""The policy pack: rules that the engine checks against every resource, no matter what declares it.

`values` and `resources` are what a rule sees, `rule` is what a rule is, each area has a module of rules, `catalogue`
lists them all, `crossguard` puts them into Pulumi's terms. docs/policies.md is for the people who run it.
"""
