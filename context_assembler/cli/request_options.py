"""The options of every command that assembles a request."""

import functools
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from context_assembler.errors import ConfigurationError
from context_assembler.providers import PROVIDERS
from context_assembler.values.given import check_known
from context_assembler.values.parts import Json

_PLACES: Final = "Where things are"
_FIT: Final = "Fitting the window"
_REPLY: Final = "The reply"
_PROMPT: Final = "The prompt"
_SWITCHES: Final = "Switches"

SessionsUrl = Annotated[
    str | None,
    typer.Option(
        "--sessions",
        metavar="URL",
        envvar="CONTEXT_ASSEMBLER_SESSIONS",
        help="The session store, such as sqlite:agent.db.",
        rich_help_panel=_PLACES,
    ),
]


def _known_provider(name: str | None) -> str | None:
    if name is not None:
        check_known(name, PROVIDERS, kind="provider")
    return name


ProviderName = Annotated[
    str | None,
    typer.Option(
        "--provider",
        metavar="NAME",
        callback=_known_provider,
        help=f"Whose API: {', '.join(PROVIDERS)}; the model's own by default.",
        rich_help_panel=_REPLY,
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def _option(*names: str, help: str, panel: str, metavar: str | None = None) -> Any:  # noqa: A002 - as typer calls it
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


# What names the session and the files around it: parameters of `Request`.
_PLACE_PARAMETERS: Final[Mapping[str, Any]] = {
    "session_id": Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    "sessions": SessionsUrl,
    "agent_id": Annotated[
        str | None,
        _option(
            "--agent", metavar="ID", panel=_PLACES, help="The agent; the session's own by default."
        ),
    ],
    "bootstrap": Annotated[
        Path | None,
        _option(
            "--bootstrap",
            metavar="FOLDER",
            panel=_PLACES,
            help="The folder with AGENT.md, SOUL.md, CONTEXT.md; the settings' own by default.",
        ),
    ],
    "tools": Annotated[
        Path | None,
        _option(
            "--tools",
            metavar="FILE",
            panel=_PLACES,
            help="JSON with a list of tool specs, in any provider's shape.",
        ),
    ],
    "memory": Annotated[
        str | None,
        _option(
            "--memory",
            metavar="URL",
            panel=_PLACES,
            help="What --query recalls from, such as sqlite:memory.db; the settings' own by default.",
        ),
    ],
    "config": Annotated[
        Path | None,
        _option(
            "--config",
            metavar="FOLDER",
            panel=_PLACES,
            help="The folder with context-assembler.toml; this one by default.",
        ),
    ],
}

# The options of `assemble`, under their own names.
OPTION_PARAMETERS: Final[Mapping[str, Any]] = {
    "model": Annotated[
        str | None, _option("--model", "-m", panel=_REPLY, metavar="ID", help="The model's id.")
    ],
    "max_context_tokens": Annotated[
        int | None,
        _option(panel=_FIT, help="Upper bound for the whole input, below the model's own."),
    ],
    "reserve_tokens": Annotated[
        int | None, _option(panel=_FIT, help="Set aside for the reply; --max-tokens by default.")
    ],
    "truncation_strategy": Annotated[
        str | None,
        _option(
            "--strategy",
            panel=_FIT,
            metavar="NAME",
            help="How a history that does not fit is cut: smart, simple or sliding.",
        ),
    ],
    "window_turns": Annotated[
        int | None, _option(panel=_FIT, help="Newest turns that 'sliding' keeps.")
    ],
    "cache_stable": Annotated[
        bool | None,
        _option(
            "--cache-stable/--no-cache-stable", panel=_SWITCHES, help="Cut at checkpoints only."
        ),
    ],
    "on_overflow": Annotated[
        str | None,
        _option(
            panel=_FIT,
            metavar="POLICY",
            help="'error', or 'shorten' what the user said last as well.",
        ),
    ],
    "cache": Annotated[
        str | None,
        _option(panel=_FIT, metavar="POLICY", help="Prompt-cache markers: 'auto' or 'off'."),
    ],
    "max_tokens": Annotated[int | None, _option(panel=_REPLY, help="Longest reply.")],
    "temperature": Annotated[float | None, _option(panel=_REPLY, help="Between 0 and 2.")],
    "top_p": Annotated[float | None, _option(panel=_REPLY, help="Between 0 and 1.")],
    "top_k": Annotated[int | None, _option(panel=_REPLY, help="Anthropic's older models only.")],
    "stop_sequences": Annotated[
        list[str] | None,
        _option(panel=_REPLY, metavar="TEXT", help="Text that ends the reply; repeatable."),
    ],
    "thinking_level": Annotated[
        str | None, _option(panel=_REPLY, metavar="LEVEL", help="One of the model's own levels.")
    ],
    "thinking_budget": Annotated[
        int | None, _option(panel=_REPLY, help="Tokens for thinking, where a model takes a budget.")
    ],
    "tool_choice": Annotated[
        str | None,
        _option(
            panel=_REPLY,
            metavar="CHOICE",
            help='auto, none, any, or JSON that names a tool: \'{"name": "search"}\'.',
        ),
    ],
    "unknown_model": Annotated[
        str | None,
        _option(
            panel=_REPLY,
            metavar="POLICY",
            help="For a model without a row: 'error', or 'conservative' limits.",
        ),
    ],
    "query": Annotated[
        str | None,
        _option(panel=_PROMPT, metavar="TEXT", help="Recall what memory has for this."),
    ],
    "recall_tokens": Annotated[
        int | None, _option(panel=_PROMPT, help="Longest note of what is recalled.")
    ],
    "recall_namespaces": Annotated[
        list[str] | None,
        _option(panel=_PROMPT, metavar="NAME", help="Recall only what is this one's; repeatable."),
    ],
    "additional_system_prompt": Annotated[
        str | None, _option(panel=_PROMPT, metavar="TEXT", help="Instructions for this call.")
    ],
    "disabled_tools": Annotated[
        list[str] | None,
        _option(panel=_PROMPT, metavar="NAME", help="Leave this tool out; repeatable."),
    ],
    "permissions": Annotated[
        list[str] | None,
        _option(panel=_PROMPT, metavar="GLOB", help="Offer only tools that need this; repeatable."),
    ],
    "sandbox_mode": Annotated[
        bool | None,
        _option(
            "--sandbox-mode/--no-sandbox-mode", panel=_SWITCHES, help="Only tools marked safe."
        ),
    ],
    "refresh": Annotated[
        bool | None,
        _option(
            "--refresh/--no-refresh",
            panel=_SWITCHES,
            help="Take edited instruction files now, where the settings let them wait.",
        ),
    ],
    "exact": Annotated[
        bool | None,
        _option(
            "--exact/--no-exact",
            panel=_SWITCHES,
            help="Hold the payload against the provider's own count; needs its key and SDK.",
        ),
    ],
    "skip_skills": Annotated[
        bool | None,
        _option("--skip-skills/--no-skip-skills", panel=_SWITCHES, help="List no skills."),
    ],
    "skill_filter": Annotated[
        list[str] | None,
        _option(panel=_PROMPT, metavar="NAME", help="List only this skill; repeatable."),
    ],
    "active_skills": Annotated[
        list[str] | None,
        _option(
            "--active-skill",
            panel=_PROMPT,
            metavar="NAME",
            help="Put this skill's instructions into the prompt; repeatable.",
        ),
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a command line asks to be assembled; `options` holds only what was given."""

    session_id: str
    sessions: str | None
    agent_id: str | None
    bootstrap: Path | None
    tools: Path | None
    memory: str | None
    config: Path | None
    options: Mapping[str, Json]


def takes_request(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options above; it receives them as one `Request`.

    Its other parameters stay as they are. Typer reads them all from the signature made here.
    """

    @functools.wraps(command)
    def run(**given: Any) -> None:
        places = {name: given.pop(name) for name in _PLACE_PARAMETERS}
        options = dict(_given_options({name: given.pop(name) for name in OPTION_PARAMETERS}))
        command(Request(**places, options=options), **given)

    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    shared = {**_PLACE_PARAMETERS, **OPTION_PARAMETERS}
    parameters = [*(_parameter(name, kind) for name, kind in shared.items()), *own]
    run.__annotations__ = {}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if name == "session_id" else None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


def _given_options(values: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    for name, value in values.items():
        if value is None or value == []:
            continue
        yield name, _tool_choice(value) if name == "tool_choice" else value


def _tool_choice(text: str) -> Json:
    if not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"--tool-choice is not JSON: {error}.",
            remedy='Write auto, none, any, or an object such as {"name": "search"}.',
        ) from error
