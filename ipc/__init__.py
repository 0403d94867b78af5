"""Bytes, frames, channels, children, the kill ladder, the doorbell.

This room knows nothing of jobs, policies or SQLite. The wire files, which the child imports too, are
`dump`, `messages`, `frame`, `inlet`, `channel`, `rows`, `endings`, `appspec`, `sources`, `capture`,
`description` and `errors`; everything else is for the supervisor's side only.
"""
