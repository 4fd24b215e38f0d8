"""Two processes that find the same servers in another order offer the same bytes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tools.mcp_sources import PROGRAM

ROOT = Path(__file__).parents[2]
ASSEMBLE = """
import asyncio, json, sys
from datetime import UTC, datetime
from context_assembler import AssemblerConfig, ContextAssembler, McpTools

async def main(path, model):
    servers = McpTools.from_file(path, connect_timeout_seconds=100)
    patient = AssemblerConfig(tools={"timeout_seconds": 100})
    noon = datetime(2026, 8, 7, 12, tzinfo=UTC)
    async with ContextAssembler(tools=servers, config=patient, now=lambda: noon) as assembler:
        await assembler.add_user("s", "hi")
        context = await assembler.assemble("s", model=model)
        print(json.dumps([context.to_request(), [t.source for t in context.tools]]))
        assert not [warning for warning in context.report.warnings if "failed" in warning]

asyncio.run(main(*sys.argv[1:]))
"""


def tools(*texts: str) -> list[Any]:
    schema = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}}
    return [
        {"name": name, "description": text, "inputSchema": schema}
        for text in texts
        for name in ("read", f"read {text}")
    ]


def turned(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the tool with its keys in another order; that of the properties has a meaning."""
    schema = dict(reversed(tool["inputSchema"].items()))
    return {"inputSchema": schema, **{key: tool[key] for key in ("description", "name")}}


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, list[str]]:
    """Servers as programs: two written by hand, listing in two orders, and the SDK's own."""
    listed = {"docs": tools("docs"), "web": tools("web", "deep web")}
    found = {"sdk": ["stdio"]}
    for name, specs in listed.items():
        for order, turn in (("there", specs), ("back", [turned(t) for t in reversed(specs)])):
            path = tmp_path / f"{name}-{order}.json"
            path.write_text(json.dumps(turn), encoding="utf-8")
            found[f"{name}-{order}"] = ["listed", str(path)]
    return found


def assemble(folder: Path, servers: dict[str, list[str]], *, model: str, seed: str) -> str:
    entries = {
        name: {"command": sys.executable, "args": [str(PROGRAM), *words]}
        for name, words in servers.items()
    }
    path = folder / f"mcp-{seed}.json"
    path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ASSEMBLE, str(path), model],
        check=False,
        cwd=ROOT,
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gemini-3.5-flash"])
def test_the_order_of_servers_and_of_their_lists_does_not_matter(
    model: str, programs: dict[str, list[str]], tmp_path: Path
) -> None:
    there = {
        name: programs.get(f"{name}-there", programs["sdk"]) for name in ("sdk", "docs", "web")
    }
    back = {name: programs.get(f"{name}-back", programs["sdk"]) for name in ("web", "docs", "sdk")}

    first = assemble(tmp_path, there, model=model, seed="1")
    second = assemble(tmp_path, back, model=model, seed="2")

    assert first == second
    assert set(json.loads(first)[1]) == {"sdk", "docs", "web"}
