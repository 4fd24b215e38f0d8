"""An instruction file that is a template: what it says depends on agent, model, day and tools.

Nothing is sent, so no key is needed.
"""

import asyncio
import tempfile
from pathlib import Path

from context_assembler import ContextAssembler

FOLDER = Path(tempfile.mkdtemp(prefix="bootstrap-"))
AGENT = """---
template: jinja2
---
You are {{ agent }}, and you sell mugs.
{% if tools %}
Look a price up before you name it ({{ tools | join(', ') }}).
{% else %}
Name no price.
{% endif %}
"""


def look_up_price(article: str) -> str:
    """Return the price of an article."""
    return {"mug": "12.90"}.get(article, "not sold here")


async def main() -> None:
    (FOLDER / "AGENT.md").write_text(AGENT, encoding="utf-8")
    assembler = ContextAssembler(bootstrap=FOLDER, tools=[look_up_price])
    await assembler.add_user("shop", "What do two mugs cost?", agent_id="ada")
    for disabled in ([], ["look_up_price"]):
        context = await assembler.assemble("shop", model="claude-opus-5-5", disabled_tools=disabled)
        print(f"{context.system_prompt}\n")


if __name__ == "__main__":
    asyncio.run(main())
