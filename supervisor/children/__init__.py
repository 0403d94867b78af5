"""The child processes: started ahead of need, watched, stopped, reaped."""
