"""What Gemini cannot take is changed once, and told."""

from dataclasses import replace
from typing import Any

import pytest

from context_assembler.providers.gemini import GEMINI
from context_assembler.values.draft import Draft
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Opaque,
    Text,
    UrlSource,
)
from context_assembler.values.tools import ToolChoice, ToolSpec
from tests.providers.drafts import (
    GEMINI_4,
    GEMINI_25,
    PICTURE,
    READ_FILE,
    assistant,
    call,
    draft,
    result,
    results,
    user,
)

GIF = Image(source=Base64Source(media_type="image/gif", data="R0lGODlh"))
ELSEWHERE = ToolSpec(name="web_search", native_specs={"anthropic": {"type": "web_search"}})


def rules_of(made: Draft) -> list[tuple[str, str]]:
    """Return the id and the rule of every change; adapting twice changes nothing more."""
    adapted, rows = GEMINI.adapt(made)

    assert GEMINI.adapt(adapted) == (adapted, ())
    assert len(adapted.messages) == len(made.messages)
    assert GEMINI.render(adapted) == GEMINI.render(made)
    return [(row.id, row.rule) for row in rows]


def of(*talk: Message, **options: Any) -> Draft:
    return draft(talk, limits=options.pop("limits", GEMINI_4), **options)


CHANGES: dict[str, tuple[Draft, list[tuple[str, str]]]] = {
    "nothing to change": (of(user("go", PICTURE), assistant(PICTURE, "ok"), user("on")), []),
    "a picture of a type that is not taken": (
        of(user(GIF, id="m")),
        [("m", "media.type")],
    ),
    "a picture at an address that does not tell": (
        of(user(Image(source=UrlSource(url="https://example.com/a")), id="m")),
        [("m", "media.type")],
    ),
    "another provider's file": (
        of(user(Document(source=FileIdSource(provider="openai", file_id="f")), id="m")),
        [("m", "media.source")],
    ),
    "text at an address": (of(user(Document(source=UrlSource(url="x"), text="hi"))), []),
    "another provider's block": (
        of(user("go"), assistant(Opaque(provider="anthropic", block={}), id="m")),
        [("m", "content.foreign")],
    ),
    "what a reply says about its text": (
        of(
            user("go"),
            assistant("x", Opaque(provider="gemini", block={"grounding_metadata": {}}), id="m"),
        ),
        [("m", "content.metadata")],
    ),
    "a picture in a result": (
        of(user("go"), assistant(call("c1")), replace(results(result("c1", GIF)), id="m")),
        [("m", "media.type")],
    ),
    "another provider's tool": (of(tools=(ELSEWHERE,)), [("web_search", "tool.native")]),
    "a strict tool": (
        of(tools=(replace(READ_FILE, is_strict=True),)),
        [("read_file", "tool.strict")],
    ),
    "sampling that is not heeded": (
        of(temperature=0.2, top_k=4),
        [("temperature", "parameter.temperature"), ("top_k", "parameter.top_k")],
    ),
    "sampling that is heeded": (of(temperature=0.2, limits=GEMINI_25), []),
    "one call at a time": (
        of(tool_choice=ToolChoice(mode="any", allows_parallel=False)),
        [("parallel_tool_calls", "parameter.parallel_tool_calls")],
    ),
}


@pytest.mark.parametrize(("made", "expected"), CHANGES.values(), ids=CHANGES.keys())
def test_is_told(made: Draft, expected: list[tuple[str, str]]) -> None:
    assert rules_of(made) == expected


def test_what_is_left_out_becomes_a_line_that_names_it() -> None:
    adapted, _ = GEMINI.adapt(of(user(GIF)))

    line = "[image left out: image/gif; only PNG, JPEG, WebP, HEIC and HEIF are taken]"
    assert adapted.messages[0].parts == (Text(line),)


def test_the_oldest_of_too_many_images_make_way() -> None:
    talk = [user(*[PICTURE] * 3_001, id="m")]

    told = rules_of(of(*talk, limits=replace(GEMINI_4, host="vertex_ai")))

    assert told == [("m", "media.count")]
    assert rules_of(of(*talk)) == []
