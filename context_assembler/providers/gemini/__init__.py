"""Gemini's `generate_content`."""

from typing import Final

from context_assembler.ports import Provider
from context_assembler.providers.gemini.adapt import adapt
from context_assembler.providers.gemini.render import fingerprints, render, spell
from context_assembler.providers.gemini.reply import matches_reply, read_reply
from context_assembler.providers.gemini.rules import check_payload
from context_assembler.providers.gemini.settings import change_forms

GEMINI: Final = Provider(
    name="gemini",
    adapt=adapt,
    render=render,
    spell=spell,
    read_reply=read_reply,
    matches_reply=matches_reply,
    check_payload=check_payload,
    fingerprints=fingerprints,
    change_forms=change_forms,
)
