"""Decides. Pure functions over frozen values; `now`, readings and dice are arguments.

Start reading at `job` (the words), then `transitions` (the one table of states).
"""
