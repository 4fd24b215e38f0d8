"""`lint-payload`: whether a provider would take a payload, as an exit code."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from context_assembler.cli import exit_codes
from context_assembler.cli.opening import read_json
from context_assembler.cli.report_view import violation_lines
from context_assembler.cli.request_options import JsonFlag
from context_assembler.cli.screen import counted, people, print_json
from context_assembler.errors import ConfigurationError, UnknownModelError
from context_assembler.limits import get_model_limits
from context_assembler.providers import PROVIDERS, provider_for
from context_assembler.values.codec import to_json
from context_assembler.values.given import check_known
from context_assembler.values.json_shapes import is_object
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import JsonObject
from context_assembler.values.report import Violation

_SHAPES: Final = frozenset({"A0", "C0", "G0", "R0"})  # the rules of what a payload is made of

app: Final = typer.Typer(add_completion=False)


@app.command("lint-payload")
def lint_payload(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON; '-' reads stdin.")],
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider",
            metavar="NAME",
            help=f"{', '.join(PROVIDERS)}; the model's own by default.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="ID", help="By default the payload's own model."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check a payload against its provider's rules.

    Rules that merely harm are named, too. Without --model, a payload that is plainly spelled for
    another provider is not checked by the rules of this one.
    Exit code: 12 when the provider would refuse it.
    """
    payload = read_json(file)
    if not is_object(payload):
        raise ConfigurationError(
            f"{file} is not a payload.", remedy="A payload is a JSON object of keyword arguments."
        )
    limits = _limits(payload, model)
    name = _provider_of(limits) if provider is None else provider
    check_known(name, PROVIDERS, kind="provider")
    check = partial(_check, payload, limits)
    violations = check(name)
    if not model and _is_odd(violations) and (spelled := _spelled_for(check)):
        raise ConfigurationError(
            f"{file} is spelled for {spelled}, not for {name}.",
            remedy=f"Pass --provider {spelled}, or the model that it is to be sent to with -m.",
        )
    if as_json:
        print_json(to_json(violations))
    else:
        _print_violations(violations, provider=name)
    if any(violation.level == "refused" for violation in violations):
        raise typer.Exit(exit_codes.PAYLOAD_REFUSED)


def _limits(payload: JsonObject, asked: str | None) -> ModelLimits | None:
    """Return the model's row; without a known model only the rules for every model are checked."""
    if asked:
        return get_model_limits(asked)
    try:
        return get_model_limits(str(payload.get("model", "")))
    except UnknownModelError:
        return None


def _check(payload: JsonObject, limits: ModelLimits | None, provider: str) -> list[Violation]:
    today = datetime.now(tz=UTC).date()
    return PROVIDERS[provider].check_payload(payload, limits=limits, today=today)


def _is_odd(violations: Sequence[Violation]) -> bool:
    """Whether a payload is only let pass because some servers take types that nobody documents."""
    levels = {violation.level for violation in violations}
    return levels == {"avoid"} and any(violation.rule in _SHAPES for violation in violations)


def _spelled_for(check: Callable[[str], list[Violation]]) -> str | None:
    """Return the provider of whose rules none is broken, not even one that merely harms."""
    return next((name for name in PROVIDERS if not check(name)), None)


def _provider_of(limits: ModelLimits | None) -> str:
    if limits is None:
        raise ConfigurationError(
            "It is not clear whose rules hold: the payload names no known model.",
            remedy=f"Pass --provider, one of: {', '.join(PROVIDERS)}.",
        )
    return provider_for(limits)


def _print_violations(violations: list[Violation], *, provider: str) -> None:
    console = people()
    for line in violation_lines(violations):
        console.print(line)
    refused = sum(violation.level == "refused" for violation in violations)
    console.print(
        f"{provider} would {'refuse' if refused else 'accept'} it: "
        f"{counted(refused, 'rule')} broken, {len(violations) - refused} to avoid."
    )
