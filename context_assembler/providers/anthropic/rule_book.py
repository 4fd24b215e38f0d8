"""Where each rule of the Messages API is written, and payloads as the rules look at them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Final

from context_assembler.values.breaches import RuleBook
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import Json, JsonObject
from context_assembler.values.reading import as_array, as_object, as_text

_DOCS: Final = "https://platform.claude.com/docs/en"

# Rule → where it is written. All were read on 2026-11-27.
SOURCES: Final[Mapping[str, str]] = {
    "A0": f"{_DOCS}/api/messages/create",
    "A1": f"{_DOCS}/agents-and-tools/tool-use/handle-tool-calls",
    "A2": f"{_DOCS}/agents-and-tools/tool-use/handle-tool-calls",
    "A3": "https://github.com/anthropics/claude-code/issues/13460",
    "A4": f"{_DOCS}/agents-and-tools/tool-use/server-tools",
    "A5": "https://github.com/langchain-ai/langchain/issues/37756",
    "A6": f"{_DOCS}/agents-and-tools/tool-use/define-tools",
    "A7": "https://github.com/anthropics/claude-code/issues/40075",
    "A8": f"{_DOCS}/agents-and-tools/tool-use/strict-tool-use",
    "A9": "https://github.com/anthropics/claude-code/issues/59812",
    "A10": f"{_DOCS}/build-with-claude/prefill-claudes-response",
    "A11": f"{_DOCS}/about-claude/models/whats-new-claude-4-6",
    "A12": f"{_DOCS}/api/messages/create",
    "A13": f"{_DOCS}/build-with-claude/mid-conversation-system-messages",
    "A14": f"{_DOCS}/api/versioning (2026-10-21)",
    "A15": f"{_DOCS}/build-with-claude/extended-thinking",
    "A16": f"{_DOCS}/build-with-claude/thinking",
    "A18": f"{_DOCS}/about-claude/models/whats-new-opus-5-5",
    "A19": f"{_DOCS}/build-with-claude/prompt-caching",
    "A20": f"{_DOCS}/agents-and-tools/tool-use/tool-search-tool",
    "A21": f"{_DOCS}/build-with-claude/vision",
    "A22": f"{_DOCS}/api/errors",
    "A23": f"{_DOCS}/build-with-claude/context-windows",
    "A24": f"{_DOCS}/build-with-claude/prompt-caching#pre-warming-the-cache",
    "A25": f"{_DOCS}/build-with-claude/compaction",
    "A26": f"{_DOCS}/build-with-claude/context-editing",
    "A27": f"{_DOCS}/build-with-claude/effort",
    "A28": "https://github.com/BerriAI/litellm/issues/3286",
    "A29": f"{_DOCS}/build-with-claude/compaction",
    "A30": f"{_DOCS}/build-with-claude/preserved-thinking",
    "A31": f"{_DOCS}/cli-sdks-libraries/sdks/python#long-requests",
    "A32": "https://github.com/anthropics/claude-code/issues/4668",
    "A33": "https://github.com/Dokploy/mcp/issues/74",
}

# What no look at a payload can find, by the rule that it belongs to; all were read on 2026-11-27.
UNCHECKED: Final[Mapping[str, str]] = {
    "A16": "Whether thinking goes back unmodified and complete: only who has the reply can tell. "
    "The assembler sends it verbatim or not at all.",
    "A17": f"{_DOCS}/build-with-claude/preserved-thinking: a signature is bound to what stood before "
    "it, and only the server can read it. The assembler compares fingerprints of the prefix.",
    "A21": "The type and size of an image behind a URL or a file id.",
    "A22": "Pages of a PDF behind a URL or a file id, and of an encrypted one.",
    "A23": "Whether the input fits the window: counting is not a rule's part. The ledger does it.",
    "A24": "Whether a request is part of a batch.",
    "A25": "Whether a payload is counted rather than sent: counting takes no server tools and no "
    "mcp_servers. Which tools a signed compaction was made with: the server compares them.",
}

breach: Final = RuleBook(sources=SOURCES, read_on="2026-11-27").breach


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A content block and where it stands."""

    where: str
    body: dict[str, Json]

    @property
    def kind(self) -> str:
        return as_text(self.body.get("type"))

    @property
    def is_server_result(self) -> bool:
        return self.kind.endswith("_tool_result") and bool(as_text(self.body.get("tool_use_id")))


@dataclass(frozen=True, slots=True, kw_only=True)
class SentTurn:
    """Neighbouring messages of one role, which the API reads as one."""

    where: str
    role: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A payload with what the rules need to know beside it."""

    payload: dict[str, Json]
    turns: tuple[SentTurn, ...]
    limits: ModelLimits | None
    api_version: str

    @property
    def thinking_type(self) -> str:
        return as_text(as_object(self.payload.get("thinking")).get("type"))

    @property
    def has_betas(self) -> bool:
        headers = as_object(self.payload.get("extra_headers"))
        return bool(self.payload.get("betas") or headers.get("anthropic-beta"))


VERSION_WITHOUT_SAMPLING: Final = "2026-10-21"
_OLDER_VERSION: Final = "2023-06-01"
_VERSION_SINCE: Final = date(2026, 10, 21)


def open_payload(payload: JsonObject, *, limits: ModelLimits | None, today: date | None) -> Sent:
    """Return the payload as the API will see it: `extra_body` merged in, turns joined."""
    body = as_object(payload)
    extra = as_object(body.pop("extra_body", None))
    headers = as_object(body.get("extra_headers"))
    default = _OLDER_VERSION if today and today < _VERSION_SINCE else VERSION_WITHOUT_SAMPLING
    merged = body | extra
    return Sent(
        payload=merged,
        turns=tuple(_join_turns(merged.get("messages"))),
        limits=limits,
        api_version=as_text(headers.get("anthropic-version")) or default,
    )


def _join_turns(messages: Json) -> Iterator[SentTurn]:
    placed = enumerate(map(as_object, as_array(messages)))
    for role, run in groupby(placed, key=lambda entry: as_text(entry[1].get("role"))):
        joined = list(run)
        blocks = [
            block
            for index, message in joined
            for block in _blocks(message.get("content"), f"messages[{index}]")
        ]
        yield SentTurn(where=f"messages[{joined[0][0]}]", role=role, blocks=tuple(blocks))


def _blocks(content: Json, where: str) -> Iterator[Block]:
    if isinstance(content, str):
        yield Block(where=f"{where}.content", body={"type": "text", "text": content})
    for index, entry in enumerate(as_array(content)):
        yield Block(where=f"{where}.content[{index}]", body=as_object(entry))
