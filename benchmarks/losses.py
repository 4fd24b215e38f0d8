"""What of a draft is neither in a payload nor in the rows that say what was changed.

It knows nothing of how a provider spells things: every text, every argument of a call, every image
and every signed block has to be found among the strings of the payload, in any place and between
any marks; or the message it stands in has a row.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from context_assembler.values.draft import Draft
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)
from context_assembler.values.report import ReportEntry

_MARKS: Final = re.compile(r"&lt;|[\W_]+")
_SEALS: Final = ("signature", "encrypted_content", "data")


class Haystack:
    """All strings of a payload, to be searched in about the order in which they stand."""

    def __init__(self, payload: Any) -> None:
        leaves = list(_leaves(payload))
        self._whole = frozenset(leaf.rpartition("base64,")[2] for leaf in leaves)
        self._text = _squeeze(" ".join(leaves))
        self._cursor = 0

    def holds(self, text: str) -> bool:
        """Whether the words of a text stand in the payload, one behind the other."""
        needle = _squeeze(text)
        found = self._text.find(needle, self._cursor)
        if found < 0:
            return needle in self._text
        self._cursor = found
        return True

    def holds_whole(self, value: str) -> bool:
        """Whether a string of the payload is exactly this, or the bytes of a `data:` URL are."""
        return value in self._whole


def find_losses(
    draft: Draft, payload: Mapping[str, Any], rows: Iterable[ReportEntry], *, provider: str
) -> list[str]:
    """Return what was lost without a word."""
    listed = list(rows)
    told = {row.id for row in listed if row.kind == "message"}
    haystack = Haystack(payload)
    lost = [
        f"lost silently: {what} of message {message.id}"
        for message in draft.messages
        if (message.id or message.note or message.kind) not in told
        for part in message.parts
        for what in _missing(part, haystack, provider)
    ]
    dropped = Counter(row.kind for row in listed if row.decision == "dropped")
    sent = _count_tools(payload)
    if sent + dropped["tool"] < len(draft.tools):
        lost.append(f"lost silently: tools, {len(draft.tools)} offered and {sent} sent")
    return lost


def _missing(part: Part, haystack: Haystack, provider: str) -> Iterator[str]:
    match part:
        case Text(text) if not haystack.holds(text) and not _holds_json(text, haystack):
            yield f"text {text[:40]!r}"
        case ToolCall() if not all(map(haystack.holds, _leaves(_given(part)))):
            yield f"arguments of {part.name}"
        case ToolResult():
            for inner in part.content:
                yield from _missing(inner, haystack, provider)
        case Document(text=str(text)) if haystack.holds(text):
            pass
        case Image() | Document() if not _holds_media(part, haystack):
            yield type(part).__name__
        case Thinking(block=block) if block is not None and not _holds_seal(block, haystack):
            yield "signed thinking"
        case Opaque() if part.provider != provider and not haystack.holds(part.text):
            yield f"text of a block of {part.provider}"
        case Opaque() if part.provider == provider and not _holds_block(part, haystack):
            yield f"a block ({part.block.get('type')})"
        case _:
            pass


def _given(call: ToolCall) -> Any:
    return call.arguments_json if call.arguments_json and not call.arguments else call.arguments


def _holds_json(text: str, haystack: Haystack) -> bool:
    """Whether a text that is JSON is sent as the value that it spells."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return not isinstance(value, str) and all(map(haystack.holds, _leaves(value)))


def _holds_media(part: Image | Document, haystack: Haystack) -> bool:
    match part.source:
        case Base64Source(data=encoded):
            return haystack.holds_whole(encoded)
        case UrlSource(url=url):
            return haystack.holds_whole(url)
        case FileIdSource(file_id=file_id):
            return haystack.holds_whole(file_id)


def _holds_seal(block: Mapping[str, Any], haystack: Haystack) -> bool:
    seals = [block[key] for key in _SEALS if isinstance(block.get(key), str)]
    return all(map(haystack.holds_whole, seals))


def _holds_block(part: Opaque, haystack: Haystack) -> bool:
    return all(map(haystack.holds, _leaves(part.block))) or (
        bool(part.text.strip()) and haystack.holds(part.text)
    )


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if value.startswith(("{", "[")):  # arguments travel as JSON text
            try:
                yield from _leaves(json.loads(value))
            except (ValueError, RecursionError):
                return
    elif is_object(value):
        for inner in value.values():
            yield from _leaves(inner)
    elif is_array(value):
        for inner in value:
            yield from _leaves(inner)


def _squeeze(text: str) -> str:
    return _MARKS.sub("", text)


def _count_tools(payload: Mapping[str, Any]) -> int:
    tools = payload.get("tools") or payload.get("config", {}).get("tools") or ()
    return sum(len(tool.get("function_declarations", [tool])) for tool in tools)
