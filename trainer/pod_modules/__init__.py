"""Modules that programs in every job's pods may import, whatever their image has.

Pods find them in a ConfigMap (`infra/run_module.py`), where each is a module of its own, so they import each other
without the name of this package. Only the standard library of Python 3.8 and later; the trainer uses some of them, too.
"""
