"""An instruction file with another text, and what tells the two apart."""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Final

from context_assembler.values.prompt import BootstrapFile

TEMPLATES: Final = "jinja2"
"""What `template:` in the front matter of a file may name: the only kind of templates there is."""


def fingerprint(*texts: str) -> str:
    """Return a short text that differs whenever one of the texts does."""
    digest = sha256()
    for text in texts:
        raw_bytes = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw_bytes).to_bytes(8, "big") + raw_bytes)
    return digest.hexdigest()[:16]


def with_text(file: BootstrapFile, text: str, *, warnings: Iterable[str] = ()) -> BootstrapFile:
    """Return the file with another text; `empty` if nothing is left of it."""
    return replace(
        file,
        text=text,
        state="ok" if text else "empty",
        warnings=(*file.warnings, *warnings),
        fingerprint=fingerprint(file.section, text),
    )
