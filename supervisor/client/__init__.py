"""A store seen from outside a supervisor: enqueue, look, wait, and change what waits; the commands call it.

look   -> a snapshot, which waits for nobody and makes nothing
change -> one transaction under the turnstile -> COMMIT -> ring the doorbell
"""

from supervisor.client.client import Client
from supervisor.client.order import EnqueueOptions, JobRef
from supervisor.client.tidy import Tidied

__all__ = ["Client", "EnqueueOptions", "JobRef", "Tidied"]
