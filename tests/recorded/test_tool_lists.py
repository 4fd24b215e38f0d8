"""Every recorded tool list, for every provider: valid, canonical, deferred or not."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_assembler.limits import get_model_limits
from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.stages.collect_tools import CollectedTools, ToolCollector
from context_assembler.testing.sdk_types import find_type_errors
from context_assembler.tools import open_tool_sources
from context_assembler.values.deferral import DeferralRule, defer_tools
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.messages import Message
from context_assembler.values.parts import Json, Text
from context_assembler.values.tools import ToolSpec

pytestmark = pytest.mark.recorded

MODELS = ("claude-opus-5-5", "gpt-4.1", "gpt-5.6-sol", "gemini-3.5-flash")
GO = (Message(role="user", parts=(Text("Go."),)),)


@pytest.fixture(scope="module")
def lists(corpus: Path) -> dict[str, list[Any]]:
    folder = corpus / "tools"
    if not folder.is_dir():
        pytest.skip("the corpus holds no tools")
    snaps = sorted((folder / "github_mcp_server").glob("*.snap"))
    found = {"github": [json.loads(path.read_text(encoding="utf-8")) for path in snaps]}
    found |= {path.stem: list(_rows(path)) for path in (folder / "bfcl_func_doc").glob("*.jsonl")}
    for name in ("accepted_tool_lists", "mcp_tools_list"):
        found |= {row["id"]: row["tools"] for row in _rows(folder / f"{name}.jsonl")}
    return found


def _rows(path: Path) -> Iterator[Any]:
    return (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())


async def collect(tools: list[Any]) -> CollectedTools:
    return await ToolCollector(open_tool_sources(tools)).collect()


def render(model: str, tools: tuple[ToolSpec, ...]) -> tuple[dict[str, Any], list[str]]:
    """Return the payload, and what the provider would refuse of it."""
    limits = get_model_limits(model)
    provider = PROVIDERS[provider_for(limits)]
    draft = Draft(limits=limits, parameters=Parameters(max_tokens=1_000), messages=GO, tools=tools)
    payload = provider.render(draft)
    violations = provider.check_payload(payload, limits=limits)
    refused = [str(violation) for violation in violations if violation.level == "refused"]
    return payload, [*refused, *find_type_errors(provider.name, payload)]


@pytest.mark.parametrize("model", MODELS)
async def test_every_list_is_taken_by_every_provider(
    model: str, lists: dict[str, list[Any]]
) -> None:
    refused: dict[str, list[str]] = {}
    for name, tools in lists.items():
        _, problems = render(model, (await collect(tools)).tools)
        if problems:
            refused[name] = problems

    assert refused == {}


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-5.6-sol"])
async def test_every_list_may_be_deferred(model: str, lists: dict[str, list[Any]]) -> None:
    limits = get_model_limits(model)
    rule = DeferralRule(above=0, search=PROVIDERS[provider_for(limits)].tool_search(limits))
    for tools in lists.values():
        collected = (await collect(tools)).tools

        _, problems = render(model, defer_tools(collected, rule=rule, called=()))

        assert problems == []


async def test_no_order_of_keys_or_tools_changes_a_byte(lists: dict[str, list[Any]]) -> None:
    for tools in lists.values():
        one, other = await collect(tools), await collect([_turned(t) for t in reversed(tools)])
        same = {tool.name for tool in one.tools} - _conflicting(one)

        left = [json.dumps(t.input_schema) for t in one.tools if t.name in same]
        right = [json.dumps(t.input_schema) for t in other.tools if t.name in same]

        assert left == right


def _turned(value: Json, *, in_properties: bool = False) -> Json:
    """Return the value with its keys the other way round, those of `properties` apart."""
    if is_object(value):
        keys = list(value) if in_properties else list(value)[::-1]
        return {key: _turned(value[key], in_properties=key == "properties") for key in keys}
    return [_turned(entry) for entry in value] if is_array(value) else value


def _conflicting(collected: CollectedTools) -> set[str]:
    return {row.id for row in collected.entries if row.rule in ("name_conflict", "duplicate")}


async def test_a_hundred_and_fifty_tools_are_told_as_each_provider_takes_them(
    lists: dict[str, list[Any]],
) -> None:
    pool = [spec for tools in lists.values() for spec in (await collect(tools)).tools]
    plain = {spec.name: spec for spec in pool if not spec.native_specs}
    many = tuple(
        replace(spec, is_strict=None, is_deferred=None) for spec in list(plain.values())[:150]
    )
    assert len(many) == 150

    counts: dict[str, int] = {}
    for model in MODELS:
        payload, problems = render(model, many)
        assert problems == []
        tools = payload.get("tools") or payload["config"]["tools"][0]["function_declarations"]
        counts[model] = len(tools)

    assert counts == dict(zip(MODELS, (150, 128, 128, 150), strict=True))
