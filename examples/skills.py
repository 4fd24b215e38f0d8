"""Skills: the prompt names them, and has the instructions of those that are active.

One is a folder with a SKILL.md, the other comes from code. Nothing is sent, so no key is needed.
"""

import asyncio
import tempfile
from pathlib import Path

from context_assembler import ContextAssembler, Session, Skill

FOLDER = Path(tempfile.mkdtemp(prefix="skills-"))
INVOICES = """---
name: invoices
description: Writes and checks invoices.
---
Every invoice has a number, a date and the customer's VAT id.
"""
REFUNDS = Skill(
    name="refunds",
    description="Pays money back.",
    instructions="Pay back to the card that was charged.",
    priority=10,
)


def skills_of(session: Session) -> list[Skill]:
    """Return skills from code, or from a database; it is asked with the agent and the session."""
    return [REFUNDS] if session.id.startswith("desk") else []


async def main() -> None:
    (FOLDER / "invoices").mkdir()
    (FOLDER / "invoices" / "SKILL.md").write_text(INVOICES, encoding="utf-8")
    assembler = ContextAssembler(skills=[FOLDER, skills_of])
    await assembler.add_user("desk-1", "I want my money back.")
    for active in ([], ["refunds"]):
        context = await assembler.assemble("desk-1", model="claude-opus-5-5", active_skills=active)
        print(f"--- active: {', '.join(active) or 'none'}\n{context.system_prompt}")


if __name__ == "__main__":
    asyncio.run(main())
