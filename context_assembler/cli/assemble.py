"""`assemble`: the payload as JSON."""

import asyncio
from dataclasses import replace
from typing import Annotated, Final

import typer

from context_assembler.cli import exit_codes
from context_assembler.cli.assembling import assembled
from context_assembler.cli.payload_view import payload_outline
from context_assembler.cli.recorded_pieces import missing_pieces_warning
from context_assembler.cli.report_view import violation_lines
from context_assembler.cli.request_options import ProviderName, Request, takes_request
from context_assembler.cli.screen import notes, people, print_json, print_note
from context_assembler.values.context import AssembledContext

app: Final = typer.Typer(add_completion=False)

PayloadShape = Annotated[
    bool, typer.Option("--json/--outline", help="The whole payload, or its outline for people.")
]


@app.command()
@takes_request
def assemble(
    request: Request, *, provider: ProviderName = None, as_json: PayloadShape = True
) -> None:
    """Print the payload of a session's next model call as JSON.

    Nothing is sent and nothing is stored. Warnings go to stderr.
    Exit code: 12 when the provider would refuse the payload.
    """
    _print_payload(asyncio.run(assembled(request)), provider=provider, as_json=as_json)


def _print_payload(context: AssembledContext, *, provider: str | None, as_json: bool) -> None:
    # Every broken rule is shown below, so none of them is a warning as well.
    payload = replace(context, checks_payloads=False).to_request(provider)
    violations = context.check(provider)
    if as_json:
        print_json(payload)
    else:
        console = people()
        console.print(payload_outline(payload, width_chars=console.width - 1), soft_wrap=True)
    missing = missing_pieces_warning(context)
    for warning in (*([missing] if missing else []), *context.report.warnings):
        print_note(warning)
    for line in violation_lines(violations):
        notes().print(line, soft_wrap=True)
    if any(violation.level == "refused" for violation in violations):
        raise typer.Exit(exit_codes.PAYLOAD_REFUSED)
