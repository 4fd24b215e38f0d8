"""Write docs/reference/ from the code: names, options, commands, errors, models, report, rules.

python scripts/write_reference.py            # write the pages
python scripts/write_reference.py --check    # fail if one is stale
"""

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, get_args, get_origin

import context_assembler
from context_assembler import AssembledContext, errors, report
from context_assembler.cli import COMMANDS, EXIT_CODES, load_command
from context_assembler.context import ContextMetadata
from context_assembler.models import ModelLimits, ModelRegistry, Price
from context_assembler.options import CALL_OPTIONS, ENV_PREFIX, SETTINGS, TABLES, Option

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
NOTICE = "Written by `make docs` from the code; do not edit."


def page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *blocks]) + "\n"


def table(headings: str, rows: Iterable[Iterable[str]]) -> str:
    heads = headings.split(" | ")
    lines = [heads, ["---"] * len(heads), *rows]
    cells = ([" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def first_line(found: Any) -> str:
    doc = (inspect.getdoc(found) or "").partition("\n\n")[0]
    return "" if doc.startswith(f"{getattr(found, '__name__', '')}(") else doc  # by dataclass


# ---- names ----


# In the order of the first page; the others follow by name.
FIRST = "fit_messages FittedMessages ContextAssembler AssembledContext Report ReportEntry".split()


def names_page() -> str:
    intro = (
        "Everything that can be imported from `context_assembler`. "
        "The second column says how a name is used in asynchronous code."
    )
    return page("Public names", intro, table("name |  | what it is", _name_rows()))


def _name_rows() -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys([*FIRST, *sorted(context_assembler.__all__)]):
        found = getattr(context_assembler, name)
        yield f"`{name}{signature(found)}`", waiting(found), first_line(found)
        if inspect.isclass(found) and not issubclass(found, Exception):
            yield from _member_rows(name, found)
        if found is AssembledContext:
            yield f"`{name}.metadata`", "", first_line(ContextMetadata)
            yield from _member_rows(f"{name}.metadata", ContextMetadata)


def _member_rows(name: str, found: type) -> Iterator[tuple[str, str, str]]:
    """Yield methods and properties, and the attributes that no argument gives."""
    told = (inspect.getdoc(found) or "").partition("\nAttributes:\n")[2].partition("\n\n")[0]
    given = signature(found)
    for attribute, doc in re.findall(r"(?m)^    (\w+): ((?:.+\n?)(?: {8}.+\n?)*)", told):
        if not re.search(rf"\b{attribute}\b", given):
            yield f"`{name}.{attribute}`", "", doc
    public = {getattr(context_assembler, one) for one in context_assembler.__all__} - {found}
    homes = takewhile(lambda home: home not in public, found.__mro__)
    own = [home for home in homes if home.__module__.startswith("context_assembler.")]
    members = (one for home in own for one in vars(home).items())
    for method, member in members:
        if method.startswith("_") or not (doc := first_line(member)):
            continue
        plain = getattr(member, "__func__", member)
        if inspect.isfunction(plain):
            yield f"`{name}.{method}{signature(plain)}`", waiting(plain), doc
        elif isinstance(member, property) or hasattr(member, "func"):
            yield f"`{name}.{method}`", "", doc


def waiting(found: Any) -> str:
    if inspect.iscoroutinefunction(found):
        return "`await`"
    if inspect.isasyncgenfunction(found):
        return "`async for`"
    return "`async with`" if inspect.isclass(found) and hasattr(found, "__aenter__") else ""


class _Left:
    def __repr__(self) -> str:
        return "…"


def signature(found: Any) -> str:
    """Return names and plain defaults; types are in the code."""
    try:
        given = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return ""
    shown: list[inspect.Parameter] = []
    for one in given:
        is_plain = one.default in ((), one.empty) or isinstance(one.default, str | int | float)
        default = one.default if is_plain or one.default is None else _Left()
        if one.name not in ("self", "cls", "_cls"):
            shown.append(one.replace(annotation=one.empty, default=default))
    return str(inspect.Signature(shown))


# ---- errors ----


def errors_page() -> str:
    found = [one for one in vars(errors).values() if inspect.isclass(one)]
    own = [one for one in found if issubclass(one, Exception) and one.__module__ == errors.__name__]
    own.sort(key=lambda one: (issubclass(one, Warning), _lineage(one)))
    return page(
        "Errors",
        "Every error that is raised on purpose, and every warning, below the one that it is a kind "
        "of. Each says what went wrong (`problem`), then what to do about it (`remedy`); warnings "
        "are plain texts. `except AssemblyError` catches all errors.",
        table("name | import from | is a | when", map(_error_cells, own)),
    )


def _lineage(found: type) -> list[str]:
    return [one.__name__ for one in reversed(found.__mro__) if one.__module__ == errors.__name__]


def _error_cells(found: type) -> tuple[str, str, str, str]:
    name, public = found.__name__, context_assembler.__all__
    home = "context_assembler" if name in public else "context_assembler.errors"
    bases = ", ".join(f"`{base.__name__}`" for base in found.__bases__)
    doc = re.split("\n(?:Attributes|Args):", inspect.getdoc(found) or "")[0]
    return f"`{name}`", f"`{home}`", bases, doc


# ---- options ----


OPTIONS = """## Options of a call

`assemble` takes these; so do a session's `defaults`, `[agents.NAME]` and `[defaults]` in the settings.
The highest layer that gives a value wins: request, session, agent, system."""
TABLES_INTRO = f"""## Settings

For `context-assembler.toml`, `AssemblerConfig` and `{ENV_PREFIX}TABLE__NAME`.
`context-assembler init` writes a file that shows them all."""
KINDS = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}


def options_page() -> str:
    calls = ((f"`{o.name}`", kind_of(o), o.help) for o in CALL_OPTIONS.values())
    blocks = [OPTIONS, table("option | type | meaning", calls), TABLES_INTRO]
    for name, options in SETTINGS.items():
        if name:
            blocks += [f"### `[{name}]`", first_line(TABLES[name])]
        rows = ((f"`{o.name}`", kind_of(o), _default(o.default), o.help) for o in options.values())
        blocks.append(table("setting | type | default | meaning", rows))
    return page("Options", *blocks)


def _default(value: Any) -> str:
    if value in (None, (), {}):
        return ""
    rounded = round(value, 3) if isinstance(value, float) else value
    return f"`{json.dumps(rounded, default=str)}`"


def kind_of(option: Option) -> str:
    inner, origin = get_args(option.kind), get_origin(option.kind)
    if origin is not None and all(isinstance(one, str) for one in inner):
        return " · ".join(f"`{one}`" for one in inner)
    return KINDS.get(option.kind, "table" if origin is dict else "list" if origin else "")


# ---- command line ----


def commands_page() -> str:
    blocks: list[str] = []
    for name in COMMANDS:
        blocks += _command_blocks(name, load_command(name))
    codes = table("code | meaning", ((str(code), text) for code, text in EXIT_CODES.items()))
    return page("Command line", *blocks, "## Exit codes", codes)


def _command_blocks(name: str, command: Any) -> Iterator[str]:
    yield f"## `{name}`"
    told, *_ = re.split(r"\n\n[A-Z]+: ", inspect.cleandoc(command.help or ""))
    yield told.replace("<", "\\<")
    if rows := list(_parameter_rows(command)):
        yield table("argument | meaning", rows)
    for below, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _command_blocks(f"{name} {below}", inner)


def _parameter_rows(command: Any) -> Iterator[tuple[str, str]]:
    for one in command.params:
        metavar, text = one.metavar or "", one.help or ""
        if one.param_type_name == "argument":
            yield f"`{metavar or one.name.upper()}`", text
            continue
        flags = ", ".join(f"`{word}`" for word in (*one.opts, *one.secondary_opts))
        yield f"{flags} {metavar}".strip(), text


# ---- models ----


def models_page() -> str:
    text = "Tokens of the window and of the longest reply; US dollars per million tokens, in / out."
    rows = map(_model_cells, ModelRegistry(overrides=()).rows())
    return page("Models", text, table("id | vendor | status | window | reply | price", rows))


def _model_cells(row: ModelLimits) -> tuple[str, ...]:
    reply = "" if row.output_tokens is None else f"{row.output_tokens:,}"
    prices = "; ".join(map(_price, row.prices))
    return f"`{row.id}`", row.provider, row.status, f"{row.window_tokens:,}", reply, prices


def _price(price: Price) -> str:
    amounts = " / ".join("–" if p is None else f"{p:g}" for p in (price.input, price.output))
    since = f" from {price.from_date}" if price.from_date else ""
    above = f" above {price.above_input_tokens:,}" if price.above_input_tokens else ""
    return f"{amounts}{since}{above}"


# ---- the report ----

REPORT = """`context.report.entries` and `fit_messages(…).changes` say of every piece what became of it: a
decision, and the rule behind it. Both are `Literal`s in `context_assembler.report`."""


def report_page() -> str:
    blocks = [REPORT]
    for name in ("Decision", "Rule"):
        above = (
            inspect.getsource(report).partition(f"\n{name}: TypeAlias")[0].rpartition("\n#\n")[2]
        )
        rows = re.findall(r"(?m)^# ([a-z._]+): (.+)$", above)
        assert [word for word, _ in rows] == [*filter(None, get_args(getattr(report, name)))], name
        cells = ((f"`{word}`", text) for word, text in rows)
        blocks += [f"## {name}s", table(f"{name.lower()} | what it says", cells)]
    return page("The report", *blocks)


# ---- provider rules ----

RULE_FILES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "Anthropic Messages": ("anthropic", "A", ("rules_anthropic",)),
    "OpenAI Chat Completions": ("openai_chat", "C", ("rules_openai_chat", "rules_openai")),
    "OpenAI Responses": ("openai_responses", "R", ("rules_openai_responses", "rules_openai")),
    "Gemini generateContent": ("gemini", "G", ("rules_gemini",)),
}


RULES = """`context.check()` and `lint-payload` hold a payload against these rules and name those that it breaks.
*refused*: the server answers with an error. *advice*: it takes the payload, and something is lost.
`…` stands for a name or a figure."""


def rules_page() -> str:
    blocks = [RULES]
    for title, (name, letter, files) in RULE_FILES.items():
        homes = [import_module(f"context_assembler.providers.{file}") for file in files]
        shared: Mapping[str, str] = next(filter(None, map(_shared, vars(homes[0]).values())), {})
        found = {row for home in homes for row in _rows(home, letter, shared)}
        by_rule = sorted(found, key=lambda row: (_order(row[0]), row))
        sources = sorted(homes[0].SOURCES.items(), key=lambda row: _order(row[0]))
        blocks += [f"## {title}", f"Checked in a payload for `{name}`:"]
        blocks += [table("rule | what it says | level", by_rule)]
        blocks += ["Sources:", "\n".join(f"- {rule}: {source}" for rule, source in sources)]
    return page("What each provider accepts", *blocks)


def _shared(found: Any) -> Any:
    return found.rules if isinstance(getattr(found, "rules", None), dict) else None


def _order(rule: str) -> int:
    return int(re.sub(r"\D", "", rule) or 0)


def _rows(home: Any, letter: str, shared: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield rule, text and level of every tuple in a module that names a rule, a place and a text."""
    tree = ast.parse(inspect.getsource(home))
    constants = {name: value for name, value in vars(home).items() if isinstance(value, int | str)}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        texts: dict[str, ast.expr] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                texts[node.targets[0].id] = node.value
        for node in (node for node in ast.walk(function) if isinstance(node, ast.Tuple)):
            for at, element in enumerate(node.elts[:-2]):
                rules = list(_rules_of(element, texts, letter, shared))
                sure = node.elts[at + 3] if len(node.elts) > at + 3 else None
                for rule in rules:
                    text = _text(node.elts[at + 2], texts, constants)
                    yield f"**{rule.rstrip('?')}**", text, _level(rule, sure)
                if rules:
                    break


def _rules_of(
    node: ast.expr, texts: Mapping[str, ast.expr], letter: str, shared: Mapping[str, str]
) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)) if re.fullmatch(rf"{letter}\d+\??", text):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from _rules_of(one, texts, letter, shared)
            yield from _rules_of(other, texts, letter, shared)
        case ast.Subscript(slice=ast.Constant(value=str(key))) if key in shared:
            yield shared[key]
        case ast.Name(id=name) if name in texts:
            rest = {key: value for key, value in texts.items() if key != name}
            yield from _rules_of(texts[name], rest, letter, shared)


def _level(rule: str, sure: ast.expr | None) -> str:
    if rule.endswith("?") or (isinstance(sure, ast.Constant) and sure.value is False):
        return "advice"
    return "refused" if sure is None or isinstance(sure, ast.Constant) else "refused or advice"


def _text(node: ast.expr, texts: Mapping[str, ast.expr], constants: Mapping[str, int | str]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, {}, constants) for part in parts)
        case ast.FormattedValue(value=ast.Name(id=name)) if name in constants:
            return str(constants[name])
        case ast.Name(id=name) if name in texts:
            return _text(texts[name], {}, constants)
        case ast.IfExp(body=one, orelse=other):
            return f"{_text(one, texts, constants)} / {_text(other, texts, constants)}"
        case _:
            return "…"


PAGES: Mapping[str, Callable[[], str]] = {
    "names.md": names_page,
    "options.md": options_page,
    "errors.md": errors_page,
    "command-line.md": commands_page,
    "models.md": models_page,
    "report.md": report_page,
    "provider-rules.md": rules_page,
}


def main(*, checks_only: bool) -> int:
    """Write the pages, or return 1 if one is not what would be written."""
    stale: list[str] = []
    for name, make in PAGES.items():
        path, text = FOLDER / name, make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not checks_only:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"docs/reference/{name} " + ("is stale: run make docs" if checks_only else "written"))
    return int(checks_only and bool(stale))


if __name__ == "__main__":
    sys.exit(main(checks_only="--check" in sys.argv[1:]))
