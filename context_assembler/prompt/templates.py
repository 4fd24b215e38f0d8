"""Renders the templates among instruction files, in Jinja2's sandbox.

Time would run differently on every machine, so work is counted instead: every turn of a loop with
the text in its body, every call, and the size of everything that a call, a filter or an operator
makes. What would be huge at once is refused before it is made.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any, Final

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from context_assembler.errors import TemplateError
from context_assembler.events import Json
from context_assembler.prompt.files import BootstrapFile

_MAX_WORK: Final = 1_000_000  # characters, entries and loop turns: ten times a large file
_MAX_NUMBER: Final = 10_000  # as an argument of a filter, of a text's method or of `%`
_WIDE_FIELD: Final = re.compile(r"[%:.][^%{}a-zA-Z]*\d{5,}")
# Each makes much of little, or bytes, whose own methods are not counted.
_UNSAFE_METHODS: Final = frozenset({"translate", "expandtabs", "encode", "to_bytes"})

_left = [0]  # work that the template may still do; rendering is synchronous


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
    line: int | None = None
    try:
        _left[0] = _MAX_WORK
        template = _compiled(file.text)
        _left[0] = _MAX_WORK  # of its own: whether it was compiled before must not matter
        return template.render(variables)
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
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, finalize=_made)
        self.filters = {name: _limited(act) for name, act in self.filters.items()}
        self.filters["_counted"] = _counted
        del self.globals["lipsum"]  # random text: every prompt would be another one

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return attr not in _UNSAFE_METHODS and super().is_safe_attribute(obj, attr, value)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        act = getattr(obj, "__wrapped__", obj)
        owner = getattr(act, "__self__", None)
        _spend(20)
        if isinstance(owner, str):
            _check((owner, *args, *kwargs.values()))
        return _made(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            _check([left, *right] if type(right) is tuple else [left, right])
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            _spend(left.bit_length() * abs(right))
        elif operator == "*":
            _spend(_size(left) * _size(right))
        return _made(super().call_binop(context, operator, left, right))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        _spend(50 * sum(1 for _ in template.find_all(nodes.Node)))
        for joined in template.find_all(nodes.Concat):
            joined.nodes = [_filtered(node, "string") for node in joined.nodes]
        for loop in template.find_all(nodes.For):
            chars = sum(len(text.data) for text in loop.find_all(nodes.TemplateData))
            loop.iter = _filtered(loop.iter, "_counted", nodes.Const(1 + chars))
        return template


def _filtered(node: nodes.Node, name: str, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)


@pass_context  # so that it is not tried at compile time
def _counted(_context: Context | None, entries: Iterable[Any], cost: int) -> Iterator[Any]:
    for entry in entries:
        _spend(cost)
        yield entry


def _limited(act: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(act)  # carries over the mark of filters that want the context
    def limited(*args: Any, **kwargs: Any) -> Any:
        # Entries that another filter yields are counted before they are used.
        held = [list(_counted(None, a, 1)) if hasattr(a, "__next__") else a for a in args]
        _check((*held, *kwargs.values()))
        return _made(act(*held, **kwargs))

    return limited


def _check(values: Sequence[Any]) -> None:
    """Refuse arguments that make much of little: large numbers, wide fields, text by text."""
    for held in values:
        if isinstance(held, list | tuple | dict):
            _made(held)
    texts = [one for one in values if isinstance(one, str)]
    numbers = [abs(one) for one in values[1:] if isinstance(one, int)]
    if max(numbers, default=0) > _MAX_NUMBER or any(map(_WIDE_FIELD.search, texts[:1])):
        _spend(_MAX_WORK + 1)
    longest = max([*map(len, texts[1:]), *numbers], default=0)
    _spend(longest * max(1 if isinstance(one, int) else _size(one) for one in values))


def _size(value: Any) -> int:
    sized = value
    if isinstance(value, int):
        return max(abs(value), 1)
    return len(sized) if isinstance(value, str | list | tuple | dict) else 1


def _made(value: Any) -> Any:
    """Return what was made; its size is work, and so is that of the entries that it shows."""
    waiting: list[Any] = [value]
    while waiting:
        held = waiting.pop()
        _spend(len(held) if isinstance(held, str) else 3)
        if isinstance(held, dict):
            waiting += [*held.keys(), *held.values()]
        elif isinstance(held, list | tuple | set):
            waiting += held
    return value


def _spend(amount: int) -> None:
    _left[0] -= amount
    if _left[0] < 0:
        raise RuntimeError(f"it does not end within {_MAX_WORK:,} steps and characters")
