"""OpenAI Responses: what `openai.OpenAI().responses.create` takes and returns."""

from typing import Final

from context_assembler.ports import Provider
from context_assembler.providers.openai_responses.adapt import adapt
from context_assembler.providers.openai_responses.render import fingerprints, render, spell
from context_assembler.providers.openai_responses.reply import matches_reply, read_reply
from context_assembler.providers.openai_responses.rules import check_payload
from context_assembler.providers.openai_responses.settings import tool_search
from context_assembler.providers.openai_responses.tool_changes import change_forms

OPENAI_RESPONSES: Final = Provider(
    name="openai_responses",
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
