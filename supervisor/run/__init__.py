"""A run from its lock to its close: `serve` drives, `seek` looks for work, `desk` holds the store's threads."""
