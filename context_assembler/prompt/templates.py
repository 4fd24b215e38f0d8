"""Renders the templates among instruction files, in Jinja2's sandbox.

Loops, calls, products and the text that comes out are counted, so that a mistake ends with an error
instead of a process that hangs. What one filter or method makes of little is not counted: whoever
writes a template is trusted that far.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from threading import local
from typing import Any, Final

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from context_assembler.errors import TemplateError
from context_assembler.events import Json
from context_assembler.prompt.files import MARKS, BootstrapFile

_MAX_WORK: Final = 1_000_000  # characters, entries and loop turns: ten times a large file
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
        rendered = ""
        for piece in _compiled(file.text).generate(variables):
            _spend(len(piece))
            rendered += piece
        return re.sub(rf"{MARKS[0]}(\d{{1,9}}){MARKS[1]}", embedded, rendered)
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
    intercepted_binops = frozenset({"*", "**"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False)
        self.filters["_counted"] = _counted
        # Random text: every prompt would be another one.
        del self.globals["lipsum"], self.filters["random"]

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        _spend(20)
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int):
            _spend(left.bit_length() * (abs(right) if operator == "**" else 1))
        for held, times in ((left, right), (right, left)):
            if isinstance(held, str | list | tuple) and isinstance(times, int):
                _spend(len(held) * times)
        return super().call_binop(context, operator, left, right)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        for loop in template.find_all(nodes.For):
            chars = sum(len(text.data) for text in loop.find_all(nodes.TemplateData))
            cost = [nodes.Const(1 + chars)]
            loop.iter = nodes.Filter(
                loop.iter, "_counted", cost, [], None, None, lineno=loop.lineno
            )
        return template


def _counted(entries: Iterable[Any], cost: int) -> Iterator[Any]:
    for entry in entries:
        _spend(cost)
        yield entry


def _spend(amount: int) -> None:
    _left.work -= max(amount, 0)
    if _left.work < 0:
        raise RuntimeError(f"it does not end within {_MAX_WORK:,} steps and characters")
