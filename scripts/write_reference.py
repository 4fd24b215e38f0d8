"""Write docs/reference/ from the code: names, options, commands, models, rules.

python scripts/write_reference.py            # write the pages
python scripts/write_reference.py --check    # fail when one is stale
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import context_assembler
from context_assembler import errors, memory
from context_assembler.cli import COMMANDS
from context_assembler.cli.command_table import load_command
from context_assembler.cli.exit_codes import MEANINGS
from context_assembler.limits import ModelRegistry
from context_assembler.providers import PROVIDERS
from context_assembler.values.limits import Price
from context_assembler.values.names import NameRule
from context_assembler.values.openai import flaws
from context_assembler.values.options import OPTION_NAMES, AssembleOptions

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
NOTICE = "Written by `make docs` from the code; do not edit."


def page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *blocks]) + "\n"


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(headings)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# ---- names ----


def names_page() -> str:
    return page(
        "Public names",
        "Everything that can be imported from `context_assembler`. In the middle stands how it is "
        "used in asynchronous code; where nothing stands, nothing waits.",
        table(["name", "", "what it is"], _name_rows()),
    )


def _name_rows() -> Iterator[tuple[str, str, str]]:
    for name in sorted(context_assembler.__all__):
        found = getattr(context_assembler, name)
        if not callable(found) or not hasattr(found, "__name__"):
            yield f"`{name}`", "", _first_line(found) or "A type."
            continue
        yield f"`{name}{signature(found)}`", waiting(found), _first_line(found)
        if inspect.isclass(found) and not issubclass(found, Exception):
            yield from _method_rows(name, found)


def _method_rows(name: str, owner: type) -> Iterator[tuple[str, str, str]]:
    for method, member in vars(owner).items():
        is_foreign = any(
            hasattr(base, method)
            for base in owner.__mro__[1:]
            if not base.__module__.startswith(context_assembler.__name__)
        )
        if method.startswith("_") or is_foreign or not (doc := _first_line(member)):
            continue
        if isinstance(member, property):
            yield f"`{name}.{method}`", "", doc
        elif callable(plain := inspect.unwrap(getattr(member, "__func__", member))):
            yield f"`{name}.{method}{signature(plain)}`", waiting(plain), doc


def waiting(found: Callable[..., Any]) -> str:
    """Return what stands in front of a use that waits, for what is awaited, read or entered."""
    if inspect.iscoroutinefunction(found):
        return "`await`"
    if inspect.isasyncgenfunction(found):
        return "`async for`"
    return "`async with`" if inspect.isclass(found) and hasattr(found, "__aenter__") else ""


def signature(found: Callable[..., Any]) -> str:
    """Return names and plain defaults; types stand in the code."""
    try:
        given = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return ""
    shown: list[str] = []
    is_keyword_only = False
    for parameter in given:
        if parameter.name in {"self", "cls"}:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword_only:
            is_keyword_only = True
            if not any(name.startswith("*") for name in shown):
                shown.append("*")
        shown.append(_parameter(parameter))
    return f"({', '.join(shown)})"


def _parameter(parameter: inspect.Parameter) -> str:
    stars_by_kind: dict[object, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    stars = stars_by_kind.get(parameter.kind, "")
    if parameter.default is parameter.empty:
        return f"{stars}{parameter.name}"
    plain = (str, int, float, bool, type(None))
    is_plain = isinstance(parameter.default, plain) or parameter.default == ()
    return f"{parameter.name}={parameter.default!r}" if is_plain else f"{parameter.name}=…"


def _first_line(found: Any) -> str:
    doc = inspect.getdoc(found) or ""
    first = doc.partition("\n\n")[0]
    is_made = first.startswith(f"{getattr(found, '__name__', '')}(")  # by dataclass
    return "" if is_made else first


# ---- errors ----


def errors_page() -> str:
    told = _raised_by()
    rows = ((*_error_cells(found), ", ".join(told.get(found.__name__, ()))) for found in _errors())
    return page(
        "Errors",
        """Every error that is raised on purpose, and every warning, below the one that it is a kind of.
Each says what went wrong (`problem`), then what to do about it (`remedy`); warnings are plain texts.
`except AssemblyError` catches them all, and each is caught by Python's own class as well, where one stands beside it.""",
        table(["name", "import from", "is a", "when it is raised", "among others by"], rows),
    )


def _errors() -> list[type[Exception]]:
    """Return the errors as a tree is read: each behind the one that it is a kind of, warnings last."""
    found = [one for one in vars(errors).values() if inspect.isclass(one)]
    listed = [one for one in found if one.__name__ in errors.__all__]
    return sorted(listed, key=lambda one: (issubclass(one, Warning), _lineage(one)))


def _lineage(found: type) -> list[str]:
    """Return the names of our own classes from the root to this one."""
    return [one.__name__ for one in reversed(found.__mro__) if one.__module__.startswith("context")]


def _error_cells(found: type[Exception]) -> tuple[str, str, str, str]:
    homes = (home.__name__ for home in (context_assembler, memory, errors) if _has(home, found))
    bases = ", ".join(f"`{base.__name__}`" for base in found.__bases__)
    doc = (inspect.getdoc(found) or "").partition("\nArgs:")[0]
    return f"`{found.__name__}`", f"`{next(homes)}`", bases, doc


def _has(home: Any, found: type) -> bool:
    return found.__name__ in home.__all__


def _raised_by() -> Mapping[str, list[str]]:
    """Return by error which public functions and methods say that they raise it."""
    told: dict[str, list[str]] = {}
    for name, found in _public_callables():
        section = (inspect.getdoc(found) or "").partition("Raises:\n")[2]
        for error in re.findall(r"^ {4}(\w+):", section, re.MULTILINE):
            told.setdefault(error, []).append(f"`{name}`")
    return told


def _public_callables() -> Iterator[tuple[str, Any]]:
    for name in sorted(context_assembler.__all__):
        found = getattr(context_assembler, name)
        if not callable(found) or (inspect.isclass(found) and issubclass(found, Exception)):
            continue
        yield name, found
        for method, member in vars(found).items() if inspect.isclass(found) else ():
            if not method.startswith("_"):
                yield f"{name}.{method}", getattr(member, "__func__", member)


# ---- options ----


def options_page() -> str:
    meanings = _attributes(AssembleOptions)
    rows = [(f"`{name}`", meanings[name]) for name in OPTION_NAMES]
    return page(
        "Options of `assemble`",
        "The same can be set for a session, for an agent and for everything: request over session "
        "over agent over system.",
        "Editors and type checkers know them all, with their types, in every call that takes them; a "
        "dict of them is a `GivenOptions`.",
        table(["option", "meaning"], rows),
    )


def _attributes(owner: type) -> dict[str, str]:
    section = (inspect.getdoc(owner) or "").partition("Attributes:\n")[2]
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return dict(found)


# ---- command line ----


def commands_page() -> str:
    blocks: list[str] = []
    for name, row in COMMANDS.items():
        blocks += _command_blocks(name, load_command(name, row))
    codes = table(["code", "meaning"], ((str(code), text) for code, text in MEANINGS.items()))
    return page("Command line", *blocks, "## Exit codes", codes)


def _command_blocks(name: str, command: Any) -> Iterator[str]:
    yield f"## `{name}`"
    yield inspect.cleandoc(command.help or "").replace("<", "\\<")
    rows = list(_parameter_rows(command))
    if rows:
        yield table(["argument", "meaning"], rows)
    for below, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _command_blocks(f"{name} {below}", inner)


def _parameter_rows(command: Any) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        metavar = parameter.metavar or ""
        if parameter.param_type_name == "argument":
            yield f"`{metavar or parameter.name.upper()}`", parameter.help or ""
            continue
        spelled = ", ".join(f"`{word}`" for word in [*parameter.opts, *parameter.secondary_opts])
        variable = f" Environment: `{parameter.envvar}`." if parameter.envvar else ""
        yield f"{spelled} {metavar}".strip(), f"{parameter.help or ''}{variable}"


# ---- models ----


def models_page() -> str:
    rows = (
        (
            f"`{row.id}`",
            row.provider,
            row.status,
            f"{row.window_tokens:,}",
            "" if row.output_tokens is None else f"{row.output_tokens:,}",
            "; ".join(map(_price, row.prices)),
        )
        for row in ModelRegistry(overrides=()).rows()
    )
    return page(
        "Models",
        "Tokens of the window and of the longest reply; US dollars per million tokens, in / out.",
        table(["id", "vendor", "status", "window", "reply", "price"], rows),
    )


def _price(price: Price) -> str:
    amounts = " / ".join("–" if p is None else f"{p:g}" for p in (price.input, price.output))
    since = f" from {price.from_date}" if price.from_date else ""
    above = f" above {price.above_input_tokens:,}" if price.above_input_tokens else ""
    return f"{amounts}{since}{above}"


# ---- rules ----

_TITLES = {
    "anthropic": "Anthropic Messages",
    "openai_chat": "OpenAI Chat Completions",
    "openai_responses": "OpenAI Responses",
    "gemini": "Gemini generateContent",
}
# What a check looks at, by the names that it reads.
_DEPENDENCIES = {
    "model": frozenset({"limits", "limits_id", "generation", "dialect"}),
    "API version": frozenset({"api_version", "today"}),
}


def rules_page() -> str:
    """Return the rules of every provider, by number, from the code that checks them."""
    intro = """`context.check()` holds a payload against these rules, and names those that it breaks.
A rule without a check says why no look at a payload can find it, and what is done instead.

- *refused*: the server answers with an error.
- *avoid*: it takes the payload, and something is lost.
- `…` stands for a name or a figure of the payload.
- *depends on*: the check looks at the model's row, or at the version of the API (its date)."""
    blocks = [intro]
    for name in PROVIDERS:
        blocks += _provider_blocks(name)
    return page("What each provider accepts", *blocks)


def _provider_blocks(provider: str) -> Iterator[str]:
    book = import_module(f"context_assembler.providers.{provider}.rule_book")
    folder = Path(book.__file__ or "").parent
    found = sorted({row for path in sorted(folder.glob("*.py")) for row in _breaches(path)})
    found.sort(key=lambda row: _rule_order(row[0]))
    unchecked: Mapping[str, str] = getattr(book, "UNCHECKED", {})
    yield f"## {_TITLES[provider]}"
    yield f"Checked in a payload for `{provider}`:"
    headings = ["rule", "what it says", "level", "depends on"]
    yield table(headings, _rule_rows(found))
    if unchecked:
        yield "What a payload does not show:"
        reasons = sorted(unchecked.items(), key=lambda row: _rule_order(row[0]))
        yield table(["rule", "why, and what is done instead"], reasons)
    yield "Written at:"
    yield "\n".join(
        f"- {rule}: {source}"
        for rule, source in sorted(book.SOURCES.items(), key=lambda row: _rule_order(row[0]))
    )


def _rule_rows(found: Iterable[tuple[str, str, str, str]]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows; of those of one rule only the first one names it."""
    last = ""
    for rule, text, level, dependencies in found:
        yield ("" if rule == last else f"**{rule}**"), text, level, dependencies
        last = rule


def _rule_order(rule: str) -> tuple[int, str]:
    return int(re.sub(r"\D", "", rule) or 0), rule


def _breaches(path: Path) -> Iterator[tuple[str, str, str, str]]:
    """Yield rule, text, level and dependencies of every breach in a module."""
    functions, constants = _functions_in(path), _constants_of(path)
    read = {function.name: _names_in(function) for function in functions}
    shared = _shared_flaws()
    for function in functions:
        texts = _assigned_in(function)
        names = read[function.name].union(*(read.get(name, ()) for name in read[function.name]))
        listed = [kind for kind, signs in _DEPENDENCIES.items() if signs & names]
        for node in ast.walk(function):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "id", "")
            if called == "breach":
                for rule, level, text in _breach(node, texts, constants):
                    yield rule, text, level, ", ".join(listed)
            elif called == "breaches":
                for rule, flaw in _breaches_by(node, texts, shared):
                    kinds = [kind for kind in _DEPENDENCIES if kind in {*listed, *flaw.kinds}]
                    yield rule, flaw.text, flaw.level, ", ".join(kinds)


def _functions_in(path: Path) -> list[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _constants_of(path: Path) -> Mapping[str, object]:
    """Return the figures, texts and patterns that a module names, by how it spells them."""
    module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    named = {name: value for name, value in vars(module).items() if name.strip("_").isupper()}
    patterns = {
        f"{name}.pattern.pattern": value.pattern.pattern
        for name, value in named.items()
        if isinstance(value, NameRule)
    }
    return {n: v for n, v in named.items() if isinstance(v, int | str)} | patterns


def _assigned_in(function: ast.FunctionDef) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


class _Flaw(NamedTuple):
    text: str
    level: str
    kinds: frozenset[str]


@cache
def _shared_flaws() -> Mapping[str, list[_Flaw]]:
    """Return the flaws that each function can find, of those that several protocols look for."""
    found: dict[str, list[_Flaw]] = {}
    path = Path(flaws.__file__)
    constants = _constants_of(path)
    for function in _functions_in(path):
        texts, names = _assigned_in(function), _names_in(function)
        kinds = frozenset(kind for kind, signs in _DEPENDENCIES.items() if signs & names)
        found[function.name] = [
            _Flaw(_text_of(node.args[1], texts, constants), _level_of(node), kinds)
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Flaw"
        ]
    return found


def _breaches_by(
    call: ast.Call, texts: Mapping[str, ast.expr], shared: Mapping[str, list[_Flaw]]
) -> Iterator[tuple[str, _Flaw]]:
    rule, found = call.args
    if isinstance(found, ast.Name):
        found = texts[found.id]
    assert isinstance(rule, ast.Constant), "a rule is named where it is broken"
    assert isinstance(found, ast.Call), "flaws come from a function"
    assert isinstance(found.func, ast.Name), "which stands in the module of shared flaws"
    for flaw in shared[found.func.id]:
        yield str(rule.value), flaw


def _names_in(function: ast.FunctionDef) -> frozenset[str]:
    """Return the names and attributes that a function reads."""
    nodes = list(ast.walk(function))
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    return frozenset([*names, *(node.attr for node in nodes if isinstance(node, ast.Attribute))])


def _breach(
    call: ast.Call, texts: Mapping[str, ast.expr], constants: Mapping[str, object]
) -> Iterator[tuple[str, str, str]]:
    rule, _, message = call.args
    if not isinstance(rule, ast.Constant):
        return
    yield str(rule.value), _level_of(call), _text_of(message, texts, constants)


def _text_of(
    message: ast.expr, texts: Mapping[str, ast.expr], constants: Mapping[str, object]
) -> str:
    if isinstance(message, ast.Name):
        message = texts.get(message.id, message)
    return _text(message, constants)


def _level_of(call: ast.Call) -> str:
    level = next((keyword.value for keyword in call.keywords if keyword.arg == "level"), None)
    if level is None:
        return "refused"
    return str(level.value) if isinstance(level, ast.Constant) else "refused or avoid"


def _text(message: ast.expr, constants: Mapping[str, object]) -> str:
    match message:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, constants) for part in parts)
        case ast.FormattedValue(value=value) if ast.unparse(value) in constants:
            return str(constants[ast.unparse(value)])
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left, constants) + _text(right, constants)
        case ast.IfExp(body=body, orelse=orelse):
            return f"{_text(body, constants)} / {_text(orelse, constants)}"
        case _:
            return "…"


PAGES: Mapping[str, Callable[[], str]] = {
    "names.md": names_page,
    "options.md": options_page,
    "errors.md": errors_page,
    "command-line.md": commands_page,
    "models.md": models_page,
    "provider-rules.md": rules_page,
}


def main(*, checks_only: bool) -> int:
    """Write the pages, or return 1 when one is not what would be written."""
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
