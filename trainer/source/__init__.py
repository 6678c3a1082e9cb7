"""Fetches a job's code from git before its containers start: `python3 -m trainer.source`, in an init container.

It works without the program git, so that no base image needs it: dulwich speaks the protocol over http(s). The result
is verified by hashing the commit, its trees and its files up to the requested id; there is no .git folder.

One pod of a job fetches and leaves the objects on a shared volume (`--store`), the others take them from there
(`--take`): so only one pod needs to reach the server.
"""
