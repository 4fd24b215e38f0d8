"""A connection to Qdrant that is opened at its first use, and its errors in words."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from context_assembler.errors import AssemblyError, MemoryUnavailableError
from context_assembler.memory.asked_parts import check_location, check_seconds
from context_assembler.memory.qdrant_points import load_qdrant
from context_assembler.values.given import check_type

OLDEST_SERVER: Final = (1, 16)  # the first that keeps metadata of a collection
_IN_MEMORY: Final = ":memory:"
_SHOWN_CHARS: Final = 200
_NO_ANSWER: Final = "Check that the server runs, its address, and the timeout."
_REFUSED: Final = "Check the server's log, and the versions of server and client."
_NO_KEY: Final = "Pass api_key=…, or set QDRANT_API_KEY."
_CHECK: Final = "Check the folder: one process at a time may open it; several need a server."


class QdrantConnection:
    """A server, a folder or nothing but memory, by how the location looks."""

    def __init__(
        self,
        location: str | Path,
        *,
        api_key: str | Callable[[], str] | None = None,
        timeout_seconds: int = 10,
    ) -> None:
        check_location(location)
        if not callable(api_key):
            check_type("api_key", api_key, str, type(None), such_as="the key, or a function")
        check_seconds("timeout_seconds", timeout_seconds)
        self.location = str(location)
        self.is_server = self.location.startswith(("http://", "https://"))
        is_folder = not self.is_server and self.location != _IN_MEMORY
        self._folder = Path(location).expanduser().absolute() if is_folder else None
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds
        self._client: Any = None

    def client(self, *, is_writing: bool) -> Any:
        """Return the open client; `None` where there is nothing to be read."""
        if self._client is None:
            if not (is_writing or self._may_hold_something()):
                return None
            self._client = self._open()
        return self._client

    def close(self) -> None:
        """Let go of it; the next call opens it again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _may_hold_something(self) -> bool:
        return self._folder is None or (self._folder / "meta.json").exists()

    def _open(self) -> Any:
        make_client = load_qdrant().QdrantClient
        if not self.is_server:
            if self._folder is None:
                return make_client(_IN_MEMORY)
            return make_client(path=str(self._folder), force_disable_check_same_thread=True)
        client = make_client(
            url=self.location,
            api_key=self._key(),
            timeout=self._timeout_seconds,
            check_compatibility=False,
        )
        self._check_version(client.info().version)
        return client

    def _key(self) -> str | None:
        given = self._api_key() if callable(self._api_key) else self._api_key
        return given or os.environ.get("QDRANT_API_KEY") or None

    def _check_version(self, version: str) -> None:
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if numbers < OLDEST_SERVER:
            oldest = ".".join(map(str, OLDEST_SERVER))
            raise MemoryUnavailableError(
                self.location,
                reason=f"the server is Qdrant {version}",
                remedy=f"Upgrade it: {oldest} or newer is needed.",
            )


@contextmanager
def explained(location: str) -> Generator[None]:
    """Turn what Qdrant's client raises into the error of a store.

    Raises:
        MemoryUnavailableError: Qdrant refused, or nobody answers.
    """
    errors = load_qdrant("qdrant_client.http.exceptions")
    try:
        yield
    except AssemblyError:
        raise
    except errors.UnexpectedResponse as error:
        remedy = _NO_KEY if error.status_code in {401, 403} else _REFUSED
        reason = f"the server answers {error.status_code}: {_said(error)}"
        raise MemoryUnavailableError(location, reason=reason, remedy=remedy) from error
    except errors.ResponseHandlingException as error:
        reason = _first_line(error.source)
        raise MemoryUnavailableError(location, reason=reason, remedy=_NO_ANSWER) from error
    except (OSError, RuntimeError, ValueError) as error:
        raise MemoryUnavailableError(location, reason=_first_line(error), remedy=_CHECK) from error


@contextmanager
def counted(kept: int, of: int) -> Generator[None]:
    """Let who hears that records could not be kept know how many are kept in spite of it.

    Raises:
        MemoryUnavailableError: As inside, with the numbers.
    """
    try:
        yield
    except MemoryUnavailableError as error:
        if not kept:
            raise
        reason = f"{error.reason}; {kept:,} of {of:,} records were kept before"
        remedy = f"{error.remedy} Then keep all of them again: the same ids take their place."
        raise MemoryUnavailableError(error.location, reason=reason, remedy=remedy) from error


def is_missing(error: Exception) -> bool:
    """Whether there is no such collection."""
    return getattr(error, "status_code", None) == 404 or "not found" in str(error)


def _said(error: Any) -> str:
    """Return the server's own words, where it has some."""
    try:
        said = error.structured()["status"]["error"]
    except (ValueError, LookupError, TypeError):
        said = error.content.decode(errors="replace") or error.reason_phrase
    return str(said)[:_SHOWN_CHARS].rstrip(".")


def _first_line(error: Exception) -> str:
    said = str(error).partition("\n")[0].strip()[:_SHOWN_CHARS].rstrip(".")
    return said or type(error).__name__
