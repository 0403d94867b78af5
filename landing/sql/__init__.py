"""Every statement over the control tables, by name, in the order of a job's life; there are none elsewhere.

A test prepares each one against the real schema. Moves between states come in
as parameters from `policies.transitions`; no state name is written twice here.
"""
