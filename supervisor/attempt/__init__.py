"""One claim from `Run` to its receipt: `dispatch` is the way through, `state` the value that walks it."""
