"""Renders the templates among instruction files, in Jinja2's sandbox.

Time would run differently on every machine, so work is counted instead. Whatever a template reads or
makes is measured, with all that it holds, as often as it holds it: so no value is larger than the
work that is left, and comparing, sorting, hashing or showing one takes no longer than measuring it.
What makes much of little (a filter, a method of a text, a format, a power) is refused beforehand.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MappingView
from functools import lru_cache, wraps
from string import Formatter
from threading import local
from typing import Any, Final

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, nodes, pass_context
from jinja2.lexer import TokenStream
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from context_assembler.errors import TemplateError
from context_assembler.events import Json
from context_assembler.prompt.files import MARKS, BootstrapFile

_MAX_WORK: Final = 1_000_000  # characters, entries and loop turns: ten times a large file
# Beyond it, whole numbers of one remainder have the same hash.
_MAX_WHOLE: Final = 2**60
# What takes n² steps takes ten thousand of them for each that is counted here.
_STEPS_PER_SQUARE: Final = 10_000
# Each makes much of little, or bytes, whose own methods are not counted.
_UNSAFE_METHODS: Final = frozenset({"translate", "expandtabs", "encode", "to_bytes"})


_left: Any = local()  # `work` that the template which a thread renders may still do


def render_files(
    files: Iterable[BootstrapFile],
    variables: Mapping[str, Json],
    *,
    sections: Collection[str] | None = None,
    lets_faults_wait: bool = False,
) -> list[BootstrapFile]:
    """Return the files with their templates rendered.

    Args:
        variables: `agent, session, model, date, skills, tools`; any other name is an error.
        sections: Those that the prompt will have; by default all.
        lets_faults_wait: A template that does not render makes a file that cannot be read, because
            its text is not sent before the next rewrite point.

    Raises:
        TemplateError: A template cannot be parsed, names what does not exist, fails, or does not end.
    """
    rendered = list(files)
    for at, file in enumerate(rendered):
        if file.is_template and (sections is None or file.section in sections):
            try:
                rendered[at] = file.with_text(_render(file, variables).strip())
            except TemplateError as error:
                if not lets_faults_wait:
                    raise
                failed = file.with_text("", f"its template does not render: {error.problem}")
                rendered[at] = failed._replace(state="unreadable")
    return rendered


def _render(file: BootstrapFile, variables: Mapping[str, Json]) -> str:
    def embedded(mark: re.Match[str]) -> str:
        text = "".join(file.embedded[int(mark[1]) :][:1])
        _spend(len(text))
        return text

    line: int | None = None
    try:
        _left.work = _MAX_WORK
        template = _compiled(file.text)
        _left.work = _MAX_WORK  # of its own: whether it was compiled before must not matter
        return re.sub(rf"{MARKS[0]}(\d{{1,9}}){MARKS[1]}", embedded, template.render(variables))
    except Exception as error:
        trace, reason = error.__traceback__, str(error) or type(error).__name__
        if isinstance(error, TemplateSyntaxError):
            line, reason, trace = error.lineno, str(error.message), None
        while trace is not None:  # the deepest frame of the template's own code has its line
            is_own = trace.tb_frame.f_code.co_filename == "<template>"
            line, trace = trace.tb_lineno if is_own else line, trace.tb_next
        line = None if line is None else line + file.first_line - 1
        raise TemplateError(file=file.path, line=line, reason=reason.rstrip(".")) from error


@lru_cache(maxsize=256)
def _compiled(text: str) -> Template:
    return _Sandbox().from_string(text)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, finalize=_made)
        tables: list[dict[str, Any]] = [self.filters, self.tests]
        for table in tables:
            table.update({name: _limited(name, act) for name, act in table.items()})
        tables[0].update({"_counted": _counted, "_measured": _measured})
        # Random text: every prompt would be another one.
        del self.globals["lipsum"], tables[0]["random"]

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return attr not in _UNSAFE_METHODS and super().is_safe_attribute(obj, attr, value)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        act = getattr(obj, "__wrapped__", obj)
        owner = getattr(act, "__self__", None)
        _spend(20)
        if isinstance(owner, str):
            form = "{" if act.__name__.startswith("format") else ""
            _weigh(owner, (*args, *kwargs.values()), form)
        return _made(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            given: list[Any] = [*right] if isinstance(right, tuple) else [right]
            _weigh(left, given, "%")
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            _spend(left.bit_length() * abs(right))
        elif operator == "*" and not (isinstance(left, int) and isinstance(right, int)):
            _weigh(left, (right,))
            _weigh(right, (left,))
        return _made(super().call_binop(context, operator, left, right))

    def _tokenize(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        stream = super()._tokenize(source, name, filename, state)
        return TokenStream(_counted(None, stream, 50), name, filename)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        for loop in template.find_all(nodes.For):
            chars = sum(len(text.data) for text in loop.find_all(nodes.TemplateData))
            loop.iter = _filtered(loop.iter, "_counted", nodes.Const(1 + chars))
        measured: nodes.Template = _Measured().visit(template)
        return measured


class _Measured(NodeTransformer):
    """Has every value measured that is read, or made by something else than a call."""

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        made: nodes.Node = super().visit(node, *args, **kwargs)
        kinds = nodes.Literal | nodes.Name | nodes.Getattr | nodes.Getitem | nodes.Concat
        if isinstance(made, nodes.TemplateData) or getattr(made, "ctx", "load") != "load":
            return made
        return _filtered(made, "_measured") if isinstance(made, kinds) else made


def _filtered(node: Any, name: str, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)


@pass_context  # so that it is not tried at compile time
def _counted(_context: Context | None, entries: Iterable[Any], cost: int) -> Iterator[Any]:
    for entry in entries:
        _spend(cost)
        yield entry


@pass_context
def _measured(_context: Context, value: Any) -> Any:
    return _made(value)


def _listed(value: Any) -> Any:
    """Return what yields entries as a list of them: they are counted before they are used."""
    return list(_counted(None, value, 1)) if hasattr(value, "__next__") else value


def _limited(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
    place = 1 if getattr(act, "jinja_pass_arg", None) else 0
    form, is_square = "%" if name == "format" else "", name in ("sum", "pprint")

    @wraps(act)  # carries over the mark of those that want the context
    def limited(*args: Any, **kwargs: Any) -> Any:
        held = list(map(_listed, args))
        _weigh(held[place], (*held[place + 1 :], *kwargs.values()), form, is_square=is_square)
        return _made(_listed(act(*held, **kwargs)))

    return limited


def _weigh(first: Any, given: Iterable[Any], form: str = "", *, is_square: bool = False) -> None:
    """Spend what it may take to do something to a value, and what that may make of it.

    Args:
        given: The arguments.
        form: What begins a field, if the value is a format.
        is_square: Whether it may take as many steps as the square of the size, as for any text.
    """
    size, weights, is_text = _size(first), [1], isinstance(first, str)
    for one in given:
        if isinstance(one, int):
            weights.append(1 if form == "{" or (form and "*" not in first) else abs(one))
        elif form or isinstance(one, str):
            weights.append(_size(one))
        else:
            _spend(_size(one))
    if form and is_text:
        fields = [first] if "%(" in first else re.findall(r"(?<=%)[-+ #\d.*]*", first)
        if form == "{":
            fields = [spec or "" for _, _, spec, _ in Formatter().parse(first)]
            weights += [_MAX_WORK for spec in fields if "{" in spec]  # its width is an argument
        weights += [int(digits) for field in fields for digits in re.findall(r"\d+", field)]
    square = size * size // _STEPS_PER_SQUARE if is_text or is_square else 0
    _spend(max(size + square, size * max(weights)))


def _size(value: Any) -> int:
    """Return what a value holds; of what is too much only that it is."""
    size, waiting = 0, [value]
    while waiting and size <= _left.work:
        held: Any = waiting.pop()
        size += 1
        if isinstance(held, (str, range)):
            size += len(held)
        elif isinstance(held, int):
            size += _MAX_WORK * (abs(held) > _MAX_WHOLE)
        elif isinstance(held, dict):
            waiting += [*held.keys(), *held.values()]
        elif isinstance(held, (list, tuple)):
            waiting += held
        elif isinstance(held, Namespace):
            waiting += object.__getattribute__(held, "_Namespace__attrs").values()
    return size


def _made(value: Any) -> Any:
    """Return a value that may be made, a view as a list; its size is work."""
    made = value
    if isinstance(value, MappingView):
        made = list(made)
    _spend(_size(made))
    return made


def _spend(amount: int) -> None:
    _left.work -= amount
    if _left.work < 0:
        raise RuntimeError(f"it does not end within {_MAX_WORK:,} steps and characters")
