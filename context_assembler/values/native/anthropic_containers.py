"""The container that code of a reply ran in, as Anthropic spells it."""

from datetime import UTC, datetime

from context_assembler.values.events import Container
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_object, as_text


def read_container(field: Json) -> Container | None:
    """Return the container that a reply names; `None` where it names none.

    Source:
        types of the anthropic package 2.14, Container (read 2026-11-27)
    """
    fields = as_object(field)
    container_id = as_text(fields.get("id"))
    if not container_id:
        return None
    return Container(id=container_id, expires_at=_moment(as_text(fields.get("expires_at"))))


def write_container(container: Container) -> dict[str, Json]:
    """Return the container as a reply names it."""
    expires_at = container.expires_at
    return {
        "id": container.id,
        "expires_at": None if expires_at is None else expires_at.isoformat(),
    }


def in_utc_unless_told(moment: datetime) -> datetime:
    """Return the moment with its zone; without one it is told in UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _moment(text: str) -> datetime | None:
    try:
        return in_utc_unless_told(datetime.fromisoformat(text))
    except ValueError:
        return None
