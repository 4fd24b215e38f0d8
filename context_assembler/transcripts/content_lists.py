"""The content of a message as the formats have it: a text, or a list of entries."""

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from context_assembler.transcripts.issues import IssueLog, Spot
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject, Text
from context_assembler.values.reading import as_text

_Part = TypeVar("_Part")
ReadEntry: TypeAlias = Callable[[JsonObject, Spot, IssueLog], _Part]


def read_entries(
    content: Json, spot: Spot, log: IssueLog, *, read: ReadEntry[_Part], one: str, many: str
) -> tuple[_Part | Text, ...]:
    """Return content as parts; text is one part, or none when it is empty.

    What is no content is reported and left out.

    Args:
        read: Reads an entry that is an object.
        one: What the format calls an entry, for people.
        many: What it calls several.
    """
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if content is None:
        return ()
    if not is_array(content):
        log.note(spot, f"is neither text nor a list of {many} ({content!r:.40}); left out")
        return ()
    parts: list[_Part | Text] = []
    for number, entry in enumerate(content):
        place = spot.index(number)
        if isinstance(entry, str):
            parts.append(Text(entry))
        elif is_object(entry):
            parts.append(read(entry, place, log))
        else:
            log.note(place, f"is no {one} ({entry!r:.40}); left out")
    return tuple(parts)


def join_entries(entries: Iterable[dict[str, Json] | None], *, text_type: str) -> Json:
    """Return content as the formats of OpenAI's write it, without the entries that are `None`.

    One text is a string, no entry an empty one, everything else a list.

    Args:
        text_type: The type of an entry that holds text and nothing else.
    """
    written = [entry for entry in entries if entry is not None]
    if not written:
        return ""
    lone = written[0] if len(written) == 1 else {}
    is_text = lone.keys() == {"type", "text"} and lone["type"] == text_type
    return (as_text(lone["text"]) if is_text else "") or written
