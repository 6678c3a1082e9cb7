"""Fetch a job's code from git before its containers start: `python3 -m trainer.source`, in an init container.

Without the program git, which no base image then needs: dulwich speaks the protocol over http(s). What it fetched is
proven by hashing the commit, its trees and its files up to the id that was asked for; there is no .git folder.
"""
