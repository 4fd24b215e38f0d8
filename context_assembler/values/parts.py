"""The parts that messages are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Json: TypeAlias = Any  # a value that json.loads can return
JsonObject: TypeAlias = Mapping[str, Json]

Origin: TypeAlias = Literal["developer", "user", "model", "tool", "memory", "file", "assembler"]


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    text: str


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
    """A picture; `width_px` and `height_px` are `None` where nobody measured it."""

    source: MediaSource
    detail: Literal["low", "high", "auto", "original"] | None = None
    width_px: int | None = None
    height_px: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document such as a PDF; plain-text documents carry their text in `text` as well."""

    source: MediaSource
    title: str | None = None
    page_count: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """A model's reasoning.

    `block` is the provider's own block, verbatim, where it is signed or encrypted; such a part goes
    back to that provider untouched or not at all, even when `text` is empty. Without `block` it is
    readable text that no provider takes back.
    """

    text: str = ""
    provider: str | None = None
    block: JsonObject | None = None

    @property
    def is_signed(self) -> bool:
        """Whether a provider can verify this part."""
        return self.block is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model asks for.

    `arguments_json` is the model's own spelling where it arrived as JSON text. Text that is not a
    JSON object (a cut-off stream) is kept there, with empty `arguments`.
    """

    call_id: str
    name: str
    arguments: JsonObject = field(default_factory=dict[str, Json])
    arguments_json: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """A provider's block that we do not interpret: verbatim there, `text` elsewhere."""

    provider: str
    block: JsonObject
    text: str = ""


ResultPart: TypeAlias = Text | Image | Document | Opaque


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call returned."""

    call_id: str
    content: tuple[ResultPart, ...] = ()
    is_error: bool = False
    tool_name: str | None = None

    @property
    def text(self) -> str:
        """The text parts, joined by line breaks."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


Part: TypeAlias = Text | Image | Document | Thinking | ToolCall | ToolResult | Opaque

PART_KINDS: Final[Mapping[str, type[Part]]] = {
    "text": Text,
    "image": Image,
    "document": Document,
    "thinking": Thinking,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "opaque": Opaque,
}
