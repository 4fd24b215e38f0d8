"""Every recorded list of real MCP tools, through a real server, fits every provider."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from context_assembler.limits import get_model_limits
from context_assembler.providers import PROVIDERS
from context_assembler.stages.collect_tools import CollectedTools, ToolCollector
from context_assembler.testing.sdk_types import find_type_errors
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.messages import Message
from context_assembler.values.parts import Text
from tests.tools.mcp_sources import launch_listing

MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai_chat": "gpt-4.1",
    "openai_responses": "gpt-5.6-sol",
    "gemini": "gemini-3.5-flash",
}
BAD = {
    "name": "bad",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "strnig"}}},
}


@pytest.fixture(scope="module")
def lists(corpus: Path) -> dict[str, list[Any]]:
    folder = corpus / "tools"
    snaps = sorted((folder / "github_mcp_server").glob("*.snap"))
    if not snaps:
        pytest.skip("the corpus holds no tools of MCP servers")
    rows = (folder / "mcp_tools_list.jsonl").read_text(encoding="utf-8").splitlines()
    return {
        "github": [json.loads(path.read_text(encoding="utf-8")) for path in snaps],
        **{row["id"]: row["tools"] for row in map(json.loads, rows)},
    }


async def collect(folder: Path, lists: dict[str, list[Any]]) -> CollectedTools:
    sources = [launch_listing(folder, name, tools) for name, tools in lists.items()]
    collector = ToolCollector(sources, timeout_seconds=100)
    try:
        return await collector.collect()
    finally:
        await collector.close()


def objections(collected: CollectedTools, provider: str) -> Sequence[object]:
    draft = Draft(
        limits=get_model_limits(MODELS[provider]),
        parameters=Parameters(max_tokens=500),
        messages=(Message(role="user", parts=(Text("hi"),), id="m1", seq=1),),
        tools=collected.tools,
    )
    payload = PROVIDERS[provider].render(draft)
    broken = PROVIDERS[provider].check_payload(payload, limits=draft.limits)
    return [*broken, *find_type_errors(provider, payload)]


@pytest.mark.recorded
async def test_every_real_list_is_valid_for_every_provider(
    lists: dict[str, list[Any]], tmp_path: Path
) -> None:
    collected = await collect(tmp_path, lists)

    dropped = [entry for entry in collected.entries if entry.decision == "dropped"]
    assert {entry.rule for entry in dropped} <= {"duplicate"}
    assert len(collected.tools) >= 60
    assert {provider: objections(collected, provider) for provider in PROVIDERS} == {
        provider: [] for provider in PROVIDERS
    }


@pytest.mark.recorded
async def test_a_bad_schema_in_a_real_list_loses_exactly_itself(
    lists: dict[str, list[Any]], tmp_path: Path
) -> None:
    whole = await collect(tmp_path, lists)

    spoilt = await collect(tmp_path, {**lists, "github": [BAD, *lists["github"]]})

    assert spoilt.tools == whole.tools
    assert [entry.id for entry in spoilt.entries if entry not in whole.entries] == ["bad"]
    assert [text for text in spoilt.warnings if "'bad' cannot be offered" in text]
