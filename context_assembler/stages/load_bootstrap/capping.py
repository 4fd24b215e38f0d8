"""Keeps instruction files within their tokens, one by one and all together."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from context_assembler.stages.load_bootstrap.cut_text import CountText, cut_text
from context_assembler.stages.load_bootstrap.file_text import with_text
from context_assembler.stages.load_bootstrap.templates import is_template
from context_assembler.values.prompt import BootstrapFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCaps:
    """How long one file, and all of them together, may be."""

    max_file_tokens: int
    max_total_tokens: int


def cap_files(
    files: Sequence[BootstrapFile], *, caps: FileCaps, count_text: CountText
) -> list[BootstrapFile]:
    """Shorten what is too long; the first files get their share of the total first.

    Templates stay whole: what they render to is cut by the prompt's own budget.
    """
    left_tokens = caps.max_total_tokens
    capped: list[BootstrapFile] = []
    for file in files:
        if file.text and not is_template(file):
            room_tokens = min(caps.max_file_tokens, left_tokens)
            shown = _cap(file, room_tokens=room_tokens, count_text=count_text)
            left_tokens -= count_text(shown.text)
        else:
            shown = file
        capped.append(shown)
    return capped


def _cap(file: BootstrapFile, *, room_tokens: int, count_text: CountText) -> BootstrapFile:
    whole_tokens = count_text(file.text)
    if whole_tokens <= room_tokens:
        return file
    name = re.split(r"[\\/]", file.path)[-1]
    text = cut_text(file.text, max_tokens=room_tokens, name=name, count_text=count_text)
    cut = f"{whole_tokens:,} tokens were cut to {count_text(text):,}"
    return replace(with_text(file, text, warnings=(cut,)), is_shortened=True)
