"""OpenAI Chat Completions, and the many servers that speak it."""

from typing import Final

from context_assembler.ports import Provider
from context_assembler.providers.openai_chat.adapt import adapt
from context_assembler.providers.openai_chat.render import fingerprints, render, spell
from context_assembler.providers.openai_chat.reply import matches_reply, read_reply
from context_assembler.providers.openai_chat.rules import check_payload
from context_assembler.providers.openai_chat.settings import change_forms

OPENAI_CHAT: Final = Provider(
    name="openai_chat",
    adapt=adapt,
    render=render,
    spell=spell,
    read_reply=read_reply,
    matches_reply=matches_reply,
    check_payload=check_payload,
    fingerprints=fingerprints,
    change_forms=change_forms,
)
