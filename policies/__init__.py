"""The policy pack: rules that the engine checks against every resource, no matter what declares it.

`values` and `resources` define a rule's input, `rule` defines a rule, each area has a module of rules, `catalogue`
lists them all, and `crossguard` adapts them to Pulumi. docs/policies.md is for the people who run it.
"""
