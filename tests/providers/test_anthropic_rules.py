"""Each rule of the Messages API: the smallest payload that breaks it, and its neighbour that does not."""

import base64
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.providers.anthropic.rule_book import SOURCES, UNCHECKED
from context_assembler.values.limits import ModelLimits, ThinkingRule
from tests.providers.drafts import HAIKU_45, OPUS, PIXEL
from tests.values.test_image_sizes import png

GO: dict[str, Any] = {"role": "user", "content": "go"}
USE: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
SEARCH: dict[str, Any] = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {},
}
FOUND: dict[str, Any] = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [],
}
THOUGHT = {"type": "thinking", "thinking": "", "signature": "x"}
TOOL: dict[str, Any] = {"name": "read_file", "input_schema": {"type": "object"}}
MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
MARK_1H: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
IMAGE: dict[str, Any] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
}
OLD_API = {"extra_headers": {"anthropic-version": "2023-06-01"}}
BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def says(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def asks(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def system(value: str = "Be brief.") -> dict[str, Any]:
    return {"role": "system", "content": value}


def payload(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 2000,
        "messages": list(messages) or [GO],
        **fields,
    }


def check(
    made: Any, limits: ModelLimits | None = None, today: date | None = None
) -> list[tuple[str, str]]:
    found = ANTHROPIC.check_payload(made, limits=limits, today=today)
    return [(v.rule, v.where) for v in found if v.level == "refused"]


def pixels(side: int) -> dict[str, Any]:
    data = base64.b64encode(png(10, side)).decode()
    return {"type": "image", "source": {**IMAGE["source"], "data": data}}


def strict_tool(*, optional: int = 0, unions: int = 0) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {f"o{i}": {"type": "string"} for i in range(optional)}
        | {f"u{i}": {"anyOf": [{"type": "string"}]} for i in range(unions)},
        "required": [f"u{i}" for i in range(unions)],
        "additionalProperties": False,
    }
    return {"name": "t", "strict": True, "input_schema": schema}


TASK: dict[str, Any] = {"output_config": {"task_budget": {"type": "tokens", "remaining": 1}}}
NEEDY: dict[str, Any] = {
    "name": "read_file",
    "input_schema": {"type": "object", "required": ["path"]},
}
COMPACTION: dict[str, Any] = {"type": "compaction", "content": "They met."}
SIGNED = {**COMPACTION, "signature": "s"}


def adds(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"role": "system", "content": [{"type": "tool_addition", "tool": t} for t in tools]}


def paper(pages: int, *, locked: bool = False) -> dict[str, Any]:
    tree = b"%%PDF-1.4 1 0 obj << /Type /Pages /Count %d >> endobj trailer << /Root 9 0 R" % pages
    file = tree + (b" /Encrypt 3 0 R >>" if locked else b" >>")
    source = {
        "type": "base64",
        "media_type": "application/pdf",
        "data": base64.b64encode(file).decode(),
    }
    return {"type": "document", "source": source}


STRICT = [
    {
        "name": f"t{i}",
        "strict": True,
        "input_schema": {"type": "object", "additionalProperties": False},
    }
    for i in range(21)
]
REFUSED: dict[str, tuple[Any, str, str]] = {
    "no model": (payload(model=None), "A0", "model"),
    "no length": (payload(max_tokens=None), "A0", "max_tokens"),
    "no messages": ({**payload(), "messages": []}, "A0", "messages"),
    "a role of another API": (payload({"role": "tool", "content": "x"}), "A0", "messages[0].role"),
    "content of another type": (payload({"role": "user", "content": {}}), "A0", "messages[0]."),
    "a block without a type": (payload(asks({"text": "x"})), "A0", "messages[0].content[0]"),
    "a text block without text": (payload(asks({"type": "text"})), "A0", "messages[0].content[0]"),
    "an unanswered call": (payload(GO, says(USE), GO), "A1", "messages[1].content[0]"),
    "a call at the end": (payload(GO, says(USE)), "A1", "messages[1].content[0]"),
    "text before a result": (
        payload(GO, says(USE), asks(text("x"), RESULT)),
        "A2",
        "messages[2].content[1]",
    ),
    "text in the message before a result": (
        payload(GO, says(USE), GO, asks(RESULT)),
        "A2",
        "messages[3].content[0]",
    ),
    "a result without a call": (payload(asks(RESULT)), "A3", "messages[0].content[0]"),
    "two results of one call": (
        payload(GO, says(USE), asks(RESULT, RESULT)),
        "A3",
        "messages[2].content[1]",
    ),
    "a result of the assistant": (payload(GO, says(RESULT), GO), "A3", "messages[1].content[0]"),
    "a server result without its call": (payload(GO, says(FOUND)), "A4", "messages[1].content[0]"),
    "text while a server tool is pending": (
        payload(GO, says(SEARCH), GO),
        "A4",
        "messages[2].content",
    ),
    "an id with a dot": (
        payload(GO, says({**USE, "id": "a.b"}), asks({**RESULT, "tool_use_id": "a.b"})),
        "A5",
        "messages[1].content[0].id",
    ),
    "an id twice in one message": (
        payload(GO, says(USE, USE), asks(RESULT)),
        "A5",
        "messages[1].content[1].id",
    ),
    "a call of the user": (payload(asks(USE), asks(RESULT)), "A0", "messages[0].content[0]"),
    "input that is no object": (
        payload(GO, says({**USE, "input": "{}"}), asks(RESULT)),
        "A0",
        "messages[1].content[0].input",
    ),
    "a tool name with a dot": (payload(tools=[{**TOOL, "name": "a.b"}]), "A6", "tools[0].name"),
    "two tools of one name": (payload(tools=[TOOL, TOOL]), "A6", "tools[1].name"),
    "a forced tool that is not offered": (
        payload(tools=[TOOL], tool_choice={"type": "tool", "name": "x"}),
        "A6",
        "tool_choice.name",
    ),
    "a forced call without tools": (payload(tool_choice={"type": "any"}), "A6", "tool_choice"),
    "a schema of another type": (
        payload(tools=[{**TOOL, "input_schema": {"type": "string"}}]),
        "A7",
        "tools[0].input_schema.type",
    ),
    "a union at the root": (
        payload(tools=[{**TOOL, "input_schema": {"type": "object", "anyOf": []}}]),
        "A7",
        "tools[0].input_schema.anyOf",
    ),
    "a parameter that cannot be named": (
        payload(
            tools=[{"name": "x", "input_schema": {"type": "object", "properties": {"$top": {}}}}]
        ),
        "A32",
        "tools[0].input_schema.properties['$top']",
    ),
    "a schema of an older draft": (
        payload(
            tools=[
                {
                    "name": "x",
                    "input_schema": {
                        "type": "object",
                        "properties": {"a": {"minimum": 0, "exclusiveMinimum": True}},
                    },
                }
            ]
        ),
        "A33",
        "tools[0].input_schema",
    ),
    "no schema": (payload(tools=[{"name": "x"}]), "A7", "tools[0].input_schema"),
    "too many strict tools": (payload(tools=STRICT), "A8", "tools"),
    "empty content": (payload(asks(), says(text("x")), GO), "A9", "messages[0].content"),
    "blank text": (payload(asks(text(" "))), "A9", "messages[0].content[0]"),
    "blank content": (payload({"role": "user", "content": " "}), "A9", "messages[0].content"),
    "blank text in a result": (
        payload(GO, says(USE), asks({**RESULT, "content": [text("")]})),
        "A9",
        "messages[2].content[0].content[0]",
    ),
    "blank text in the system prompt": (payload(system=[text("\n")]), "A9", "system[0]"),
    "whitespace at the end": (payload(GO, says(text("x "))), "A10", "messages[1].content[0]"),
    "a system message first": (payload(system(), GO), "A13", "messages[0]"),
    "a system message behind the assistant": (
        payload(GO, says(text("x")), system()),
        "A13",
        "messages[2]",
    ),
    "a system message before the user": (payload(GO, system(), GO), "A13", "messages[1]"),
    "sampling in the newest version": (payload(temperature=1), "A14", "temperature"),
    "sampling by way of the extra body": (payload(extra_body={"top_k": 3}), "A14", "top_k"),
    "a document of the assistant": (
        payload(GO, says({"type": "document", "source": {}})),
        "A14",
        "messages[1].content[0]",
    ),
    "citations of the user": (
        payload(asks(text("x", citations=[{}]))),
        "A14",
        "messages[0].content[0]",
    ),
    "temperature with a budget": (payload(temperature=0.5, **OLD_API, **BUDGET), "A14", "temper"),
    "too small a budget": (
        payload(thinking={"type": "enabled", "budget_tokens": 5}),
        "A15",
        "thinking.budget_tokens",
    ),
    "a budget beyond the reply": (
        payload(thinking={"type": "enabled", "budget_tokens": 2000}),
        "A15",
        "thinking.budget_tokens",
    ),
    "a loop without thinking": (
        payload(GO, says(USE), asks(RESULT), **BUDGET),
        "A15",
        "messages[1].content[0]",
    ),
    "unsigned thinking": (
        payload(GO, says({"type": "thinking", "thinking": "x"}, text("y")), GO),
        "A16",
        "messages[1].content[0]",
    ),
    "hidden thinking without its bytes": (
        payload(GO, says({"type": "redacted_thinking"}, text("y")), GO),
        "A16",
        "messages[1].content[0]",
    ),
    "thinking of the user": (payload(asks(THOUGHT, text("x"))), "A16", "messages[0].content[0]"),
    "thinking in final position": (
        payload(GO, says(THOUGHT, text("x")), thinking={"type": "disabled"}),
        "A16",
        "messages[1].content[0]",
    ),
    "a forced call with a budget": (
        payload(tools=[TOOL], tool_choice={"type": "any"}, **BUDGET),
        "A18",
        "tool_choice",
    ),
    "five breakpoints": (
        payload(asks(*[text("x", **MARK)] * 4), cache_control={"type": "ephemeral"}),
        "A19",
        "cache_control",
    ),
    "a long breakpoint behind a short one": (
        payload(asks(text("x", **MARK), text("y", **MARK_1H))),
        "A19",
        "messages[0].content[1]",
    ),
    "a last block that differs from the automatic one": (
        payload(asks(text("x", **MARK_1H)), cache_control={"type": "ephemeral"}),
        "A19",
        "messages[0].content[0]",
    ),
    "a breakpoint on thinking": (
        payload(GO, says({**THOUGHT, **MARK}, text("x")), GO),
        "A19",
        "messages[1].content[0]",
    ),
    "a breakpoint on empty text": (payload(system=[text("", **MARK)]), "A19", "system[0]"),
    "a breakpoint on a deferred tool": (
        payload(tools=[TOOL, {**TOOL, "name": "x", "defer_loading": True, **MARK}]),
        "A19",
        "tools[1]",
    ),
    "deferred tools alone": (payload(tools=[{**TOOL, "defer_loading": True}]), "A20", "tools"),
    "a reference to an unknown tool": (
        payload(
            GO,
            says(USE),
            asks({**RESULT, "content": [{"type": "tool_reference", "tool_name": "x"}]}),
            tools=[TOOL],
        ),
        "A20",
        "messages[2].content[0]",
    ),
    "601 images": (payload(asks(*[IMAGE] * 601)), "A21", "messages[0].content[600]"),
    "an image of another type": (
        payload(asks({"type": "image", "source": {**IMAGE["source"], "media_type": "image/bmp"}})),
        "A21",
        "messages[0].content[0].source.media_type",
    ),
    "an image with a data URL": (
        payload(asks({"type": "image", "source": {**IMAGE["source"], "data": "data:x"}})),
        "A21",
        "messages[0].content[0].source.data",
    ),
    "an image of 11 MB": (
        payload(asks({"type": "image", "source": {**IMAGE["source"], "data": "A" * 11_000_000}})),
        "A21",
        "messages[0].content[0].source.data",
    ),
    "an image without a URL": (
        payload(asks({"type": "image", "source": {"type": "url"}})),
        "A21",
        "messages[0].content[0].source.url",
    ),
    "a data URL for a URL": (
        payload(asks({"type": "image", "source": {"type": "url", "url": "Data:image/png,x"}})),
        "A21",
        "messages[0].content[0].source.url",
    ),
    "a side of 8,001 pixels": (payload(asks(pixels(8001))), "A21", "messages[0].content[0]."),
    "2,001 pixels among 21 images": (
        payload(asks(*[IMAGE] * 20, pixels(2001))),
        "A21",
        "messages[0].content[20].source.data",
    ),
    "25 optional strict parameters": (payload(tools=[strict_tool(optional=25)]), "A8", "tools"),
    "17 strict unions": (payload(tools=[strict_tool(unions=17)]), "A8", "tools"),
    "an image from nowhere": (
        payload(asks({"type": "image"})),
        "A21",
        "messages[0].content[0].source",
    ),
    "a document of another type": (
        payload(asks({"type": "document", "source": {"type": "base64", "media_type": "x"}})),
        "A22",
        "messages[0].content[0].source.media_type",
    ),
    "100,001 messages": (payload(*[GO] * 100_001), "A22", "messages"),
    "33 MB": (payload({"role": "user", "content": "x" * 33_600_000}), "A22", "messages"),
    "pre-warming in a stream": (payload(max_tokens=0, stream=True), "A24", "stream"),
    "compaction and editing": (
        payload(compaction={"type": "summarize"}, context_management={"edits": []}),
        "A25",
        "compaction",
    ),
    "clear_thinking second": (
        payload(
            context_management={
                "edits": [{"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}]
            }
        ),
        "A26",
        "context_management.edits[1]",
    ),
    "pre-warming with a budget": (payload(max_tokens=0, **BUDGET), "A24", "thinking"),
    "pre-warming for a format": (
        payload(max_tokens=0, output_config={"format": {"type": "json_schema"}}),
        "A24",
        "output_config.format",
    ),
    "pre-warming with a forced call": (
        payload(max_tokens=0, tools=[TOOL], tool_choice={"type": "any"}),
        "A24",
        "tool_choice",
    ),
    "a task budget and compaction": (
        payload(**TASK, context_management={"edits": [{"type": "compact_20260112"}]}),
        "A25",
        "output_config.task_budget.remaining",
    ),
    "a task budget and compaction on demand": (
        payload(**TASK, compaction={"type": "summarize"}),
        "A25",
        "output_config.task_budget.remaining",
    ),
    "an id that no server tool has": (
        payload(GO, says({**SEARCH, "id": "toolu_1"}, {**FOUND, "tool_use_id": "toolu_1"})),
        "A5",
        "messages[1].content[0].id",
    ),
    "an example without what is required": (
        payload(tools=[{**NEEDY, "input_examples": [{"path": "a"}, {"x": 1}]}]),
        "A7",
        "tools[0].input_examples[1]",
    ),
    "an example that is no object": (
        payload(tools=[{**NEEDY, "input_examples": ["a"]}]),
        "A7",
        "tools[0].input_examples[0]",
    ),
    "a tool added that is not declared": (
        payload(GO, adds({"type": "tool_reference", "name": "x"}), tools=[TOOL]),
        "A20",
        "messages[1].content[0]",
    ),
    "a PDF of 601 pages": (
        payload(asks(paper(601))),
        "A22",
        "messages[0].content[0].source.data",
    ),
    "an encrypted PDF": (
        payload(asks(paper(1, locked=True))),
        "A22",
        "messages[0].content[0].source.data",
    ),
    "a compaction of the user": (
        payload(asks(COMPACTION, text("x"))),
        "A29",
        "messages[0].content[0]",
    ),
    "an empty compaction": (
        payload(says({**COMPACTION, "content": ""}), GO),
        "A29",
        "messages[0].content[0].content",
    ),
    "two signed compactions": (
        payload(says(SIGNED, SIGNED), GO),
        "A29",
        "messages[0].content[1]",
    ),
    "a signed compaction behind a message": (
        payload(GO, says(SIGNED), GO),
        "A29",
        "messages[1].content[0]",
    ),
    "a signed compaction behind a text": (
        payload(says(text("x"), SIGNED), GO),
        "A29",
        "messages[0].content[1]",
    ),
    "a blank stop sequence": (payload(stop_sequences=["a", "\n"]), "A28", "stop_sequences[1]"),
}


@pytest.mark.parametrize(("made", "rule", "where"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(made: Any, rule: str, where: str) -> None:
    assert any(found == rule and at.startswith(where) for found, at in check(made)), check(made)


BETWEEN = replace(OPUS, thinking=ThinkingRule(kinds=("adaptive",), disable="between_tools"))
UP_TO_HIGH = replace(OPUS, thinking=ThinkingRule(kinds=("adaptive",), disable="effort_up_to_high"))
BLIND = replace(OPUS, features={"vision": False})
NEVER = replace(HAIKU_45, parameters=OPUS.parameters)
PREFILL = payload(GO, says(text("x")))
MODEL_RULES: dict[str, tuple[Any, ModelLimits, str]] = {
    "prefill": (PREFILL, OPUS, "A11"),
    "sampling on a model that takes none": (payload(top_p=0.5, **OLD_API), NEVER, "A14"),
    "a budget on an adaptive model": (payload(**BUDGET), OPUS, "A15"),
    "adaptive on a model with budgets": (payload(thinking={"type": "adaptive"}), HAIKU_45, "A15"),
    "off where it is always on": (payload(thinking={"type": "disabled"}), OPUS, "A15"),
    "off where it is only between tools": (payload(thinking={"type": "disabled"}), BETWEEN, "A15"),
    "off at the highest effort": (
        payload(thinking={"type": "disabled"}, output_config={"effort": "max"}),
        UP_TO_HIGH,
        "A15",
    ),
    "between tools elsewhere": (payload(thinking={"type": "between_tools"}), OPUS, "A15"),
    "thinking in final position": (payload(GO, says(THOUGHT, text("x"))), HAIKU_45, "A16"),
    "a forced call": (payload(tools=[TOOL], tool_choice={"type": "any"}), OPUS, "A18"),
    "101 images in a small window": (payload(asks(*[IMAGE] * 101)), HAIKU_45, "A21"),
    "an image for a blind model": (payload(asks(IMAGE)), BLIND, "A21"),
    "a longer reply than there is": (payload(max_tokens=64_001), HAIKU_45, "A23"),
    "6 MB of an image on a cloud": (
        payload(asks({"type": "image", "source": {**IMAGE["source"], "data": "A" * 6_000_000}})),
        replace(OPUS, host="bedrock"),
        "A21",
    ),
    "a PDF of 101 pages in a small window": (payload(asks(paper(101))), HAIKU_45, "A22"),
    "an unknown effort": (payload(output_config={"effort": "huge"}), OPUS, "A27"),
}


@pytest.mark.parametrize(("made", "limits", "rule"), MODEL_RULES.values(), ids=MODEL_RULES.keys())
def test_what_one_model_refuses(made: Any, limits: ModelLimits, rule: str) -> None:
    assert rule in [found for found, _ in check(made, limits)]
    assert check(made) == []


TAKEN: dict[str, Any] = {
    "results in two messages": payload(
        GO, says(USE, {**USE, "id": "t2"}), asks(RESULT), asks({**RESULT, "tool_use_id": "t2"})
    ),
    "a last assistant message that is empty": payload(GO, {"role": "assistant", "content": ""}),
    "a server tool with its result": payload(GO, says(SEARCH, FOUND), GO),
    "a result while a server tool is pending": payload(GO, says(SEARCH, USE), asks(RESULT)),
    "a system message behind a server result": payload(GO, says(SEARCH, FOUND), system()),
    "a compaction first": payload(says({"type": "compaction", "content": "x"}), GO),
    "a signed compaction first": payload(says(SIGNED, THOUGHT, text("x")), GO),
    "a compaction in the middle": payload(GO, says(COMPACTION, text("x")), GO),
    "a compaction that failed": payload(GO, says({**COMPACTION, "content": None}, text("x")), GO),
    "examples that suit their schema": payload(tools=[{**NEEDY, "input_examples": [{"path": "a"}]}]),
    "tools added that are declared": payload(
        GO, adds({"type": "tool_reference", "name": "read_file"}), tools=[TOOL]
    ),
    "tools added that were defined": payload(
        GO,
        adds(
            {
                "type": "tool_definition",
                "definition": {"name": "x", "input_schema": {"type": "object"}},
            },
            {"type": "tool_reference", "name": "x"},
        ),
        tools=[TOOL],
    ),
    "a PDF of 600 pages": payload(asks(paper(600))),
    "a PDF whose bytes do not tell": payload(
        asks({"type": "document", "source": {**paper(1)["source"], "data": "JVBERi0="}})
    ),
    "a task budget without what remains": payload(
        output_config={"task_budget": {"total": 1}}, compaction={"type": "summarize"}
    ),
    "100,000 messages": payload(*[GO] * 100_000),
    "a budget beyond the reply with a beta": payload(
        thinking={"type": "enabled", "budget_tokens": 2000}, betas=["interleaved-thinking"]
    ),
    "a loop that began with thinking": payload(
        GO, says(THOUGHT, USE), asks(RESULT), says({**USE, "id": "t2"}),
        asks({**RESULT, "tool_use_id": "t2"}), **BUDGET,
    ),
    "references through a server": payload(
        GO, says(USE), asks({**RESULT, "content": [{"type": "tool_reference", "tool_name": "x"}]}),
        mcp_servers=[{}],
    ),
    "four breakpoints in order": payload(
        asks(text("x", **MARK_1H), text("y", **MARK)),
        system=[text("s", **MARK_1H)],
        cache_control={"type": "ephemeral"},
    ),
    "an image by id": payload(asks({"type": "image", "source": {"type": "file", "file_id": "f"}})),
    "pre-warming": payload(max_tokens=0),
    "no tool choice to speak of": payload(tool_choice={"type": "none"}),
}  # fmt: skip


@pytest.mark.parametrize("made", TAKEN.values(), ids=TAKEN.keys())
def test_what_is_taken(made: Any) -> None:
    assert check(made) == []


def test_sampling_depends_on_the_version_that_is_asked_for() -> None:
    sampled = payload(temperature=0.5)

    assert check(sampled, today=date(2026, 10, 20)) == []
    assert check(sampled, today=date(2026, 10, 21)) == [("A14", "temperature")]
    assert check({**sampled, **OLD_API}, today=date(2026, 10, 21)) == []
    assert check(payload(temperature=1, **OLD_API), NEVER) == []


AVOIDED: dict[str, tuple[Any, ModelLimits | None, str]] = {
    "the assistant first": (payload(says(text("x")), GO), None, "A12"),
    "an id again": (
        payload(GO, says(USE), asks(RESULT), says(USE), asks(RESULT)),
        None,
        "A5",
    ),
    "a system message that is not documented": (payload(GO, system()), HAIKU_45, "A13"),
    "temperature beside top_p": (
        payload(temperature=0.5, top_p=0.5, **OLD_API),
        HAIKU_45,
        "A14",
    ),
    "a strict tool with a schema that is not": (
        payload(
            tools=[
                {
                    **TOOL,
                    "strict": True,
                    "input_schema": {
                        "type": "object",
                        "properties": {"at": {"$ref": "#/$defs/Spot"}},
                        "additionalProperties": False,
                        "$defs": {"Spot": {"type": "string"}},
                    },
                }
            ]
        ),
        None,
        "A8",
    ),
    "two PDFs of 301 pages": (payload(asks(paper(301), paper(301))), None, "A22"),
    "a compaction without its beta": (payload(says(COMPACTION), GO), None, "A30"),
    "a long reply without a stream": (payload(max_tokens=21_334), None, "A31"),
    "a null": (payload(system=None), None, "A0"),
    "a called name with a blank": (
        payload(GO, says({**USE, "name": "git diff"}), asks(RESULT)),
        None,
        "A6",
    ),
    "effort on a model without": (payload(output_config={"effort": "low"}), HAIKU_45, "A27"),
}


@pytest.mark.parametrize(("made", "limits", "rule"), AVOIDED.values(), ids=AVOIDED.keys())
def test_what_merely_harms(made: Any, limits: ModelLimits | None, rule: str) -> None:
    found = ANTHROPIC.check_payload(made, limits=limits)

    assert [(v.rule, v.level) for v in found] == [(rule, "avoid")]
    assert rule in str(found[0])


def test_every_rule_has_a_payload_that_breaks_it() -> None:
    tables = (REFUSED.values(), MODEL_RULES.values(), AVOIDED.values())
    tested = {word for table in tables for row in table for word in row if isinstance(word, str)}

    assert SOURCES.keys() - tested == set()


def test_every_rule_of_the_list_is_checked_or_says_why_not() -> None:
    listed = {f"A{number}" for number in range(34)}

    assert listed == SOURCES.keys() | UNCHECKED.keys()
    assert all(reason.endswith(".") for reason in UNCHECKED.values())
