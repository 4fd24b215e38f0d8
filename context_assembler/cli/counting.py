"""What a file or a session holds, as rows of a ledger."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from context_assembler.cli.opening import text_of
from context_assembler.cli.screen import counted, print_note
from context_assembler.errors import ConfigurationError, TranscriptError
from context_assembler.ports import ReadTranscript, TokenCounter
from context_assembler.stages.build_system_prompt import SystemPromptBuilder
from context_assembler.stages.repair_history import repair_history
from context_assembler.stages.split_window import measure_window
from context_assembler.stages.transform_messages import MessageTransformer
from context_assembler.transcripts import read_transcript
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.ledger import Ledger, LedgerRow
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media.image_sizes import measure_image
from context_assembler.values.messages import Message
from context_assembler.values.parts import Base64Source, Document, Image, Part, Text
from context_assembler.values.prompt import SystemPrompt
from context_assembler.values.standing import with_numbers

_PDF: Final = b"%PDF-"
_PDF_WITHIN_BYTES: Final = 1_024  # readers accept as much in front of a PDF
_IMAGE_TYPES: Final = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
_IMAGE_NAMES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_SPEAKERS: Final = {
    "user": "what the user said",
    "assistant": "what the model said",
    "tool": "tool results",
    "system": "instructions on the way",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted; `messages` is `None` for what is no conversation.

    `draft` is the same as a request, for a provider that counts it itself.
    """

    what: str
    rows: tuple[LedgerRow, ...]
    draft: Draft
    messages: int | None = None


def count_file(
    path: Path, content: bytes, limits: ModelLimits, counter: TokenCounter, *, is_text: bool
) -> Counted:
    """Count an image, a PDF, a transcript, or else the text that a file is.

    Raises:
        ConfigurationError: The file is named as an image or a PDF, and is none.
    """
    if not is_text and (part := _media_in(path, content)) is not None:
        what = "an image" if isinstance(part, Image) else "a PDF"
        message = Message(role="user", parts=(part,))
        row = LedgerRow(kind="history", name=path.name, tokens=counter.count_message(message))
        return Counted(what=what, rows=(row,), draft=_draft(limits, message))
    text = text_of(content, name=str(path))
    if not is_text:
        try:
            return count_conversation(read_transcript(text), limits, counter)
        except TranscriptError:
            pass  # it is no conversation, so it is a text
    row = LedgerRow(kind="history", name="text", tokens=counter.count_text(text))
    message = Message(role="user", parts=(Text(text),))
    return Counted(what="a text", rows=(row,), draft=_draft(limits, message))


def count_conversation(read: ReadTranscript, limits: ModelLimits, counter: TokenCounter) -> Counted:
    """Count as the ledger of a request does: what is no longer sent has no tokens."""
    transformed = MessageTransformer().transform(with_numbers(read.events))
    prompt = SystemPromptBuilder().build([], session_system=transformed.leading_system)
    fixed = measure_window(
        limits, system=prompt.system, tools=read.tools, counter=counter, max_tokens=0
    )
    messages = transformed.messages
    repaired = repair_history(messages, accepts_prefill=limits.supports("prefill"))
    draft = replace(_draft(limits, *repaired.messages), system=prompt.system, tools=read.tools)
    return Counted(
        what=counted(len(messages), "message"),
        rows=(*fixed.rows, *_history_rows(messages, counter)),
        draft=draft,
        messages=len(messages),
    )


def _draft(limits: ModelLimits, *messages: Message) -> Draft:
    return Draft(limits=limits, parameters=Parameters(max_tokens=1), messages=messages, cache="off")


def ledger_of(counted: Counted, limits: ModelLimits, counter: TokenCounter) -> Ledger:
    """Return the rows as a ledger of the model's whole window."""
    empty = measure_window(limits, system=SystemPrompt(), tools=(), counter=counter, max_tokens=0)
    return replace(empty, rows=counted.rows)


def _history_rows(messages: Iterable[Message], counter: TokenCounter) -> list[LedgerRow]:
    tokens: dict[str, int] = {}
    for message in messages:
        name = "a summary" if message.kind == "summary" else _SPEAKERS[message.role]
        tokens[name] = tokens.get(name, 0) + counter.count_message(message)
    return [LedgerRow(kind="history", name=name, tokens=used) for name, used in tokens.items()]


def _media_in(path: Path, content: bytes) -> Part | None:
    """Return the image or the PDF that a file is; its bytes say so, not its name."""
    if _PDF in content[:_PDF_WITHIN_BYTES]:
        return Document(source=_source("application/pdf", content), title=None)
    kinds = (kind for magic, kind in _IMAGE_TYPES.items() if content.startswith(magic))
    kind = next(kinds, None)
    if kind is None:
        _check_name(path)
        return None
    image = Image(source=_source(kind, content))
    if measure_image(image) is None:
        print_note(f"{path}: its header states no size; it is taken for a full-HD screenshot.")
    return image


def _check_name(path: Path) -> None:
    named = "a PDF" if path.suffix.lower() == ".pdf" else "an image"
    if named == "an image" and path.suffix.lower() not in _IMAGE_NAMES:
        return
    raise ConfigurationError(
        f"{path} is named as {named}, but its bytes are none.",
        remedy="Give the file itself, or pass --text to count the text in it.",
    )


def _source(media_type: str, content: bytes) -> Base64Source:
    return Base64Source(media_type=media_type, data=base64.b64encode(content).decode("ascii"))
