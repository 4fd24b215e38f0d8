"""Reads what a docstring says of a function and of each parameter: Google, NumPy or Sphinx style."""

from dataclasses import dataclass, field
from typing import Any

from context_assembler.values.json_shapes import is_array


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDocstring:
    """The words for the model: of the whole, and of each parameter."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str) -> ReadDocstring:
    """Split a docstring; everything but the parameters stays in the description."""
    if not text.strip():
        return ReadDocstring()
    import griffe  # noqa: PLC0415 - loaded when first needed

    sections = griffe.parse_auto(
        # The style is known by lines that sections begin with, looked for behind a line break.
        griffe.Docstring(f"\n{text}", lineno=1),
        default=griffe.Parser.google,
        per_style_options={
            "google": {"warnings": False},
            "numpy": {"warnings": False},
            "sphinx": {"warnings": False},
        },
    )
    words: list[str] = []
    parameters: dict[str, str] = {}
    for section in sections:
        if section.kind.value in {"parameters", "other parameters"}:
            for parameter in section.value:
                parameters[parameter.name] = " ".join(parameter.description.split())
        else:
            words.append(_text_of(section))
    description = "\n\n".join(part for part in words if part)
    return ReadDocstring(description=description, parameters=parameters)


def _text_of(section: Any) -> str:
    kind: str = section.kind.value
    if kind == "text":
        return str(section.value).strip()
    if kind == "admonition":
        return f"{section.title}: {section.value.description}".strip()
    title = section.title or kind.capitalize()
    lines = [_line_of(entry) for entry in section.value]
    return f"{title}:\n" + "\n".join(line for line in lines if line)


def _line_of(entry: Any) -> str:
    if is_array(entry):  # a piece of an example: its kind, and its text
        return str(entry[1])
    labels = [getattr(entry, "name", ""), str(getattr(entry, "annotation", None) or "")]
    label = " ".join(part for part in labels if part)
    return f"{label}: {entry.description}" if label else str(entry.description)
