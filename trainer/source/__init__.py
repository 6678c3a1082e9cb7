"""Fetch a job's code from git before its containers start: `python3 -m trainer.source`, in an init container.

Without the program git, which no base image then needs: dulwich speaks the protocol over http(s). What it fetched is
proven by hashing the commit, its trees and its files up to the id that was asked for; there is no .git folder.

One pod of a job fetches and leaves the objects on a shared volume (`--store`), the others take them (`--take`): so one
pod alone needs to reach the server.
"""
