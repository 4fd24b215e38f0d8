"""Blank blocks that the Messages API returned are not sent back to it, and a row says so."""

from typing import Any

import pytest

from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.values.draft import Draft
from context_assembler.values.parts import Opaque, Text
from tests.providers.drafts import OPUS, assistant, draft, user

CITATION = {"type": "web_search_result_location", "cited_text": "x", "encrypted_index": "e"}


def block(**fields: Any) -> Opaque:
    return Opaque(provider="anthropic", block=fields)


def document(*inner: Any) -> dict[str, Any]:
    return {"type": "document", "source": {"type": "content", "content": list(inner)}}


def search(*inner: Any) -> dict[str, Any]:
    return {"type": "search_result", "source": "s", "title": "t", "content": list(inner)}


BLANK = {"type": "text", "text": " "}
TEXT = {"type": "text", "text": "said"}
LEFT_OUT: dict[str, dict[str, Any]] = {
    "a cited text": {"type": "text", "text": "", "citations": [CITATION]},
    "a cited text of spaces": {"type": "text", "text": " \n", "citations": [CITATION]},
    "a compaction": {"type": "compaction", "content": ""},
    "a signed compaction": {"type": "compaction", "content": " ", "signature": "s"},
    "a document of blank text": document(BLANK),
    "a document of a blank": {"type": "document", "source": {"type": "content", "content": " "}},
    "a search result without a text": search(BLANK),
}


def reply(own: dict[str, Any]) -> Draft:
    return draft([user("go"), assistant(block(**own), "a", id="evt_2"), user("and?")])


@pytest.mark.parametrize("own", LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_a_blank_block_is_left_out(own: dict[str, Any]) -> None:
    adapted, rows = ANTHROPIC.adapt(reply(own))

    assert adapted.messages[1].parts == (Text("a"),)
    [row] = rows
    assert (row.id, row.decision, row.rule) == ("evt_2", "shortened", "content.blank")
    assert ANTHROPIC.check_payload(ANTHROPIC.render(adapted), limits=OPUS) == []
    assert ANTHROPIC.adapt(adapted) == (adapted, ())


MENDED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a document": (document(BLANK, TEXT, "bare"), document(TEXT, "bare")),
    "a search result": (
        search(TEXT, BLANK),
        search(TEXT),
    ),
    "a document in what was found": (search(document(BLANK, TEXT)), search(document(TEXT))),
}


@pytest.mark.parametrize(("own", "mended"), MENDED.values(), ids=MENDED.keys())
def test_of_a_block_that_says_something_the_blanks_are_left_out(
    own: dict[str, Any], mended: dict[str, Any]
) -> None:
    adapted, [row] = ANTHROPIC.adapt(reply(own))

    assert adapted.messages[1].parts == (block(**mended), Text("a"))
    assert (row.decision, row.rule) == ("repaired", "content.blank")
    assert ANTHROPIC.adapt(adapted) == (adapted, ())


KEPT: dict[str, dict[str, Any]] = {
    "a cited text": {"type": "text", "text": "a", "citations": [CITATION]},
    "a compaction that failed": {"type": "compaction", "content": None},
    "a summary": {"type": "compaction", "content": "done so far"},
    "a document": document(TEXT),
    "an uploaded document": {"type": "document", "source": {"type": "file", "file_id": "f"}},
    "a search result": search(TEXT),
    "a result of an MCP server": {
        "type": "mcp_tool_result",
        "tool_use_id": "c",
        "content": [BLANK],
    },
}


@pytest.mark.parametrize("own", KEPT.values(), ids=KEPT.keys())
def test_every_other_block_stays_as_it_came(own: dict[str, Any]) -> None:
    made = reply(own)

    assert ANTHROPIC.adapt(made) == (made, ())
