"""Edit an instruction file while a session goes on: first the edit waits, then it is let in.

Without ANTHROPIC_API_KEY a local provider stands in. The files lie in a folder of their own.
"""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import anthropic

from context_assembler import AssemblerConfig, ContextAssembler
from context_assembler.testing import stand_in_for_providers

MODEL = os.environ.get("MODEL", "claude-opus-5-5")
FOLDER = Path(tempfile.mkdtemp(prefix="bootstrap-"))


def write(text: str) -> None:
    (FOLDER / "AGENT.md").write_text(text, encoding="utf-8")


async def ask(
    assembler: ContextAssembler, client: anthropic.AsyncAnthropic, question: str, **options: Any
) -> None:
    await assembler.add_user("desk", question)
    context = await assembler.assemble("desk", model=MODEL, max_tokens=4000, **options)
    reply = await client.messages.create(**context.to_anthropic())
    await assembler.record("desk", reply, context)
    print(f"{question} – {context.system_prompt}")
    reported = [e for e in context.report.entries if e.rule in ("system.frozen", "rewrite.system")]
    for entry in reported:
        print(f"  {entry.id}: {entry.reason}")


async def main() -> None:
    write("Sell mugs.")
    config = AssemblerConfig(bootstrap={"policy": "freeze"})
    assembler = ContextAssembler(bootstrap=FOLDER, config=config)
    async with assembler, anthropic.AsyncAnthropic() as client:
        await ask(assembler, client, "What do you sell?")
        write("Sell mugs and tea.")
        await ask(assembler, client, "Anything else?")
        await ask(assembler, client, "And today?", refresh=True)


if __name__ == "__main__":
    with stand_in_for_providers():
        asyncio.run(main())
