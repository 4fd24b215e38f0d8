"""Tools of all sources, filtered, checked, merged by name, sorted."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.errors import InvalidToolError, McpServerError, ToolConflictError
from context_assembler.stages.collect_tools import CollectedTools, ToolCollector
from context_assembler.stages.collect_tools.tool_memo import ToolMemo, told_text
from context_assembler.tools import open_tool_sources
from context_assembler.values.options import AssembleOptions
from context_assembler.values.tools import ToolSpec


class Source:
    """A source that lists what it was given, and tells of problems."""

    def __init__(
        self,
        name: str,
        *specs: ToolSpec,
        kind: str | None = None,
        problems: Sequence[InvalidToolError] = (),
        notes: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.kind = name.partition(":")[0] if kind is None else kind
        self.problems = problems
        self.notes = notes
        self._specs = specs

    async def list_tools(self) -> Sequence[ToolSpec]:
        return self._specs


class Broken:
    name = "mcp:broken"

    async def list_tools(self) -> Sequence[ToolSpec]:
        raise ConnectionError("refused")


class Silent:
    name = "mcp:silent"

    async def list_tools(self) -> Sequence[ToolSpec]:
        await asyncio.Event().wait()
        raise AssertionError


class Constant:
    """A source that says it lists the same tools for good; it fails as often as it is told to."""

    name = kind = "functions"
    is_constant = True

    def __init__(self, *specs: ToolSpec, failures: int = 0) -> None:
        self.asked = 0
        self._specs = specs
        self._failures = failures

    async def list_tools(self) -> Sequence[ToolSpec]:
        self.asked += 1
        if self.asked <= self._failures:
            raise ConnectionError("refused")
        return self._specs


def schema(**properties: str) -> dict[str, Any]:
    return {"type": "object", "properties": {n: {"type": t} for n, t in properties.items()}}


def spec(name: str, **more: Any) -> ToolSpec:
    more.setdefault("input_schema", schema())
    return ToolSpec(name=name, **more)


def names(collected: CollectedTools) -> list[str]:
    return [tool.name for tool in collected.tools]


def fate(collected: CollectedTools) -> dict[str, tuple[str, str]]:
    return {entry.id: (entry.decision, entry.rule) for entry in collected.entries}


async def test_tools_come_sorted_and_know_their_source() -> None:
    collector = ToolCollector([Source("listed", spec("b"), spec("a")), Source("mcp:x", spec("c"))])

    collected = await collector.collect()

    assert names(collected) == ["a", "b", "c"]
    assert [tool.source for tool in collected.tools] == ["listed", "listed", "mcp:x"]
    assert collected.warnings == ()


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
FOUR = Source(
    "functions",
    spec("read", permission="fs.read", is_safe=True),
    spec("write", permission="disk.write", is_safe=False),
    spec("send", permission="network.send"),
    spec("calc"),
)


@pytest.mark.parametrize("mark", ["no", "yes", 1, None, False])
async def test_the_sandbox_takes_no_other_mark_for_safe_than_true(mark: Any) -> None:
    source = Source("listed", spec("write", is_safe=mark))

    collected = await ToolCollector([source]).collect(AssembleOptions(sandbox_mode=True))

    assert fate(collected) == {"write": ("blocked", "sandbox")}


@pytest.mark.parametrize(("options", "kept", "fates"), FILTERS.values(), ids=FILTERS.keys())
async def test_options_decide_what_is_offered(
    options: dict[str, Any], kept: list[str], fates: dict[str, tuple[str, str]]
) -> None:
    collected = await ToolCollector([FOUR]).collect(AssembleOptions(**options))

    assert names(collected) == kept
    assert fates.items() <= fate(collected).items()


async def test_settings_include_and_exclude_by_pattern() -> None:
    collected = await ToolCollector([FOUR], include=["*e*"], exclude=["write"]).collect()

    assert names(collected) == ["read", "send"]
    assert fate(collected)["calc"] == ("dropped", "excluded")
    assert fate(collected)["write"] == ("dropped", "excluded")


async def test_disabling_what_no_source_offers_is_told_with_the_nearest() -> None:
    collected = await ToolCollector([FOUR]).collect(
        AssembleOptions(disabled_tools=("wirte", "zzzzzz"))
    )

    assert "'wirte', which no source offers. Did you mean 'write'?" in collected.warnings[0]
    assert collected.warnings[1].endswith("'zzzzzz', which no source offers.")


async def test_a_source_that_fails_is_named_and_the_rest_goes_on() -> None:
    collector = ToolCollector([Broken(), FOUR, Silent()], timeout_seconds=0.01)

    collected = await collector.collect()

    assert len(collected.tools) == 4
    assert "'mcp:broken' failed: ConnectionError: refused" in collected.warnings[0]
    assert "'mcp:silent' did not answer" in collected.warnings[1]


async def test_one_bad_schema_is_left_out_by_name() -> None:
    bad = spec("bad", input_schema={"type": "object", "properties": {"a": {"type": "strnig"}}})
    hopeless = InvalidToolError("hopeless", reason="it has no shape")
    source = Source("listed", bad, spec("good"), problems=[hopeless], notes=["Tool 'good': …"])

    collected = await ToolCollector([source]).collect()

    assert names(collected) == ["good"]
    assert fate(collected)["bad"] == fate(collected)["hopeless"] == ("dropped", "schema")
    assert any("'bad'" in text and "properties.a.type" in text for text in collected.warnings)
    assert "Tool 'good': …" in collected.warnings


async def test_a_schema_that_could_be_repaired_is_reported() -> None:
    odd = spec("odd", input_schema={"type": "dict", "properties": {"a": {"type": "float"}}})

    collected = await ToolCollector([Source("listed", odd)]).collect()

    assert collected.tools[0].input_schema == schema(a="number")
    assert fate(collected) == {"odd": ("repaired", "schema")}


async def test_the_same_tool_twice_is_offered_once() -> None:
    one = spec("search", input_schema={"type": "object", "properties": {"q": {"type": "string"}}})
    two = spec("search", input_schema={"properties": {"q": {"type": "string"}}, "type": "object"})

    collected = await ToolCollector([Source("listed", one), Source("functions", two)]).collect()

    assert names(collected) == ["search"]
    assert collected.tools[0].source == "functions"
    assert [entry.rule for entry in collected.entries] == ["", "duplicate"]


CLASH = [
    Source("mcp:web", spec("search", input_schema=schema(url="string"))),
    Source("listed", spec("search", input_schema=schema(q="string"))),
    Source("functions", spec("search", input_schema=schema(path="string"))),
]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_a_conflict_is_renamed_the_same_in_any_order(order: tuple[int, ...]) -> None:
    collected = await ToolCollector([CLASH[index] for index in order]).collect()

    assert [(tool.name, tool.source) for tool in collected.tools] == [
        ("listed_search", "listed"),
        ("mcp_web_search", "mcp:web"),
        ("search", "functions"),
    ]
    assert fate(collected)["mcp_web_search"] == ("repaired", "name_conflict")
    assert "is offered as 'mcp_web_search'" in collected.warnings[0]


class Billing:
    name = "billing"

    def list_tools(self) -> list[ToolSpec]:
        return [spec("search", input_schema=schema(invoice="string"))]


async def test_a_source_has_the_precedence_of_its_kind_whatever_it_is_called() -> None:
    (billing,) = open_tool_sources(Billing())
    posing = Source("functions", spec("search", input_schema=schema(mine="string")), kind="")

    collected = await ToolCollector([*CLASH[:2], billing, posing]).collect()

    assert {tool.name: tool.source for tool in collected.tools} == {
        "search": "billing",
        "mcp_web_search": "mcp:web",
        "functions_search": "functions",
        "listed_search": "listed",
    }


@pytest.mark.parametrize("kind", ["additional", "made up", 3])
async def test_a_kind_that_nobody_knows_is_any_other_source(kind: Any) -> None:
    odd = Source("odd", spec("search", input_schema=schema(mine="string")), kind=kind)

    collected = await ToolCollector([odd, CLASH[2]]).collect()

    assert names(collected) == ["odd_search", "search"]


async def test_the_requests_own_tool_keeps_its_name() -> None:
    own = Source("listed", spec("search", input_schema=schema(mine="string")))

    collected = await ToolCollector(CLASH[2:]).collect(additional=[own])

    assert [(tool.name, tool.source) for tool in collected.tools] == [
        ("functions_search", "functions"),
        ("search", "listed"),
    ]


async def test_a_taken_name_gets_a_number_and_a_third_equal_tool_none() -> None:
    clashing = Source("listed", *(spec("a", description=text) for text in ("1", "2", "3", "3")))

    collected = await ToolCollector([Source("executor", spec("a")), clashing]).collect()

    assert names(collected) == ["a", "listed_a", "listed_a_2", "listed_a_3"]
    assert [entry.rule for entry in collected.entries].count("duplicate") == 1


async def test_a_renamed_tool_can_be_disabled_by_its_other_name() -> None:
    options = AssembleOptions(disabled_tools=("listed_search",))

    collected = await ToolCollector(CLASH).collect(options)

    assert names(collected) == ["mcp_web_search", "search"]
    assert fate(collected)["listed_search"] == ("dropped", "disabled")


async def test_a_conflict_can_be_an_error() -> None:
    with pytest.raises(ToolConflictError, match="functions and mcp:web"):
        await ToolCollector(CLASH, on_conflict="error").collect()


async def test_equal_tools_of_any_collector_are_the_same_objects_so_that_their_counts_stay() -> (
    None
):
    first = await ToolCollector(
        [Source("listed", spec("a", input_schema=schema(q="string")))]
    ).collect()
    second = await ToolCollector(
        [Source("listed", spec("a", input_schema=schema(q="string")))]
    ).collect()
    other = await ToolCollector(
        [Source("listed", spec("a", input_schema=schema(q="float")))]
    ).collect()

    assert second.tools[0] is first.tools[0]
    assert other.tools[0].input_schema != first.tools[0].input_schema


async def test_what_stays_for_good_is_asked_once_whatever_the_options() -> None:
    source = Constant(spec("read", permission="fs.read"), spec("send", permission="net.send"))
    collector = ToolCollector([source])

    first = await collector.collect(AssembleOptions(max_tokens=1))
    again = await collector.collect(AssembleOptions(max_tokens=2))
    some = await collector.collect(AssembleOptions(permissions=("fs.*",)))
    learnt = await collector.collect(learnt=[spec("send", source="mcp:x", description="Other.")])
    more = await collector.collect(additional=[Source("x", spec("find"))])

    assert (names(first), names(some), source.asked) == (["read", "send"], ["read"], 2)
    assert again == first
    assert names(learnt) != names(first)
    assert names(more) == ["find", "read", "send"]


async def test_what_failed_is_asked_again() -> None:
    source = Constant(spec("read"), failures=1)
    collector = ToolCollector([source])

    assert [names(await collector.collect()) for _ in range(3)] == [[], ["read"], ["read"]]
    assert source.asked == 2


async def test_listing_the_same_tools_again_gives_the_same_schemas() -> None:
    collector = ToolCollector([FOUR])

    first, second = await collector.collect(), await collector.collect()

    pairs = zip(first.tools, second.tools, strict=True)
    assert all(a.input_schema is b.input_schema for a, b in pairs)


def test_a_memo_knows_equal_specs_and_stays_small() -> None:
    memo = ToolMemo(max_entries=2)
    first = memo.offer_of(spec("a"))

    assert memo.offer_of(spec("a")) is first
    assert memo.offer_of(spec("a")) is not first


specs = st.builds(
    ToolSpec,
    name=st.sampled_from(["a", "b", "listed_a", "x_a"]),
    description=st.sampled_from(["", "d"]),
    input_schema=st.sampled_from([{}, schema(q="string"), schema(q="float"), {"type": "x"}]),
    permission=st.sampled_from([None, "fs.read"]),
    is_safe=st.sampled_from([None, True]),
)
sources = st.lists(
    st.tuples(st.sampled_from(["listed", "x", "mcp:x", "functions"]), st.lists(specs, max_size=4)),
    max_size=4,
)


@given(given=sources, seed=st.randoms(use_true_random=False))
async def test_the_order_of_sources_and_lists_never_matters(
    given: list[tuple[str, list[ToolSpec]]], seed: Any
) -> None:
    shuffled = [(name, seed.sample(listed, len(listed))) for name, listed in given]
    seed.shuffle(shuffled)

    first = await ToolCollector([Source(name, *listed) for name, listed in given]).collect()
    second = await ToolCollector([Source(name, *listed) for name, listed in shuffled]).collect()

    assert [(t.name, t.input_schema) for t in first.tools] == [
        (t.name, t.input_schema) for t in second.tools
    ]
    assert len(set(names(first))) == len(first.tools)
    assert len(first.entries) == sum(len(listed) for _, listed in given)


class Raising:
    """A source that raises what it was given."""

    name = kind = "mcp:x"

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def list_tools(self) -> Sequence[ToolSpec]:
        raise self._error


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


OWN_ERRORS: dict[str, tuple[BaseException, str]] = {
    "its own cancellation": (asyncio.CancelledError(), "failed: CancelledError."),
    "its own time-out": (TimeoutError("socket, 1 s"), "failed: TimeoutError: socket, 1 s."),
    "an error that cannot be told": (SilentError(), "failed: SilentError."),
}


@pytest.mark.parametrize(("error", "told"), OWN_ERRORS.values(), ids=OWN_ERRORS.keys())
async def test_a_source_s_own_interruption_is_a_failure_like_any(
    error: BaseException, told: str
) -> None:
    collected = await ToolCollector([Raising(error), FOUR]).collect()

    assert len(collected.tools) == 4
    assert collected.warnings == (f"Tool source 'mcp:x' {told}",)


async def test_collecting_can_still_be_cancelled() -> None:
    collecting = asyncio.create_task(ToolCollector([Silent()]).collect())
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    collecting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await collecting


class Nameless:
    """A source whose name cannot be told."""

    name: str

    def __getattribute__(self, key: str) -> Any:
        if key == "name":
            raise RuntimeError("not connected")
        return super().__getattribute__(key)

    async def list_tools(self) -> Sequence[ToolSpec]:
        return [spec("a")]


async def test_a_source_whose_name_raises_is_named_by_its_class() -> None:
    collected = await ToolCollector([Nameless()]).collect()

    assert [tool.source for tool in collected.tools] == ["Nameless"]


async def test_a_renamed_tool_still_knows_what_its_source_calls_it() -> None:
    a, b = spec("find", description="a"), spec("find", description="b")

    collected = await ToolCollector([Source("mcp:a", a), Source("mcp:b", b)]).collect()

    assert [(tool.name, tool.own_name) for tool in collected.tools] == [
        ("find", None),
        ("mcp_b_find", "find"),
    ]


async def test_an_error_of_our_own_speaks_for_itself() -> None:
    class Refused:
        name = "mcp:a"

        async def list_tools(self) -> Sequence[ToolSpec]:
            raise McpServerError("a", reason="ended", remedy="Start it.")

    collected = await ToolCollector([Refused()]).collect()

    assert collected.warnings == ("Tool source 'mcp:a' failed: MCP server 'a' ended. Start it.",)


async def test_closing_lets_every_source_that_holds_something_go_of_it() -> None:
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
    """Return a tool as a session has learnt it, under its own name by default."""
    if name is None:
        return replace(tool, source=source)
    return replace(tool, source=source, name=name, own_name=tool.name)


OF_A, OF_B = search(a="string"), search(b="string")
LEARNT = (known("mcp:a", OF_A), known("mcp:b", OF_B, name="mcp_b_search"))
A_AND_B = {"search": "mcp:a", "mcp_b_search": "mcp:b"}

NAMES: dict[str, tuple[Sequence[ToolSpec], list[Source], dict[str, str]]] = {
    "both are there": (LEARNT, [Source("mcp:a", OF_A), Source("mcp:b", OF_B)], A_AND_B),
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
    "one is defined anew": (
        LEARNT,
        [Source("mcp:a", search(new="string")), Source("mcp:b", OF_B)],
        A_AND_B,
    ),
    "each is defined as the other was": (
        LEARNT,
        [Source("mcp:a", OF_B), Source("mcp:b", OF_A)],
        A_AND_B,
    ),
    "another source offers the very same": (
        LEARNT,
        [Source("mcp:c", OF_A)],
        {"search": "mcp:c"},
    ),
    "a renamed one whose rival was forgotten": (
        LEARNT[1:],
        [Source("mcp:b", OF_B)],
        {"mcp_b_search": "mcp:b"},
    ),
    "a generated name that is another's": (
        [known("mcp:a", OF_A), known("functions", spec("mcp_b_search"))],
        [Source("mcp:b", OF_B)],
        {"mcp_b_search_2": "mcp:b"},
    ),
    "two of one source and name": (
        [known("listed", OF_A), known("listed", OF_B, name="listed_search")],
        [Source("listed", OF_B)],
        {"listed_search": "listed"},
    ),
    "two of one source and name, one of them changed": (
        [known("listed", OF_A), known("listed", OF_B, name="listed_search")],
        [Source("listed", OF_B, search(new="string"))],
        {"search": "listed", "listed_search": "listed"},
    ),
}


@pytest.mark.parametrize(("learnt", "given", "expected"), NAMES.values(), ids=NAMES.keys())
async def test_a_name_stays_with_the_tool_that_the_model_knows_by_it(
    learnt: Sequence[ToolSpec], given: list[Source], expected: dict[str, str]
) -> None:
    collected = await ToolCollector(given).collect(learnt=learnt)
    turned = await ToolCollector(given[::-1]).collect(learnt=reversed(learnt))

    assert {tool.name: tool.source for tool in collected.tools} == expected
    assert turned == collected


OWN = known("functions", OF_A)
MOVES: dict[str, tuple[Sequence[ToolSpec], list[Source], dict[str, str]]] = {
    "from functions to literal specs": (
        [OWN],
        [Source("listed", OF_B)],
        {"search": "listed"},
    ),
    "from literal specs to an executor": (
        [known("listed", OF_A)],
        [Source("executor", OF_B)],
        {"search": "executor"},
    ),
    "from functions to an executor with a name": (
        [OWN],
        [Source("billing", OF_B, kind="executor")],
        {"search": "billing"},
    ),
    "from an executor with a name, that is still there": (
        [known("billing", OF_A)],
        [Source("billing", kind="executor"), Source("functions", OF_B)],
        {"search": "functions"},
    ),
    "with the other name that it was known by": (
        [known("functions", OF_A, name="functions_search"), known("mcp:a", OF_B)],
        [Source("mcp:a", OF_B), Source("listed", search(new="string"))],
        {"search": "mcp:a", "functions_search": "listed"},
    ),
    "not while the functions have it": (
        [OWN],
        [Source("functions", OF_A), Source("listed", OF_B)],
        {"search": "functions", "listed_search": "listed"},
    ),
    "not while the functions have it, broken": (
        [OWN],
        [
            Source("functions", problems=[InvalidToolError("search", reason="it has no shape")]),
            Source("listed", OF_B),
        ],
        {"listed_search": "listed"},
    ),
    "not to a server": ([OWN], [Source("mcp:a", OF_B)], {"mcp_a_search": "mcp:a"}),
    "not from a server": (
        [known("mcp:a", OF_A)],
        [Source("mcp:a"), Source("functions", OF_B)],
        {"functions_search": "functions"},
    ),
    "not from a source that is not known any more": (
        [known("billing", OF_A)],
        [Source("functions", OF_B)],
        {"functions_search": "functions"},
    ),
    "not between executors with names": (
        [known("billing", OF_A)],
        [Source("billing", kind="executor"), Source("sales", OF_B, kind="executor")],
        {"sales_search": "sales"},
    ),
    "one of two alone": (
        [OWN],
        [Source("executor", OF_B), Source("listed", search(new="string"))],
        {"search": "executor", "listed_search": "listed"},
    ),
}


@pytest.mark.parametrize(("learnt", "given", "expected"), MOVES.values(), ids=MOVES.keys())
async def test_a_tool_keeps_its_name_when_the_application_offers_it_in_another_way(
    learnt: Sequence[ToolSpec], given: list[Source], expected: dict[str, str]
) -> None:
    collected = await ToolCollector(given).collect(learnt=learnt)
    turned = await ToolCollector(given[::-1]).collect(learnt=reversed(learnt))

    assert {tool.name: tool.source for tool in collected.tools} == expected
    assert turned == collected


async def test_a_request_s_own_tool_is_the_application_s_unless_a_server_offers_it() -> None:
    listed, server = Source("listed", OF_B), Source("mcp:a", OF_B)

    moved = await ToolCollector().collect(additional=[listed], learnt=[OWN])
    kept = await ToolCollector().collect(additional=[server], learnt=[OWN])

    assert (names(moved), names(kept)) == (["search"], ["mcp_a_search"])


async def test_a_source_that_fails_keeps_the_names_of_its_tools() -> None:
    down = Raising(ConnectionError("refused"))
    down.name, down.kind = "executor", "executor"

    collected = await ToolCollector([down, Source("listed", OF_B)]).collect(
        learnt=[known("executor", OF_A)]
    )

    assert names(collected) == ["listed_search"]


FREED: dict[str, tuple[Sequence[bool], list[str], int]] = {
    "the tools are declared anew": ((True, True), ["search"], 2),
    "they are not": ((False,), ["functions_search"], 1),
    "with the freed names they would not be": ((True, False), ["functions_search"], 2),
}


@pytest.mark.parametrize(("anew", "expected", "times"), FREED.values(), ids=FREED.keys())
async def test_the_name_of_a_tool_that_went_is_free_where_tools_are_declared_anew(
    anew: Sequence[bool], expected: list[str], times: int
) -> None:
    asked: list[list[str]] = []

    def begins_anew(tools: Sequence[ToolSpec]) -> bool:
        asked.append([tool.name for tool in tools])
        return anew[len(asked) - 1]

    offered = await ToolCollector([Source("functions", OF_B)]).ask()
    collected = offered.merge([known("mcp:a", OF_A)], begins_anew=begins_anew)

    assert names(collected) == expected
    assert asked == [["functions_search"], ["search"]][:times]


async def test_nothing_is_asked_where_no_name_would_be_another_one() -> None:
    offered = await ToolCollector([Source("mcp:b", OF_B)]).ask()

    def begins_anew(tools: Sequence[ToolSpec]) -> bool:
        raise AssertionError(tools)

    gone = offered.merge(LEARNT, begins_anew=begins_anew)
    there = offered.merge(LEARNT[1:], begins_anew=begins_anew)

    assert names(gone) == names(there) == ["mcp_b_search"]


async def test_a_tool_that_keeps_another_name_says_why() -> None:
    alone = await ToolCollector([Source("mcp:b", OF_B)]).collect(learnt=LEARNT[1:])
    beside = await ToolCollector([Source("mcp:b", OF_B)]).collect(learnt=LEARNT)

    assert [row.reason for row in (*alone.entries, *beside.entries)] == [
        "this is the name that the model knows it by",
        "'search' is the name of a different tool of mcp:a",
    ]
    assert alone.tools[0].own_name == "search"


async def test_a_known_tool_can_be_disabled_by_either_name() -> None:
    for name in ("search", "mcp_b_search"):
        options = AssembleOptions(disabled_tools=(name,))

        collected = await ToolCollector([Source("mcp:b", OF_B)]).collect(options, learnt=LEARNT)

        assert names(collected) == []
        assert collected.warnings == ()


async def test_a_conflict_with_a_tool_that_went_is_no_error() -> None:
    strict = ToolCollector([Source("mcp:b", OF_B)], on_conflict="error")
    both = ToolCollector([Source("mcp:a", OF_A), Source("mcp:b", OF_B)], on_conflict="error")

    collected = await strict.collect(learnt=[known("mcp:a", OF_A)])

    assert names(collected) == ["mcp_b_search"]
    with pytest.raises(ToolConflictError):
        await both.collect(learnt=LEARNT)


async def test_two_known_names_of_tools_that_read_alike_by_now_both_stay() -> None:
    sources = [Source("mcp:a", OF_A), Source("mcp:b", OF_A)]

    collected = await ToolCollector(sources, on_conflict="error").collect(learnt=LEARNT)

    assert names(collected) == ["mcp_b_search", "search"]


async def test_what_sources_say_makes_the_key_whatever_their_order() -> None:
    a, b = Source("mcp:a", OF_A, OF_B), Source("mcp:b", OF_B)
    turned = Source("mcp:a", OF_B, OF_A)

    keys = [(await ToolCollector(some).ask()).key for some in ([a, b], [b, turned], [b])]

    assert keys[0] == keys[1] != keys[2]


@given(steps=st.lists(sources, min_size=2, max_size=5), seed=st.randoms(use_true_random=False))
async def test_whoever_comes_and_goes_a_name_means_one_tool(
    steps: list[list[tuple[str, list[ToolSpec]]]], seed: Any
) -> None:
    learnt: dict[str, ToolSpec] = {}
    for step in steps:
        listed = [Source(name, *seed.sample(specs, len(specs))) for name, specs in step]
        collected = await ToolCollector(listed).collect(learnt=learnt.values())
        for tool in collected.tools:
            before = learnt.get(tool.name, tool)
            assert told_text(before) == told_text(tool) or (
                (_owner(before), before.own_name) == (_owner(tool), tool.own_name)
            )
        learnt |= {tool.name: tool for tool in collected.tools}


def _owner(tool: ToolSpec) -> str:
    return "the application" if tool.source in ("functions", "listed") else tool.source
