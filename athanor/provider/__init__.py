"""The package `athanor` for programs in other languages: a component provider on Pulumi's own host for Python.

Its schema is derived from the classes that Python programs use, which also refuse what cannot work.
"""
