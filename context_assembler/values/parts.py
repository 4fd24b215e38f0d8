"""The parts that messages are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from context_assembler.values.media.data_urls import decode_text, plain_base64, read_inline_url

Json: TypeAlias = Any  # a value that json.loads can return
JsonObject: TypeAlias = Mapping[str, Json]

Origin: TypeAlias = Literal["developer", "user", "model", "tool", "memory", "file", "assembler"]

# What comes from here never speaks with the authority of the system.
NO_SYSTEM_AUTHORITY: Final[frozenset[Origin]] = frozenset({"memory", "tool", "file"})


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text.

    `extras` holds, by provider, the fields that its own spelling has beside the text (`phase`, the
    id of a message …): they go back to that provider alone. `signature` is what a provider signed
    the part with (Gemini), sent back unchanged or not at all.
    """

    text: str
    extras: JsonObject | None = field(default=None, kw_only=True)
    signature: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Base64Source:
    """Bytes carried inside the message, as base64 text without a `data:` prefix."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlSource:
    """Bytes that the provider fetches itself."""

    url: str
    media_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdSource:
    """Bytes uploaded to one provider earlier; meaningless to any other."""

    provider: str
    file_id: str


MediaSource: TypeAlias = Base64Source | UrlSource | FileIdSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture; `width_px` and `height_px` are `None` where nobody measured it.

    Whoever holds one may rely on it: a `data:` URL has become the bytes that it carries.
    """

    source: MediaSource
    detail: Literal["low", "high", "auto", "original"] | None = None
    width_px: int | None = None
    height_px: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", _inline(self.source))


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document such as a PDF; plain-text documents carry their text in `text` as well.

    Whoever holds one may rely on both: the text of bytes that are text is read, and a `data:` URL
    has become the bytes that it carries. `extras` as for `Text`.
    """

    source: MediaSource
    title: str | None = None
    page_count: int | None = None
    text: str | None = None
    extras: JsonObject | None = None

    def __post_init__(self) -> None:
        source = _inline(self.source)
        object.__setattr__(self, "source", source)
        match source:
            case Base64Source(media_type=str(media_type), data=str(encoded)) if self.text is None:
                is_text = media_type.startswith("text/")
                object.__setattr__(self, "text", decode_text(encoded) if is_text else None)
            case _:
                pass


def _inline(source: MediaSource) -> MediaSource:
    """Return the source, as plain base64 where it carries the bytes itself."""
    match source:
        case Base64Source(media_type=media_type, data=str(encoded)):
            inner = read_inline_url(encoded)
            bare = plain_base64(encoded) if inner is None else inner[1]
            if bare == encoded:
                return source
            return Base64Source(media_type=media_type or (inner or ("",))[0], data=bare)
        case UrlSource(url=str(url)) if (carried := read_inline_url(url.strip())) is not None:
            return Base64Source(media_type=carried[0], data=carried[1])
        case _:
            return source


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """A model's reasoning.

    `block` is the provider's own block, verbatim, where it is signed or encrypted; such a part goes
    back to that provider untouched or not at all, even when `text` is empty. Without `block` it is
    readable text that no provider takes back. `extras` as for `Text`.
    """

    text: str = ""
    provider: str | None = None
    block: JsonObject | None = None
    extras: JsonObject | None = None

    @property
    def is_signed(self) -> bool:
        """Whether a provider can verify this part."""
        return self.block is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model asks for.

    `arguments_json` is the model's own spelling where it arrived as JSON text. Text that is not a
    JSON object (a cut-off stream) is kept there, with empty `arguments`. `extras` and
    `signature` as for `Text`.
    """

    call_id: str
    name: str
    arguments: JsonObject = field(default_factory=dict[str, Json])
    arguments_json: str | None = None
    extras: JsonObject | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """A provider's block that we do not interpret: verbatim there, `text` elsewhere."""

    provider: str
    block: JsonObject
    text: str = ""


ResultPart: TypeAlias = Text | Image | Document | Opaque


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call returned; `extras` as for `Text`."""

    call_id: str
    content: tuple[ResultPart, ...] = ()
    is_error: bool = False
    tool_name: str | None = None
    extras: JsonObject | None = None

    @property
    def text(self) -> str:
        """The text parts, joined by line breaks."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


Part: TypeAlias = Text | Image | Document | Thinking | ToolCall | ToolResult | Opaque

RESULT_PART_TYPES: Final = (Text, Image, Document, Opaque)
PART_TYPES: Final = (*RESULT_PART_TYPES, Thinking, ToolCall, ToolResult)

PART_KINDS: Final[Mapping[str, type[Part]]] = {
    "text": Text,
    "image": Image,
    "document": Document,
    "thinking": Thinking,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "opaque": Opaque,
}
