"""A run from lock to close: `serve` drives, `seek` looks for work, `desk` holds the store's threads."""
