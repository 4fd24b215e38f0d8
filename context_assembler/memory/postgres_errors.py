"""What PostgreSQL complains of, in words that say what to do."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from context_assembler.errors import MemoryUnavailableError


class _Trouble(NamedTuple):
    reason: str
    remedy: str


_CONNECTION_REMEDY: Final = (
    "Check that the server runs, and host, port, user, password and database in the URL."
)
_UPGRADED: Final = "Close the store and open it again; keep other programs out of its tables."
# By SQLSTATE, or by the two characters that stand for its class.
# Source: https://www.postgresql.org/docs/18/errcodes-appendix.html (read 2026-11-28)
_TROUBLE_BY_CODE: Final[Mapping[str, _Trouble]] = {
    "08": _Trouble("the connection was lost", _CONNECTION_REMEDY),
    "25006": _Trouble(
        "the server takes no writes: it is a standby, or set to read only",
        "Give the URL of the primary server.",
    ),
    "3F000": _Trouble(
        "no schema of its search_path exists",
        "Create the schema, or name another: postgresql://…?options=-csearch_path%3Dpublic",
    ),
    "42501": _Trouble(
        "the user has not the rights for it",
        "Let the owner run the store once, and grant SELECT, INSERT, UPDATE and DELETE on its "
        "tables; or grant the user CREATE on the schema.",
    ),
    "42P01": _Trouble("its tables are gone", _UPGRADED),
    "53100": _Trouble("the server's disk is full", "Free some space, then try again."),
    "53300": _Trouble(
        "the server has no connection left",
        "Close others, raise its max_connections, or open the store with fewer.",
    ),
    "55P03": _Trouble(
        "another process holds its lock",
        "Try again when that process is done, or open the store with a longer busy_seconds.",
    ),
    "57": _Trouble("the server was stopped, or cancelled the query", _CONNECTION_REMEDY),
}
_ELSE: Final = "Look into the server's log."
_LOOP_REMEDY: Final = (
    "On Windows, run the program with asyncio.SelectorEventLoop: "
    "asyncio.Runner(loop_factory=asyncio.SelectorEventLoop).run(main())"
)


@contextmanager
def explained(psycopg: Any, location: str) -> Generator[None]:
    """Turn the driver's errors into `MemoryUnavailableError`."""
    try:
        yield
    except psycopg.Error as error:
        reason, remedy = _trouble_of(psycopg, error)
        raise MemoryUnavailableError(location, reason=reason, remedy=remedy) from error


def _trouble_of(psycopg: Any, error: Any) -> _Trouble:
    code: str | None = error.sqlstate
    said = " ".join(str(error).split())
    if code is not None:
        known = _TROUBLE_BY_CODE.get(code) or _TROUBLE_BY_CODE.get(code[:2])
        if known is None:
            return _Trouble(f"PostgreSQL says: {said}", _ELSE)
        return _Trouble(f"{known.reason} ({error.diag.message_primary})", known.remedy)
    if "ProactorEventLoop" in said:
        return _Trouble("psycopg cannot wait in this event loop", _LOOP_REMEDY)
    if isinstance(error, psycopg.OperationalError):
        return _Trouble(f"the server cannot be reached ({said})", _CONNECTION_REMEDY)
    return _Trouble(f"psycopg says: {said}", "Check the URL.")
