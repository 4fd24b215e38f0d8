"""Tools of all sources: filtered, checked, merged by name, sorted; names that the model knows stay."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.errors import InvalidToolError, McpServerError, ToolConflictError
from context_assembler.options import AssembleOptions
from context_assembler.ports import ToolSpec
from context_assembler.tools import CollectedTools, ExecutorTools, ListedTools, ToolCollector


def schema(**properties: str) -> dict[str, Any]:
    return {"type": "object", "properties": {n: {"type": t} for n, t in properties.items()}}


def spec(name: str, **more: Any) -> ToolSpec:
    more.setdefault("input_schema", schema())
    return ToolSpec(name=name, **more)


class Source(ListedTools):
    """A source with a name; its kind is what is before the colon."""

    def __init__(self, name: str, *specs: ToolSpec, kind: str | None = None) -> None:
        super().__init__(specs, name, name.partition(":")[0] if kind is None else kind)


class Failing:
    """An executor that lists its tools, and fails as often as it is told to."""

    name = "billing"

    def __init__(self, *specs: ToolSpec, fails: BaseException | None = None) -> None:
        self.specs, self.fails = specs, fails

    async def list_tools(self) -> Sequence[ToolSpec]:
        if self.fails is not None:
            raise self.fails
        return self.specs


class Silent:
    name = "silent"

    async def list_tools(self) -> Sequence[ToolSpec]:
        await asyncio.Event().wait()
        raise AssertionError


def names(collected: CollectedTools) -> list[str]:
    return [tool.name for tool in collected.tools]


def owners(collected: CollectedTools) -> dict[str, str]:
    return {tool.name: tool.source for tool in collected.tools}


def fates(collected: CollectedTools) -> dict[str, tuple[str, str]]:
    return {entry.id: (entry.decision, entry.rule) for entry in collected.entries}


def collect(*sources: Any, learnt: Any = (), **options: Any) -> CollectedTools:
    return ToolCollector(list(sources)).collect_now(AssembleOptions(**options), learnt=learnt)


def test_tools_come_sorted_and_know_their_source() -> None:
    collected = collect(Source("listed", spec("b"), spec("a")), Source("x", spec("c")))

    assert list(owners(collected).items()) == [("a", "listed"), ("b", "listed"), ("c", "x")]


FOUR = Source(
    "functions",
    spec("read", permission="fs.read", is_safe=True),
    spec("write", permission="disk.write", is_safe=False),
    spec("send", permission="network.send"),
    spec("calc"),
)
FILTERS: dict[str, tuple[dict[str, Any], list[str], dict[str, tuple[str, str]]]] = {
    "permissions match permission or name": (
        {"permissions": ("fs.*", "calc")},
        ["calc", "read"],
        {"send": ("blocked", "permission"), "write": ("blocked", "permission")},
    ),
    "no permission, no tool": ({"permissions": ()}, [], {"read": ("blocked", "permission")}),
    "the sandbox keeps what is marked safe": (
        {"sandbox_mode": True},
        ["read"],
        {"write": ("blocked", "sandbox"), "calc": ("blocked", "sandbox")},
    ),
    "disabled by name": (
        {"disabled_tools": ("send",)},
        ["calc", "read", "write"],
        {"send": ("dropped", "disabled")},
    ),
    "nothing set": ({}, ["calc", "read", "send", "write"], {"read": ("kept", "")}),
}


@pytest.mark.parametrize(("options", "kept", "expected"), FILTERS.values(), ids=FILTERS)
def test_options_decide_what_is_offered(
    options: dict[str, Any], kept: list[str], expected: dict[str, tuple[str, str]]
) -> None:
    collected = collect(FOUR, **options)

    assert names(collected) == kept
    assert expected.items() <= fates(collected).items()


def test_settings_include_and_exclude_by_pattern() -> None:
    collected = ToolCollector([FOUR], include=["*e*"], exclude=["write"]).collect_now()

    assert names(collected) == ["read", "send"]
    assert fates(collected)["calc"] == fates(collected)["write"] == ("dropped", "excluded")


def test_disabling_what_no_source_offers_names_the_nearest() -> None:
    collected = collect(FOUR, disabled_tools=("wirte",))

    assert "'wirte', which no source offers. Did you mean 'write'?" in collected.warnings[0]


# ---- what fails ----


async def test_a_source_that_fails_is_named_and_the_rest_goes_on() -> None:
    refused = McpServerError("a", reason="ended", remedy="Start it.")
    collector = ToolCollector(
        [Failing(fails=ConnectionError("refused")), FOUR, Silent(), Failing(fails=refused)],
        timeout_seconds=0.01,
    )

    collected = await collector.collect()

    assert len(collected.tools) == 4
    assert set(collected.warnings) == {
        "Tool source 'billing' failed: ConnectionError: refused.",
        "Tool source 'silent' did not answer within 0.01 s.",
        "Tool source 'billing' failed: MCP server 'a' ended. Start it.",
    }


@pytest.mark.parametrize("error", [asyncio.CancelledError(), TimeoutError("socket")])
async def test_a_sources_own_interruption_is_a_failure_like_any(error: BaseException) -> None:
    collected = await ToolCollector([Failing(fails=error), FOUR]).collect()

    assert len(collected.tools) == 4
    assert f"failed: {type(error).__name__}" in collected.warnings[0]


async def test_collecting_can_still_be_cancelled() -> None:
    collecting = asyncio.create_task(ToolCollector([Silent()]).collect())
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    collecting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await collecting


async def test_what_a_failing_source_listed_last_is_still_offered() -> None:
    executor = Failing(spec("pay"))
    collector = ToolCollector(executor, now=lambda: datetime(2026, 11, 29, 12, tzinfo=UTC))
    before = await collector.collect()
    executor.fails = ConnectionError("refused")

    after = await collector.collect()

    assert after.tools == before.tools
    assert after.warnings[0].endswith(
        "What it listed last, at 2026-11-29 12:00:00 UTC, still holds."
    )


def test_a_source_that_has_to_be_awaited_is_a_failure_without_a_loop() -> None:
    collector = ToolCollector([Failing(spec("pay")), FOUR])

    collected = collector.collect_now()

    assert not collector.is_sync
    assert len(collected.tools) == 4
    assert len(collected.warnings) == 1


def test_one_bad_schema_is_left_out_by_name_and_one_is_repaired() -> None:
    bad = spec("bad", input_schema={"type": "object", "properties": {"a": {"type": "strnig"}}})
    odd = spec("odd", input_schema={"type": "dict", "properties": {"a": {"type": "float"}}})

    collected = collect(Source("listed", bad, spec("good"), odd), [{"type": "function"}])

    assert names(collected) == ["good", "odd"]
    assert collected.tools[1].input_schema == schema(a="number")
    assert fates(collected) == {
        "(unnamed)": ("dropped", "schema"),
        "bad": ("dropped", "schema"),
        "good": ("kept", ""),
        "odd": ("repaired", "schema"),
    }
    assert any("'bad'" in text and "properties.a.type" in text for text in collected.warnings)


# ---- one name, several tools ----


def test_the_same_tool_twice_is_offered_once() -> None:
    one = spec("search", input_schema={"type": "object", "properties": {"q": {"type": "string"}}})
    two = spec("search", input_schema={"properties": {"q": {"type": "string"}}, "type": "object"})

    collected = collect(Source("listed", one), Source("functions", two))

    assert owners(collected) == {"search": "functions"}
    assert [entry.rule for entry in collected.entries] == ["", "duplicate"]


CLASH = [
    Source("mcp:web", spec("search", input_schema=schema(url="string"))),
    Source("listed", spec("search", input_schema=schema(q="string"))),
    Source("functions", spec("search", input_schema=schema(path="string"))),
]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_conflict_is_renamed_the_same_in_any_order(order: tuple[int, ...]) -> None:
    collector = ToolCollector()
    collector.sources = tuple(CLASH[index] for index in order)

    collected = collector.collect_now()

    assert list(owners(collected).items()) == [
        ("listed_search", "listed"),
        ("mcp_web_search", "mcp:web"),
        ("search", "functions"),
    ]
    assert [tool.own_name for tool in collected.tools] == ["search", "search", None]
    assert fates(collected)["mcp_web_search"] == ("repaired", "name_conflict")
    assert "is offered as 'mcp_web_search'" in " ".join(collected.warnings)


def test_a_source_has_the_precedence_of_its_kind_whatever_it_is_called() -> None:
    executor = ExecutorTools(Failing(), name="billing")
    executor_like = Source(
        "billing", spec("search", input_schema=schema(i="string")), kind="executor"
    )
    posing = Source("functions", spec("search", input_schema=schema(mine="string")), kind="made up")

    collected = collect(CLASH[1], executor_like, posing)

    assert executor.kind == "executor"
    assert owners(collected) == {
        "search": "billing",
        "functions_search": "functions",
        "listed_search": "listed",
    }


def test_the_requests_own_tool_keeps_its_name() -> None:
    own = {"name": "search", "input_schema": schema(mine="string")}

    collected = ToolCollector(CLASH[2:]).collect_now(additional=own)

    assert owners(collected) == {"functions_search": "functions", "search": "listed"}


def test_a_taken_name_gets_a_number_and_a_third_equal_tool_none() -> None:
    clashing = Source("listed", *(spec("a", description=text) for text in ("1", "2", "3", "3")))

    collected = collect(Source("executor", spec("a")), clashing)

    assert names(collected) == ["a", "listed_a", "listed_a_2", "listed_a_3"]
    assert [entry.rule for entry in collected.entries].count("duplicate") == 1


def test_a_renamed_tool_can_be_disabled_by_its_other_name() -> None:
    collected = collect(*CLASH, disabled_tools=("listed_search",))

    assert names(collected) == ["mcp_web_search", "search"]
    assert fates(collected)["listed_search"] == ("dropped", "disabled")


def test_a_conflict_can_be_an_error() -> None:
    with pytest.raises(ToolConflictError, match="functions and mcp:web"):
        ToolCollector(CLASH, on_conflict="error").collect_now()


# ---- asking again ----


def test_what_stays_the_same_is_merged_the_same_whatever_was_asked_between() -> None:
    source = Source("functions", spec("read", permission="fs.read"), spec("send"))
    collector = ToolCollector([source])

    first = collector.collect_now()
    some = collector.collect_now(AssembleOptions(permissions=("fs.*",)))
    more = collector.collect_now(additional=[spec("find")])

    assert collector.collect_now() == first
    assert (names(some), names(more)) == (["read"], ["find", "read", "send"])


def test_a_definition_that_differs_deep_inside_is_another_one() -> None:
    def listing(last: str) -> CollectedTools:
        return collect(
            Source(
                "listed",
                spec("a", input_schema=schema(**dict.fromkeys("bcdefg", "string"), h=last)),
            )
        )

    first, second = listing("string"), listing("number")

    assert first.tools[0].input_schema["properties"]["h"] == {"type": "string"}
    assert second.tools[0].input_schema["properties"]["h"] == {"type": "number"}


async def test_closing_closes_every_source_that_holds_something() -> None:
    class Held(Source):
        is_closed = False

        async def close(self) -> None:
            self.is_closed = True

    held = Held("mcp:a", spec("a"))

    await ToolCollector([held, FOUR]).close()

    assert held.is_closed


# ---- names that the model knows ----


def search(**properties: str) -> ToolSpec:
    return spec("search", input_schema=schema(**properties))


def known(source: str, tool: ToolSpec, *, name: str | None = None) -> ToolSpec:
    """Return a tool as the model knows it, by its own name unless another is given."""
    own_name = None if name is None else tool.name
    return replace(tool, source=source, name=name or tool.name, own_name=own_name)


OF_A, OF_B = search(a="string"), search(b="string")
LEARNT = (known("mcp:a", OF_A), known("mcp:b", OF_B, name="mcp_b_search"))
NAMES: dict[str, tuple[Sequence[ToolSpec], list[Source], dict[str, str]]] = {
    "both are there": (
        LEARNT,
        [Source("mcp:a", OF_A), Source("mcp:b", OF_B)],
        {"search": "mcp:a", "mcp_b_search": "mcp:b"},
    ),
    "the stronger one went": (LEARNT, [Source("mcp:b", OF_B)], {"mcp_b_search": "mcp:b"}),
    "both went, and a stronger stranger came": (
        LEARNT,
        [Source("functions", search(c="string"))],
        {"functions_search": "functions"},
    ),
    "the weaker one was there first": (
        [known("mcp:b", OF_B)],
        [Source("mcp:a", OF_A), Source("mcp:b", OF_B)],
        {"search": "mcp:b", "mcp_a_search": "mcp:a"},
    ),
    "each is defined as the other was": (
        LEARNT,
        [Source("mcp:a", OF_B), Source("mcp:b", OF_A)],
        {"search": "mcp:a", "mcp_b_search": "mcp:b"},
    ),
    "another source offers the very same": (LEARNT, [Source("mcp:c", OF_A)], {"search": "mcp:c"}),
    "a generated name that is another's": (
        [known("mcp:a", OF_A), known("functions", spec("mcp_b_search"))],
        [Source("mcp:b", OF_B)],
        {"mcp_b_search_2": "mcp:b"},
    ),
}


@pytest.mark.parametrize(("learnt", "sources", "expected"), NAMES.values(), ids=NAMES)
def test_a_name_stays_with_the_tool_that_the_model_knows_by_it(
    learnt: Sequence[ToolSpec], sources: list[Source], expected: dict[str, str]
) -> None:
    collected = collect(*sources, learnt=learnt)
    turned = collect(*sources[::-1], learnt=reversed(learnt))

    assert owners(collected) == expected
    assert turned == collected


def test_a_tool_that_keeps_another_name_says_why() -> None:
    alone = collect(Source("mcp:b", OF_B), learnt=LEARNT[1:])
    beside = collect(Source("mcp:b", OF_B), learnt=LEARNT)

    assert [entry.reason for entry in (*alone.entries, *beside.entries)] == [
        "this is the name that the model knows it by",
        "'search' is the name of a different tool of mcp:a",
    ]


def test_a_known_tool_can_be_disabled_by_either_name() -> None:
    for name in ("search", "mcp_b_search"):
        collected = collect(Source("mcp:b", OF_B), learnt=LEARNT, disabled_tools=(name,))

        assert (names(collected), collected.warnings) == ([], ())


def test_what_sources_say_makes_the_key_whatever_their_order() -> None:
    a, b = Source("mcp:a", OF_A, OF_B), Source("mcp:b", OF_B)
    turned = Source("mcp:a", OF_B, OF_A)

    keys = [ToolCollector(some).ask_now().key for some in ([a, b], [b, turned], [b])]

    assert keys[0] == keys[1] != keys[2]


# ---- laws ----

specs = st.builds(
    ToolSpec,
    name=st.sampled_from(["a", "b", "listed_a", "x_a"]),
    description=st.sampled_from(["", "d"]),
    input_schema=st.sampled_from([{}, schema(q="string"), schema(q="float"), {"type": "x"}]),
    permission=st.sampled_from([None, "fs.read"]),
)
listings = st.lists(
    st.tuples(st.sampled_from(["listed", "x", "mcp:x", "functions"]), st.lists(specs, max_size=4)),
    max_size=4,
)


@given(listed=listings, seed=st.randoms(use_true_random=False))
def test_the_order_of_sources_and_lists_never_matters(
    listed: list[tuple[str, list[ToolSpec]]], seed: Any
) -> None:
    shuffled = [(name, seed.sample(given_specs, len(given_specs))) for name, given_specs in listed]
    seed.shuffle(shuffled)

    first = collect(*(Source(name, *given_specs) for name, given_specs in listed))
    second = collect(*(Source(name, *given_specs) for name, given_specs in shuffled))

    assert first.tools == second.tools
    assert len(set(names(first))) == len(first.tools)
    assert len(first.entries) == sum(len(given_specs) for _, given_specs in listed)


def told(tool: ToolSpec) -> tuple[Any, ...]:
    return tool.description, tool.input_schema


@given(steps=st.lists(listings, min_size=2, max_size=5))
def test_whoever_comes_and_goes_a_name_means_one_tool(
    steps: list[list[tuple[str, list[ToolSpec]]]],
) -> None:
    learnt: dict[str, ToolSpec] = {}
    for step in steps:
        collected = collect(
            *(Source(name, *listed) for name, listed in step), learnt=learnt.values()
        )
        for tool in collected.tools:
            before = learnt.get(tool.name, tool)
            is_same_owner = (before.source, before.own_name) == (tool.source, tool.own_name)
            assert told(before) == told(tool) or is_same_owner
        learnt |= {tool.name: tool for tool in collected.tools}


def test_a_problem_of_a_source_is_an_entry() -> None:
    class Odd(Source):
        def list_now(self) -> Sequence[ToolSpec]:
            listed = super().list_now()
            self.problems = [InvalidToolError("hopeless", reason="it has no shape")]
            return listed

    collected = collect(Odd("listed", spec("good")))

    assert fates(collected)["hopeless"] == ("dropped", "schema")
