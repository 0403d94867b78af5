"""What a run is told by command line, environment and `supervisor.toml`: in `values`, one frozen value."""
