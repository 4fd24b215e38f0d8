"""Messages of roles that a protocol does not have, and results that are text alone."""

import pytest

from context_assembler.values.fenced_messages import fence_summary, text_of_system
from context_assembler.values.media.attachments import (
    is_attachment,
    name_attachment,
    tell_in_result,
)
from context_assembler.values.messages import Message
from context_assembler.values.parts import Document, Opaque, ResultPart, Text
from tests.providers.drafts import PDF, PICTURE, pdf

SEALED = Opaque(provider="openai_responses", block={"type": "compaction"}, text="Sealed.")
SILENT = Opaque(provider="openai_responses", block={"type": "compaction"})
SUMMARIES = {
    "its text": ((Text("We walked."), SEALED), "We walked."),
    "the words of a block without a text beside it": ((SILENT, SEALED), "Sealed."),
    "nothing": ((SILENT,), ""),
}
TOLD: dict[str, tuple[ResultPart, str, bool]] = {
    "text": (Text("a\0b"), "ab", False),
    "a picture": (PICTURE, "[image attached in the next user message]", True),
    "a document": (PDF, "[document attached in the next user message]", True),
    "a document of text": (pdf(text="Hello.", title="a.txt"), "a.txt:\nHello.", False),
    "a provider's block": (SEALED, "Sealed.", False),
}


@pytest.mark.parametrize(("parts", "said"), SUMMARIES.values(), ids=SUMMARIES.keys())
def test_a_summary_says(parts: tuple[Text | Opaque, ...], said: str) -> None:
    message = Message(role="user", kind="summary", parts=parts)

    assert fence_summary(message) == f"<summary>\n{said}\n</summary>"


def test_a_system_message_says_a_line_for_each_text_that_is_not_blank() -> None:
    message = Message(role="system", parts=(Text("One."), Text(" "), PICTURE, SEALED, SILENT))

    assert text_of_system(message) == "One.\nSealed."


@pytest.mark.parametrize(("part", "told", "is_attached"), TOLD.values(), ids=TOLD.keys())
def test_a_result_of_text_alone_says_of_a_part(
    part: ResultPart, told: str, is_attached: bool
) -> None:
    assert tell_in_result(part) == told
    assert is_attachment(part) is is_attached


@pytest.mark.parametrize(
    ("part", "kind"), [(PICTURE, "Image"), (PDF, "Document")], ids=["a picture", "a document"]
)
def test_what_is_attached_names_the_call_it_came_from(part: Document, kind: str) -> None:
    line = name_attachment(part, tool="read_file", call_id="c1")

    assert line == f"{kind} returned by read_file (c1):"
