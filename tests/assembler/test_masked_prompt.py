"""A secret in an instruction file is masked as soon as the settings say so."""

from pathlib import Path
from typing import Any

from context_assembler import AssembledContext, AssemblerConfig, ContextAssembler, InMemoryStore

REPLY = {"object": "chat.completion", "choices": [{"message": {"content": "Hello!"}}]}


async def ask(store: InMemoryStore, folder: Path, **settings: Any) -> AssembledContext:
    config = AssemblerConfig(bootstrap={"policy": "freeze"}, **settings)
    assembler = ContextAssembler(store, bootstrap=folder, config=config)
    await assembler.add_user("s", "Hello.")
    context = await assembler.assemble("s", model="gpt-4.1")
    await assembler.record("s", REPLY, context)
    return context


async def test_a_secret_that_is_masked_by_now_is_not_sent_again(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("Deploy with postgres://app:hunter2@db/shop")
    store = InMemoryStore()

    before = await ask(store, tmp_path)
    masked = await ask(store, tmp_path, safety={"masks_secrets_in": ["files"]})

    assert "hunter2" in before.system_prompt
    assert "hunter2" not in masked.system_prompt
    assert "masked (Basic Auth Credentials)" in str(masked.report.warnings)
