"""Reasons not to start a job now: one predicate a file, joined in `union` and nowhere else (SPEC U27).

Each takes a `Rule` (what one kind asks for) and a `World` (what is so now) and returns why the kind must
wait, or None. None of them knows of another.
"""
