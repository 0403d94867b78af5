"""The sole writer: the only room that opens SQLite. It is given its clock and knows no process.

    lander thread:  inbox -> one group -> BEGIN IMMEDIATE, operations, COMMIT -> replies
    other writers:  one operation -> turnstile -> BEGIN IMMEDIATE, operation, COMMIT
    readers:        a read-only snapshot

An operation (`jobs`, `batches`, `finish`, `runs`) is a frozen value with `apply(tx)`;
all SQL is in `sql`, the tables are in `migrations/`.
"""
