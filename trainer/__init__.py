"""Programs that run in pods: training, export and serving. They import none of the project's infrastructure.

The modules at the top, and the packages `source`, `serve` and `network_benchmark`, are the programs that jobs and
services start by name. Another stack's image may be older or newer than the code that declares a job: the names stay.
"""
