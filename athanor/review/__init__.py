"""Review of a change before it happens: one Markdown report of the engine's previews of one or more stacks.

`athanor review` is the command (command.py); `review` in report.py is the same for a program.
"""
