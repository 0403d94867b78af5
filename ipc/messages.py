"""The words on the wire between the supervisor and one child.

    supervisor  --- Run, Ack, ReadReply, Stop --------------------------------->  child
    supervisor  <-- Ready, Started, Batch, Read, Progress, Yielded, Done, Failed  child

A frame is a 4-byte big-endian length and one msgpack array whose first item is
the tag. Rows stay undecoded (`Raw`) until their count was checked (CONTRACTS K3).
Every number that counts something is >= 0; the decoder refuses anything else.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Raw, Struct
from msgspec.msgpack import Decoder, Encoder

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Said = Literal["retry", "fail", "optional", "skip", "unstated"]
"""How a compute half said that it ended."""

Result = Annotated[str, Meta(max_length=64 << 10)]
Name = Annotated[str, Meta(max_length=1000)]
Mark = Annotated[str, Meta(max_length=16 << 10)]
Digest = Annotated[bytes, Meta(max_length=16)]

FRAME_LIMIT: Final = 8 << 20
"""Bytes in the largest frame body, in either direction (CONTRACTS K16)."""

WINDOW_BATCHES: Final = 32
"""Batches that a child may have unanswered. Measured: with 8, every commit of a busy lane
held at most 2,048 rows of the default size and its flush took half the time; memory is
bounded by `WINDOW_BYTES` either way."""

WINDOW_BYTES: Final = FRAME_LIMIT
"""Bytes of rows that a child may have unanswered; a larger batch travels alone (CONTRACTS K3)."""

UNIT_ROWS: Final = 1 << 18
"""Rows in a batch of a `checkpoint` lane, whose units no batch_rows cuts: one-cell rows that fill
a frame would take 260 MB once decoded."""

MARK_LIMIT: Final = 16 << 10
"""UTF-8 bytes in the text given to `ctx.checkpoint` (CONTRACTS K15)."""

KINDS_LIMIT: Final = 4000
"""Kinds in one application: a frame of short names would take twenty times its bytes once decoded."""

SOURCE_BYTES: Final = 16
SOURCES_LIMIT: Final = 1000
"""Files of an application that a child tells, so many bytes for each (see `ipc.sources`)."""

PLAIN_LIMIT: Final = 512 << 10
"""Bytes in a message beside the `Raw` field at its end. A decoded character may take four bytes, and the
codec measures text only when it has it, then quotes it: a frame of text took up to 14 times its bytes."""


class Message(Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag_field="tag"):
    """Base of all messages: positional on the wire, tagged by the lower-case class name."""


class ResumePoint(Message, frozen=True, tag=False):
    """What holds after a batch: rows already landed since `mark`, and their digest (CONTRACTS K4).

    `digest` is blake2b-16 over the concatenated encodings of the `skip` rows
    since the mark, so it does not depend on where batches were cut; b"" when skip is 0. With
    skip > 0 and no digest, these rows are the last of their job: only the word Done was to come.
    """

    mark: Mark | None = None
    skip: Count = 0
    digest: Digest = b""


class Run(Message, frozen=True, tag="run"):
    """Work on this job. `payload` is JSON text; limits are rows, bytes, batches.

    The first batch that the child sends has seq `landed_seq` + 1.
    """

    job: int
    kind: str
    payload: str
    number: int
    key: str | None
    resume: str
    point: ResumePoint
    landed_seq: Count
    batch_rows: int
    batch_bytes: int
    window: int = WINDOW_BATCHES
    window_bytes: int = WINDOW_BYTES


class Ack(Message, frozen=True, tag="ack"):
    """Every batch up to and including `seq` has been committed; its credit is free again."""

    seq: Count


class ReadReply(Message, frozen=True, tag="readreply"):
    """The answer to `Read(id)`: `body` is msgpack, or `error` says why there is none."""

    id: Count
    body: Raw
    error: str | None = None


class Stop(Message, frozen=True, tag="stop"):
    """Yield at the next resume point and say `Yielded`; an idle child leaves."""

    reason: str


class Ready(Message, frozen=True, tag="ready"):
    """The application is loaded and this child waits for `Run`.

    `sources` are the files that it was loaded from, as `ipc.sources` packs them.
    """

    pid: int
    kinds: Annotated[list[Name], Meta(max_length=KINDS_LIMIT)]
    sources: Annotated[bytes, Meta(max_length=SOURCES_LIMIT * SOURCE_BYTES)] = b""


class Started(Message, frozen=True, tag="started"):
    """The compute half has been entered."""


class Batch(Message, frozen=True, tag="batch"):
    """A bounded group of rows.

    `rows` is a msgpack array of `count` arrays of `width` cells each; the columns
    listed in `blobs` hold bytes where the others hold text (see `ipc.rows`).
    `keys` are the names of the cells when the compute half yielded dicts, else
    None. `point` is the resume point that holds once this batch has landed. `done` and `total` are
    the last values of `ctx.progress` (None: never said), `spent` is cumulative
    micro-units of money for this attempt.
    """

    seq: Count
    count: Count
    width: Count
    blobs: Annotated[list[Count], Meta(max_length=2000)]
    keys: Annotated[list[Name], Meta(max_length=2000)] | None
    point: ResumePoint
    done: Count | None
    total: Count | None
    spent: Count
    rows: Raw


class Read(Message, frozen=True, tag="read"):
    """Ask the supervisor to run the registered read `verb` with `args` (a msgpack map)."""

    id: Count
    verb: str
    args: Raw


class Progress(Message, frozen=True, tag="progress"):
    """Where the work stands. Only `replayed` (rows dropped so far in a replay) moves a clock."""

    done: Count | None
    total: Count | None
    replayed: Count = 0


class Yielded(Message, frozen=True, tag="yielded"):
    """The child stopped at a resume point because it was asked to."""

    last_seq: Count
    spent: Count = 0


class Done(Message, frozen=True, tag="done"):
    """The compute half ended. `result` is JSON text of at most 8 KiB, or None."""

    last_seq: Count
    result: Result | None = None
    spent: Count = 0


class Failed(Message, frozen=True, tag="failed"):
    """The compute half raised, or the worker refused what it yielded.

    `disposition` is retry, fail, optional, skip or unstated; `code` is "" for an exception of
    the user's, else the rule that was broken: row_type, row_keys, row_too_large,
    unit_too_large, resume_mismatch, payload, unknown_kind or app_start_failed.
    `bases` are the names of the exception's classes, nearest first, for `retry_on`.
    """

    last_seq: Count
    disposition: Said
    code: Annotated[str, Meta(max_length=64)]
    type: Annotated[str, Meta(max_length=128)]
    message: Annotated[str, Meta(max_length=4000)]
    traceback: Annotated[str, Meta(max_length=64 << 10)] = ""
    bases: Annotated[list[str], Meta(max_length=64)] = []
    retry_after: Seconds | None = None
    spent: Count = 0


Down = Run | Ack | ReadReply | Stop
Up = Ready | Started | Batch | Read | Progress | Yielded | Done | Failed

encoder: Final = Encoder()
down_decoder: Final = Decoder(Down)
up_decoder: Final = Decoder(Up)


LARGE: Final = tuple(len(kind.__struct_fields__) + 1 for kind in (Batch, Read))
large_decoders: Final[dict[int, Decoder[tuple[Raw, ...]]]] = {
    0x90 | items: Decoder(tuple[(Raw,) * items])  # type: ignore[misc]
    for items in LARGE
}
"""First byte of the messages that may be larger than `PLAIN_LIMIT` -> what takes them apart undecoded."""
