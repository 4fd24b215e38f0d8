"""Anthropic Messages: what `anthropic.Anthropic().messages.create` takes and returns."""

from typing import Final

from context_assembler.ports import Provider
from context_assembler.providers.anthropic.adapt import adapt
from context_assembler.providers.anthropic.render import fingerprints, render, spell
from context_assembler.providers.anthropic.reply import matches_reply, read_reply
from context_assembler.providers.anthropic.rules import check_payload
from context_assembler.providers.anthropic.settings import tool_search
from context_assembler.providers.anthropic.tool_changes import change_forms

ANTHROPIC: Final = Provider(
    name="anthropic",
    adapt=adapt,
    render=render,
    spell=spell,
    read_reply=read_reply,
    matches_reply=matches_reply,
    check_payload=check_payload,
    fingerprints=fingerprints,
    change_forms=change_forms,
    tool_search=tool_search,
)
