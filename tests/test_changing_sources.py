"""Sources of tools that go down and come back, change their lists, and are listed in other orders."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler import ContextAssembler, InvalidParameterError
from context_assembler.config import AssemblerConfig
from context_assembler.ports import SessionStore
from context_assembler.sessions import open_store
from context_assembler.values.context import AssembledContext
from context_assembler.values.parts import JsonObject
from context_assembler.values.tools import ToolSpec
from tests.adding_up import differences
from tests.test_changing_tools import grows, rows

MODELS: Final = (
    "claude-opus-5-5",
    "claude-haiku-4-5",
    "gpt-6.2-sol",
    "gpt-4.1",
    "gemini-4-argon",
)
REPLIES: Final[Mapping[str, JsonObject]] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "Fine."}],
        "stop_reason": "end_turn",
    },
    "openai_responses": {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Fine.", "annotations": []}],
            }
        ],
    },
    "openai_chat": {
        "id": "chatcmpl_1",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Fine."},
            }
        ],
    },
    "gemini": {
        "response_id": "r1",
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": "Fine."}]}, "finish_reason": "STOP"}
        ],
    },
}


def tool(name: str, says: str, **more: Any) -> ToolSpec:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    return ToolSpec(name=name, description=says, input_schema=schema, **more)


@dataclass
class Server:
    """A source as an MCP server is one: it can be down, and change its list."""

    name: str
    tools: Sequence[ToolSpec] = ()
    is_up: bool = True
    kind: str = "mcp"

    async def list_tools(self) -> Sequence[ToolSpec]:
        if not self.is_up:
            raise ConnectionError("refused")
        return self.tools


@dataclass(frozen=True)
class Step:
    """What the sources offer in one call, in their order, and what the caller asks."""

    servers: Sequence[Any]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


async def play(
    steps: Sequence[Step],
    *,
    model: str,
    store: str | SessionStore,
    config: AssemblerConfig | None = None,
) -> list[AssembledContext]:
    """Make a call for each step, each in an assembler of its own, as after a restart."""
    sent: list[AssembledContext] = []
    for number, step in enumerate(steps):
        async with ContextAssembler(
            store, tools=list(step.servers), config=config or AssemblerConfig()
        ) as assembler:
            await assembler.add_user("s", f"Question {number}.")
            context = await assembler.assemble("s", model=model, max_tokens=1_000, **step.options)
            reply = {**REPLIES[context.provider], "model": context.metadata.model_id}
            await assembler.record("s", reply, context)
            sent.append(context)
    return sent


def meanings(context: AssembledContext) -> dict[str, tuple[str, str]]:
    """Return whose tool each name stands for, as its source calls it."""
    return {one.name: (one.source, one.own_name or one.name) for one in context.tools}


def has_begun_anew(before: AssembledContext, after: AssembledContext) -> bool:
    is_cut = before.metadata.cut_level != after.metadata.cut_level
    return is_cut or bool(rows(after, "rewrite.tools", "rewrite.system"))


def up(*names: str) -> list[Server]:
    return [Server(name, [tool("search", f"Searches {name}.")]) for name in names]


KEEPER = Server("keeper", [tool("keep", "Keeps.")])


@pytest.mark.parametrize("model", MODELS)
async def test_a_name_does_not_pass_to_the_tool_of_another_server(
    model: str, tmp_path: Path
) -> None:
    steps = [
        Step([*up("a", "b"), KEEPER]),
        Step([Server("a", is_up=False), *up("b"), KEEPER]),
        Step([KEEPER, *up("b")]),
        Step([*up("b", "a"), KEEPER]),
    ]

    contexts = await play(steps, model=model, store=f"sqlite:{tmp_path / 'agent.db'}")

    of_b = {"b_search": ("b", "search"), "keep": ("keeper", "keep")}
    whole = {"search": ("a", "search"), **of_b}
    assert [meanings(one) for one in contexts] == [whole, of_b, of_b, whole]


async def test_the_name_of_a_tool_that_went_is_free_behind_a_rewrite(tmp_path: Path) -> None:
    steps = [
        Step([*up("a"), KEEPER]),
        Step([KEEPER]),
        Step([KEEPER, Server("web", [tool("go", "Goes.", is_strict=True)])]),
        Step([KEEPER, *up("b")]),
    ]

    contexts = await play(steps, model="gpt-4.1", store=f"sqlite:{tmp_path / 'agent.db'}")

    assert rows(contexts[2], "rewrite.tools")
    assert meanings(contexts[3])["search"] == ("b", "search")


SPEC: Final[JsonObject] = {
    "name": "search",
    "description": "Searches everything.",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


def search(q: str) -> str:
    """Search."""
    return q


class Tools:
    """An executor without a name."""

    def list_tools(self) -> list[JsonObject]:
        return [{**SPEC, "description": "Searches all of it."}]


@pytest.mark.parametrize("model", MODELS)
async def test_a_tool_keeps_its_name_whatever_the_application_makes_it_from(
    model: str, tmp_path: Path
) -> None:
    only = {"tool_choice": {"mode": "auto", "allowed": ["search"]}}
    ways: list[Any] = [search, SPEC, Tools(), search]
    steps = [Step([way, KEEPER], only) for way in ways]

    contexts = await play(steps, model=model, store=f"sqlite:{tmp_path / 'agent.db'}")

    assert [sorted(meanings(one)) for one in contexts] == [["keep", "search"]] * 4
    assert all(differences(one.report) == {} for one in contexts)


@pytest.mark.parametrize(
    ("model", "name"),
    [("claude-haiku-4-5", "search"), ("gpt-4.1", "search"), ("claude-opus-5-5", "c_search")],
)
async def test_a_rewrite_frees_names_in_the_very_call_and_they_stay(
    model: str, name: str, tmp_path: Path
) -> None:
    steps = [
        Step([*up("a"), KEEPER]),
        Step([KEEPER, *up("c")]),
        Step([KEEPER, *up("c")]),
        Step([*up("a", "c"), KEEPER]),
        Step([KEEPER, *up("c")]),
    ]

    contexts = await play(steps, model=model, store=f"sqlite:{tmp_path / 'agent.db'}")

    assert [meanings(one).get(name) for one in contexts[1:]] == [("c", "search")] * 4
    assert bool(rows(contexts[1], "rewrite.tools")) == (name == "search")


async def test_a_tool_that_is_added_under_another_name_says_both(tmp_path: Path) -> None:
    steps = [Step([*up("a"), KEEPER]), Step([*up("a", "b"), KEEPER])]

    contexts = await play(steps, model="claude-opus-5-5", store=f"sqlite:{tmp_path / 'agent.db'}")

    (row,) = rows(contexts[1], "tool.added")
    assert (row.id, row.decision) == ("b_search", "repaired")
    assert row.reason.startswith("'search' is the name of a different tool of a. It is told behind")


async def test_a_server_that_offers_the_very_same_takes_over_and_is_called(tmp_path: Path) -> None:
    same = [tool("search", "Searches.")]
    steps = [Step([Server("a", same), Server("b", same)]), Step([Server("b", same)])]

    first, second = await play(
        steps, model="claude-opus-5-5", store=f"sqlite:{tmp_path / 'agent.db'}"
    )

    assert grows(first, second)
    assert not rows(second, "tool.added", "tool.withdrawn")
    assert [meanings(one)["search"][0] for one in (first, second)] == ["a", "b"]


async def test_a_call_is_forced_by_the_name_that_the_model_knows(tmp_path: Path) -> None:
    down = [Server("a", is_up=False), *up("b"), KEEPER]
    steps = [Step([*up("a", "b"), KEEPER]), Step(down, {"tool_choice": {"name": "b_search"}})]
    store = f"sqlite:{tmp_path / 'agent.db'}"

    _, forced = await play(steps, model="claude-haiku-4-5", store=store)

    assert forced.to_request()["tool_choice"] == {"type": "tool", "name": "b_search"}
    with pytest.raises(InvalidParameterError, match="'search', which is not offered"):
        await play([Step(down, {"tool_choice": {"name": "search"}})], model="gpt-4.1", store=store)


# ---- what the system prompt says of them ----

WITH_SUMMARY = AssemblerConfig(prompt={"summarizes_tools": True})


@pytest.mark.parametrize("model", ["gpt-6.2-sol", "gpt-4.1", "gemini-4-argon", "claude-opus-5-5"])
async def test_a_withdrawn_tool_that_the_prompt_names_is_told_of(
    model: str, tmp_path: Path
) -> None:
    steps = [Step([*up("a"), KEEPER]), Step([KEEPER]), Step([KEEPER]), Step([*up("a"), KEEPER])]

    contexts = await play(
        steps, model=model, store=f"sqlite:{tmp_path / 'agent.db'}", config=WITH_SUMMARY
    )

    said = [json.dumps(context.to_request()) for context in contexts]
    assert all(grows(*pair) for pair in pairwise(contexts))
    assert all("- search: Searches a." in context.system_prompt for context in contexts)
    assert [
        text.count("cannot be called: search") + text.count('"tool_removal"') for text in said
    ] == [0, 1, 1, 1]
    assert [text.count("can be called again") + text.count('"tool_addition"') for text in said] == [
        0,
        0,
        0,
        1,
    ]


async def test_a_template_that_names_the_tools_has_the_same_note(tmp_path: Path) -> None:
    folder = tmp_path / "bootstrap"
    folder.mkdir()
    (folder / "AGENT.md").write_text("---\ntemplate: jinja2\n---\nTools: {{ tools | join(', ') }}.")
    store = f"sqlite:{tmp_path / 'agent.db'}"
    sent: list[AssembledContext] = []
    for servers in ([*up("a"), KEEPER], [KEEPER]):
        async with ContextAssembler(store, bootstrap=folder, tools=list(servers)) as assembler:
            await assembler.add_user("s", "Go.")
            context = await assembler.assemble("s", model="gpt-6.2-sol", max_tokens=500)
            reply = {**REPLIES["openai_responses"], "model": "gpt-6.2-sol"}
            await assembler.record("s", reply, context)
            sent.append(context)

    assert sent[1].system_prompt == sent[0].system_prompt == "Tools: keep, search."
    assert [note.text for note in sent[1].notes] == [
        "At this time these tools cannot be called: search."
    ]


# ---- laws ----

NAMES: Final = ("search", "fetch", "b_search", "fs.read", "fs_read")
specs = st.builds(
    tool,
    st.sampled_from(NAMES),
    st.sampled_from(["Looks.", "Finds."]),
    is_safe=st.sampled_from([None, True]),
    permission=st.sampled_from([None, "net.out"]),
    is_strict=st.sampled_from([None, None, None, True]),
    is_deferred=st.sampled_from([None, None, None, True]),
)
servers = st.builds(
    Server,
    st.sampled_from(["a", "b", "b c"]),
    st.lists(specs, max_size=3, unique_by=lambda one: one.name),
    is_up=st.sampled_from([True, True, True, False]),
    kind=st.sampled_from(["mcp", "executor"]),
)
options = st.fixed_dictionaries(
    {},
    optional={
        "sandbox_mode": st.booleans(),
        "permissions": st.sampled_from([("*",), ("net.*", "search"), ()]),
        "disabled_tools": st.sampled_from([("search",), ("b_search",)]),
        "tool_choice": st.sampled_from(
            [
                "none",
                "any",
                {"name": "search"},
                {"name": "keep"},
                {"mode": "auto", "allowed": ["keep"]},
            ]
        ),
    },
)
listed = st.lists(servers, max_size=3, unique_by=lambda one: one.name).map(
    lambda some: [*some, KEEPER]
)
schedules = st.lists(st.builds(Step, listed, options), min_size=2, max_size=6)
configs = st.builds(
    AssemblerConfig,
    tools=st.fixed_dictionaries({"defers_above": st.sampled_from([None, 2])}),
    prompt=st.fixed_dictionaries({"summarizes_tools": st.booleans()}),
)


async def play_possible(
    steps: Sequence[Step], *, model: str, config: AssemblerConfig
) -> list[AssembledContext]:
    """Play the steps, without the choices that are refused, for a good reason, before any call."""
    asked = list(steps)
    while True:
        try:
            return await play(asked, model=model, store=open_store("memory:"), config=config)
        except InvalidParameterError:  # a choice of a tool that is not offered
            asked = [
                Step(one.servers, {k: v for k, v in one.options.items() if k != "tool_choice"})
                for one in asked
            ]


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=schedules, config=configs)
async def test_whatever_comes_and_goes_requests_are_valid_grow_and_add_up(
    model: str, steps: list[Step], config: AssemblerConfig
) -> None:
    contexts = await play_possible(steps, model=model, config=config)

    for context in contexts:
        assert context.check() == []
        assert differences(context.report) == {}
    learnt: dict[str, tuple[str, str]] = {}
    for before, after in pairwise(contexts):
        is_anew = has_begun_anew(before, after)
        assert is_anew or grows(before, after)
        told = {} if is_anew else {**learnt, **meanings(before)}
        for name, meaning in meanings(after).items():
            assert told.get(name, meaning) == meaning or _reads_alike(name, before, after)
        learnt = told


def _reads_alike(name: str, before: AssembledContext, after: AssembledContext) -> bool:
    one, other = (
        next((t for t in context.tools if t.name == name), None) for context in (before, after)
    )
    return one is None or (other is not None and one.description == other.description)
