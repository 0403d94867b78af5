"""The lanes that come with laneway: applications like any other, on the public API alone.

`vault` is the story of `vault_sync`; `folder` reads the world for it, `chunks`
cuts texts, `schema` holds the tables and every statement, `search` asks them.
"""

from supervisor.lanes.vault import app

__all__ = ["app"]
