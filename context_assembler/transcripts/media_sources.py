"""Where pictures and documents come from, as both of OpenAI's protocols spell it."""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from context_assembler.values.parts import Base64Source, FileIdSource, Json
from context_assembler.values.reading import as_text

_Detail: TypeAlias = Literal["low", "high", "auto", "original"]

_DATA_URL: Final = re.compile(r"data:(?P<type>[^;,]+)(?:;[^;,]*)*;base64,(?P<data>.*)", re.DOTALL)
_DETAILS: Final[Mapping[str, _Detail]] = {
    "low": "low",
    "high": "high",
    "auto": "auto",
    "original": "original",
}


def read_bytes(url: str) -> Base64Source | None:
    """Return the bytes that a `data:` URL carries as base64; `None` for any other URL."""
    found = _DATA_URL.fullmatch(url)
    return None if found is None else Base64Source(media_type=found["type"], data=found["data"])


def read_detail(value: Json) -> _Detail | None:
    """Return how closely a picture is looked at; `None` where that is not told, or is unknown."""
    return _DETAILS.get(as_text(value))


def tell_file(kind: str, source: FileIdSource) -> str:
    """Return the words for a picture or a document that lies with another provider."""
    return f"[{kind}: {source.provider} file {source.file_id}]"
