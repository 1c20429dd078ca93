"""Lines that are typed or piped in, read while other things go on. No thread is used, so none is ever left in a read."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import termios
from contextlib import suppress

from bridle.errors import OptionsError

__all__ = ["Lines"]

_LONGEST = 16 * 1024 * 1024
_PIECE = 65536


class Lines:
    """Lines of an input. A terminal stays as it is: it edits lines, and turns Ctrl-C into a signal.

    Args:
        descriptor: the input; None means standard input.

    Attributes:
        interactive: True if the input is a terminal.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = -1 if descriptor is None else descriptor
        if descriptor is None:
            with suppress(OSError, ValueError, AttributeError):
                self._descriptor = sys.stdin.fileno()
        self.interactive = self._descriptor >= 0 and os.isatty(self._descriptor)
        self._unread = bytearray()
        self._looked_at = 0
        self._ended = self._descriptor < 0

    async def next(self) -> str | None:
        """Return the next line without its end; None at the end of the input."""
        while (end := self._unread.find(b"\n", self._looked_at)) < 0 and not self._ended:
            self._looked_at = len(self._unread)
            if self._looked_at > _LONGEST:
                raise OptionsError(f"A line on standard input is longer than {_LONGEST:,} bytes.", field="prompt")
            await self._read()
        self._looked_at = 0
        if end < 0:
            line, self._unread = bytes(self._unread), bytearray()
            return self._text(line) if line else None
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return self._text(line)

    def forget(self) -> None:
        """Forget what was typed and not read yet: it was no answer to what is asked now."""
        if self.interactive:
            with suppress(OSError, termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)
            self._unread.clear()
            self._looked_at = 0

    def _text(self, line: bytes) -> str:
        try:
            return line.decode("utf-8-sig").removesuffix("\r")
        except UnicodeDecodeError as error:
            if self.interactive:
                return line.decode("utf-8", "replace")
            raise OptionsError(
                f"A line on standard input is no UTF-8 text (byte {error.start}); convert it first, with `iconv`.",
                field="prompt",
            ) from None

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        readable = loop.create_future()

        def tell() -> None:
            if not readable.done():
                readable.set_result(None)

        try:
            loop.add_reader(self._descriptor, tell)
        except PermissionError:
            pass  # a file: it cannot be waited for, and never has to be
        else:
            try:
                await readable
            finally:
                loop.remove_reader(self._descriptor)
            if not select.select([self._descriptor], [], [], 0)[0]:
                return  # it was forgotten meanwhile: a read would hold up everything until somebody types
        try:
            data = os.read(self._descriptor, _PIECE)
        except BlockingIOError:
            return
        except OSError as error:
            if not self.interactive:
                raise OptionsError(f"Standard input cannot be read: {error.strerror}.", field="prompt") from None
            data = b""  # the terminal is gone
        self._unread += data
        # On a terminal Ctrl-D after some text gives that text, and nothing is over.
        self._ended = not data
