"""What can go wrong on the wire and with a child process; facts are attributes."""


class IpcError(Exception):
    """Base of this room's errors."""


class ProtocolError(IpcError):
    """The other side sent something that is not our protocol; it is not to be listened to again.

    `code` is the rule that was broken: frame_length, frame_torn, message, rows,
    credit, order, descriptors; `detail` says how.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class ChannelFull(IpcError):
    """More is waiting to be written than the other side may leave unread."""


class ChannelClosed(IpcError):
    """The other side is gone."""


class AppError(IpcError):
    """An application could not be loaded: `file` and `line` say where its import broke, where known."""

    def __init__(self, spec: str, message: str, file: str | None = None, line: int | None = None) -> None:
        place = f" ({file}:{line})" if file and line else f" ({file})" if file else ""
        super().__init__(f"{spec}: {message}{place}")
        self.spec = spec
        self.message = message
        self.file = file
        self.line = line
