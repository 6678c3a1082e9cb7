"""The package `athanor` for programs in other languages: a component provider on Pulumi's Python host.

Its schema is derived from the classes that Python programs use, which also refuse what cannot work.
"""
