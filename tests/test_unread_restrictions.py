"""Restrictions of a session that cannot be read: nothing is offered that they might have kept out."""

from typing import Any

import pytest

from context_assembler import ContextAssembler, tool
from context_assembler.sessions import InMemoryStore
from context_assembler.values.events import Session


@tool(permission="files.read", safe=True)
def read_file(path: str) -> str:
    """Read a file."""
    return path


@tool(permission="files.write")
def write_file(path: str, text: str) -> str:
    """Write a file."""
    return f"{path}{text}"


UNREAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "permissions": ({"permissions": 3}, []),
    "permissions among texts": ({"permissions": ["*", 3]}, []),
    "sandbox mode": ({"sandbox_mode": "perhaps"}, ["read_file"]),
    "disabled tools": ({"disabled_tools": {"write_file": True}}, []),
    "disabled tools, permissions given": ({"disabled_tools": 3, "permissions": ["*"]}, []),
    "permissions given, disabled tools": ({"permissions": ["*"], "disabled_tools": 3}, []),
    "both": ({"sandbox_mode": "perhaps", "permissions": 3}, []),
}


@pytest.mark.parametrize(("defaults", "offered"), UNREAD.values(), ids=UNREAD.keys())
async def test_what_they_might_have_kept_out_is_not_offered(
    defaults: dict[str, Any], offered: list[str]
) -> None:
    sessions = InMemoryStore()
    await sessions.create(Session(id="s", defaults=defaults))
    async with ContextAssembler(sessions, tools=[read_file, write_file]) as assembler:
        await assembler.add_user("s", "hello")

        context = await assembler.assemble("s", model="gpt-5.5")
        own = await assembler.assemble(
            "s", model="gpt-5.5", permissions=["*"], sandbox_mode=False, disabled_tools=[]
        )

    assert _names(context) == offered
    assert any("default of the session" in warning for warning in context.report.warnings)
    assert _names(own) == ["read_file", "write_file"]


def _names(context: Any) -> list[str]:
    return [one["function"]["name"] for one in context.to_openai_chat().get("tools", ())]
