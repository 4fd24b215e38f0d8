"""`check`: whether to compact, as an exit code."""

import asyncio
from collections.abc import Mapping
from typing import Final

import typer

from context_assembler.cli import exit_codes
from context_assembler.cli.assembling import opened_assembler
from context_assembler.cli.recorded_pieces import missing_pieces_warning
from context_assembler.cli.request_options import JsonFlag, Request, takes_request
from context_assembler.cli.screen import one_line, people, print_json, printable, spelling
from context_assembler.errors import AssemblyError
from context_assembler.values.codec import to_json
from context_assembler.values.report import CompactionCheck

_EXIT_CODES: Final[Mapping[tuple[bool, bool], int]] = {
    (False, True): exit_codes.FINE,
    (True, True): exit_codes.COMPACTION_NEEDED,
    (False, False): exit_codes.COMPACTION_INFEASIBLE,
    (True, False): exit_codes.COMPACTION_INFEASIBLE,
}

app: Final = typer.Typer(add_completion=False)


@app.command("check")
@takes_request
def check(request: Request, *, as_json: JsonFlag = False) -> None:
    """Tell whether a session should be compacted.

    Exit code: 0 not needed, 10 needed, 11 it cannot help:
    system prompt and tools alone are over the threshold.
    """
    answer, warning = asyncio.run(_checked(request))
    if as_json:
        print_json({**to_json(answer), "warnings": [warning] if warning else []})
    else:
        _print_answer(answer, warning)
    raise typer.Exit(_EXIT_CODES[answer.needed, answer.feasible])


async def _checked(request: Request) -> tuple[CompactionCheck, str | None]:
    """Return the advice, with a warning where it is about less than what the session was with."""
    async with opened_assembler(request) as assembler:
        answer = await assembler.check_compaction(
            request.session_id, agent_id=request.agent_id, **request.options
        )
        options = {name: value for name, value in request.options.items() if name != "exact"}
        try:
            context = await assembler.assemble(
                request.session_id, agent_id=request.agent_id, **options
            )
        except AssemblyError:  # what cannot be assembled can be checked all the same
            return answer, None
        return answer, missing_pieces_warning(context)


def _print_answer(answer: CompactionCheck, warning: str | None) -> None:
    console = people()
    if warning:
        console.print(printable(warning), style="yellow")
    verdict = f"needed: {answer.details['why']}" if answer.needed else "not needed"
    console.print(f"Compaction is {verdict}.", style="bold")
    console.print(
        f"{answer.current_tokens:,} tokens, threshold {answer.threshold:,}, "
        f"of which {answer.floor_tokens:,} cannot be freed."
    )
    if not answer.feasible:
        console.print("It cannot help: the fixed part alone is over the threshold.", style="red")
    for name, value in answer.details.items():
        if value is not None and name != "why":
            console.print(f"  {name.replace('_', ' ')}: {one_line(spelling(value), max_chars=200)}")
