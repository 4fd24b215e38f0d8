"""The last words of a server on its standard error."""

import os
import re
from threading import Lock, Thread
from typing import Final, TextIO

from context_assembler.values.texts.cleaning import clean_text

_KEPT_BYTES: Final = 4096
_SHOWN_CHARS: Final = 400
_REST_SECONDS: Final = 1.0
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f\u2500-\u257f]")


class StderrTail:
    """Reads what is written to `writer`, however much, and keeps the end.

    It ends by itself, when nobody holds the writing end any more.
    """

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.writer: TextIO = os.fdopen(writing, "w", encoding="utf-8")
        self._kept = bytearray()
        self._lock = Lock()
        self._thread = Thread(target=self._read, args=(reading,), name="mcp-stderr", daemon=True)
        self._thread.start()

    def text(self, *, waits: bool) -> str:
        """Return the last lines, on one line, without control characters; empty if there are none.

        Args:
            waits: Whether to wait a moment for the rest, since the server has ended.
        """
        if waits:
            self.close()
        with self._lock:
            written = self._kept.decode("utf-8", "replace")
        lines = (_CONTROL.sub("", line).strip() for line in clean_text(written).splitlines())
        return " | ".join(line for line in lines if line)[-_SHOWN_CHARS:]

    def close(self) -> None:
        """Let go of the writing end, and wait a moment for the rest of what was written."""
        self.writer.close()
        self._thread.join(_REST_SECONDS)

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, "rb", buffering=0) as stream:
            while chunk := stream.read(_KEPT_BYTES):
                with self._lock:
                    self._kept += chunk
                    del self._kept[:-_KEPT_BYTES]
