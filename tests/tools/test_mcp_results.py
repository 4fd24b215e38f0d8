"""What MCP servers answer, as parts of a tool result; what they list, as specs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.tools.mcp_listing import read_listing
from context_assembler.tools.mcp_results import read_call_result
from context_assembler.values.parts import Base64Source, Document, Image, ResultPart, Text

BLOCKS: dict[str, tuple[Any, ResultPart]] = {
    "text": ({"type": "text", "text": "hi \ud83d"}, Text("hi \ufffd")),
    "a picture": (
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        Image(source=Base64Source(media_type="image/png", data="AAAA")),
    ),
    "a link with everything": (
        {
            "type": "resource_link",
            "uri": "file:///a",
            "name": "a",
            "title": "A",
            "description": "About a.",
            "mimeType": "text/plain",
        },
        Text("[A](file:///a) (text/plain)\nAbout a."),
    ),
    "a bare link": ({"type": "resource_link", "uri": "file:///a"}, Text("[resource](file:///a)")),
    "a text inside": ({"type": "resource", "resource": {"text": "inside"}}, Text("inside")),
    "a picture inside": (
        {"type": "resource", "resource": {"blob": "AAAA", "mimeType": "image/gif"}},
        Image(source=Base64Source(media_type="image/gif", data="AAAA")),
    ),
    "a file of text inside": (
        {"type": "resource", "resource": {"blob": "aGk=", "mimeType": "text/csv", "uri": "a.csv"}},
        Document(source=Base64Source(media_type="text/csv", data="aGk="), title="a.csv"),
    ),
    "another file inside": (
        {"type": "resource", "resource": {"blob": "AAAA", "uri": "file:///a.zip"}},
        Text("[file file:///a.zip: application/octet-stream, 3 bytes; it is not shown]"),
    ),
    "of another kind": ({"type": "smell"}, Text('{"type": "smell"}')),
    "no object": ("hi", Text('"hi"')),
}


@pytest.mark.parametrize(("block", "part"), BLOCKS.values(), ids=BLOCKS.keys())
def test_a_block_becomes_a_part(block: Any, part: ResultPart) -> None:
    result = read_call_result({"content": [block]}, tool_name="t", call_id="c")

    assert result.content == (part,)
    assert (result.tool_name, result.call_id, result.is_error) == ("t", "c", False)


STRUCTURED: dict[str, tuple[list[str], Any, list[str]]] = {
    "alone": ([], {"a": 1}, ['{"a": 1}']),
    "beside its own text": (['{ "a": 1 }'], {"a": 1}, ['{ "a": 1 }']),
    "beside another text": (["done"], {"a": 1}, ["done", '{"a": 1}']),
    "a wrapped number": (["3"], {"result": 3}, ["3"]),
    "a wrapped text": (["three"], {"result": "three"}, ["three"]),
    "a wrapped text beside another": (["3"], {"result": "three"}, ["3", '{"result": "three"}']),
    "nothing": (["done"], None, ["done"]),
}


@pytest.mark.parametrize(("texts", "structured", "said"), STRUCTURED.values(), ids=STRUCTURED)
def test_structured_content_is_said_once(
    texts: list[str], structured: Any, said: list[str]
) -> None:
    content = [{"type": "text", "text": text} for text in texts]

    result = read_call_result(
        {"content": content, "structuredContent": structured}, tool_name="t", call_id=""
    )

    assert [part.text for part in result.content if isinstance(part, Text)] == said


def test_structured_content_is_said_beside_a_picture() -> None:
    picture = {"type": "image", "data": "AAAA", "mimeType": "image/png"}

    result = read_call_result(
        {"content": [picture], "structuredContent": {}}, tool_name="t", call_id=""
    )

    assert result.content[1:] == (Text("{}"),)


@given(
    st.dictionaries(
        st.sampled_from(["content", "structuredContent", "isError"]),
        st.recursive(
            st.none() | st.booleans() | st.text() | st.integers(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["type", "text", "resource", "uri", "data", "blob"])
                    | st.text(),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ),
    )
)
def test_any_answer_can_be_read(answer: dict[str, Any]) -> None:
    result = read_call_result(answer, tool_name="t", call_id="c")

    assert result.is_error is (answer.get("isError") is True)


def test_a_title_describes_a_tool_that_says_nothing() -> None:
    tools: list[Any] = [
        {"name": "a", "title": "First", "inputSchema": {}},
        {"name": "b", "annotations": {"title": "Second"}, "inputSchema": {}},
        {"name": "c", "title": 3, "inputSchema": {}},
    ]

    read = read_listing(tools, server="s", max_tools=9)

    assert [spec.description for spec in read.specs] == ["First", "Second", ""]


@pytest.mark.parametrize(("trusts", "is_safe"), [(True, True), (False, None)])
def test_hints_count_where_they_are_trusted(trusts: bool, is_safe: bool | None) -> None:
    tool = {"name": "a", "inputSchema": {}, "annotations": {"readOnlyHint": True}}

    read = read_listing([tool], server="s", max_tools=9, trusts_hints=trusts)

    assert read.specs[0].is_safe is is_safe


def test_a_tool_keeps_its_shape_whatever_else_it_carries() -> None:
    tool = {"name": "a", "inputSchema": {}, "function": {"name": "b"}, "googleSearch": {}}

    read = read_listing([tool], server="s", max_tools=9)

    assert [spec.name for spec in read.specs] == ["a"]


def test_a_schema_without_end_is_left_as_it_is() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"type": "object", "properties": {"a": deep}, "description": "<summary>"}

    read = read_listing(
        [{"name": "a", "inputSchema": deep}, "b", {"name": "c", "inputSchema": {"enum": [["d"]]}}],
        server="s",
        max_tools=9,
    )

    assert [spec.name for spec in read.specs] == ["a", "c"]
    assert json.dumps(read.specs[0].input_schema).count("&lt;summary>") > 20
    assert [problem.name for problem in read.problems] == ["(unnamed)"]
