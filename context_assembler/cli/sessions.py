"""`sessions`: what a store holds."""

import asyncio
from typing import Final

import typer
from rich.table import Table

from context_assembler.cli.opening import opened_store
from context_assembler.cli.request_options import JsonFlag, SessionsUrl
from context_assembler.cli.screen import one_line, people, print_json, printable
from context_assembler.values.codec import to_json
from context_assembler.values.events import SessionHead
from context_assembler.values.parts import Json

app: Final = typer.Typer(add_completion=False)


@app.command()
def sessions(*, sessions: SessionsUrl = None, as_json: JsonFlag = False) -> None:
    """List the sessions of a store."""
    heads = asyncio.run(_listed(sessions))
    if as_json:
        print_json([_as_json(head) for head in heads])
        return
    if not heads:
        people().print(printable(f"{sessions} holds no session."))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("session", "agent", "events", "created"):
        table.add_column(heading, justify="right" if heading == "events" else "left")
    for head in heads:
        created_at = head.session.created_at
        table.add_row(
            one_line(head.session.id, max_chars=60),
            one_line(head.session.agent_id or "", max_chars=30),
            f"{head.last_seq:,}",
            created_at.isoformat(sep=" ", timespec="seconds") if created_at else "",
        )
    people().print(table)


async def _listed(url: str | None) -> list[SessionHead]:
    async with opened_store(url) as store:
        return await store.list_sessions()


def _as_json(head: SessionHead) -> dict[str, Json]:
    session = to_json(head.session)
    return {**session, "events": head.last_seq}
