"""A run from lock to close.

`serve` takes the lock and builds, `opening` settles what dead runs left, `daemon` turns, `lookout` looks
around once a second, `seek` claims, `upkeep` prunes, `desk` holds the store's threads.
"""
