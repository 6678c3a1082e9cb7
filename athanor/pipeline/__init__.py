"""Commands for CI pipelines around a review: apply the reviewed plan, detect drift, report to GitHub.

Each command of `athanor` is a module with `run(arguments)`: apply.py, drift.py, comment.py, issue.py. The last two
import nothing but the standard library and infra/errors.py, so a pipeline needs no packages to run them.
"""
