"""Fills the templates among instruction files."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Final

from context_assembler.errors import TemplateError
from context_assembler.stages.load_bootstrap.file_text import TEMPLATES, with_text
from context_assembler.values.parts import Json
from context_assembler.values.prompt import BootstrapFile

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment

_TEMPLATE_NAME: Final = "<template>"
_MAX_COMPILED: Final = 256


def is_template(file: BootstrapFile) -> bool:
    """Whether the file asks to be rendered with Jinja2."""
    return file.state == "ok" and file.metadata.get("template") == TEMPLATES


def render_bootstrap(
    files: Iterable[BootstrapFile],
    variables: Mapping[str, Json],
    *,
    sections: Collection[str] | None = None,
    lets_faults_wait: bool = False,
) -> list[BootstrapFile]:
    """Fill the templates among the files; the others stay as they are.

    Args:
        variables: `agent, session, model, date, skills, tools`; a name that a template uses and
            that is not among them is an error.
        sections: Those that the prompt will have; templates of others are left alone. By default
            all.
        lets_faults_wait: A template that does not render is a file that cannot be read, with the
            reason, since its text is not sent before the next rewrite point.

    Raises:
        TemplateError: A template cannot be parsed, names what does not exist, fails, or does not
            end.
    """
    filled: list[BootstrapFile] = []
    for file in files:
        if not is_template(file) or (sections is not None and file.section not in sections):
            filled.append(file)
            continue
        try:
            filled.append(with_text(file, _render(file, variables).strip()))
        except TemplateError as error:
            if not lets_faults_wait:
                raise
            left = with_text(file, "", warnings=[f"its template does not render: {error.problem}"])
            filled.append(replace(left, state="unreadable"))
    return filled


def tell_faults(
    files: Iterable[BootstrapFile], rendered: Iterable[BootstrapFile]
) -> list[BootstrapFile]:
    """Return the files as they were loaded, but those whose template does not render as that.

    Args:
        rendered: The same files with their templates filled.
    """
    return [
        replace(file, text="", state="unreadable", warnings=after.warnings)
        if after.state == "unreadable"
        else file
        for file, after in zip(files, rendered, strict=True)
    ]


def _render(file: BootstrapFile, variables: Mapping[str, Json]) -> str:
    import jinja2  # noqa: PLC0415 - loaded when first needed

    from context_assembler.stages.load_bootstrap.template_limits import (  # noqa: PLC0415 - so is this
        limited_work,
    )

    try:
        with limited_work():
            template = _compiled(file.text)
        with limited_work():  # of its own: whether it was compiled before must not matter
            return template.render(variables)
    except jinja2.TemplateSyntaxError as error:
        line = error.lineno + file.first_line - 1
        raise TemplateError(file=file.path, line=line, reason=str(error.message)) from error
    except Exception as error:
        found = _line_of(error.__traceback__)
        reason = str(error) or type(error).__name__
        raise TemplateError(
            file=file.path,
            line=None if found is None else found + file.first_line - 1,
            reason=reason.rstrip("."),
        ) from error


def _line_of(trace: TracebackType | None) -> int | None:
    """Return the line of the template that the deepest of Jinja2's own frames stands for."""
    line: int | None = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _TEMPLATE_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


@cache
def _environment() -> "ImmutableSandboxedEnvironment":
    from context_assembler.stages.load_bootstrap.template_limits import (  # noqa: PLC0415 - see above
        LimitedEnvironment,
    )

    return LimitedEnvironment()


@lru_cache(maxsize=_MAX_COMPILED)
def _compiled(text: str) -> "Template":
    return _environment().from_string(text)
