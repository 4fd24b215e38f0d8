"""One call of a model over real HTTP, by the official SDK of its provider."""

from typing import Any

import anthropic
import openai
from google import genai
from google.genai.types import HttpOptions

from context_assembler.testing import ProviderServer
from context_assembler.values.context import AssembledContext


async def call_model(server: ProviderServer, context: AssembledContext) -> Any:
    """Send a context's payload to the model's own provider, and return the reply."""
    payload = context.to_request()
    if context.provider == "gemini":
        options = HttpOptions(base_url=server.gemini_url)
        google = genai.Client(api_key="test", http_options=options)
        models: Any = google.models  # what they take is not fully typed without Pillow
        return models.generate_content(**payload)
    if context.provider == "anthropic":
        async with anthropic.AsyncAnthropic(
            base_url=server.anthropic_url, api_key="x", max_retries=0
        ) as claude:
            ask: Any = claude.messages.create
            return await ask(**payload)
    async with openai.AsyncOpenAI(base_url=server.openai_url, api_key="x", max_retries=0) as gpt:
        speaks_responses = context.provider == "openai_responses"
        create: Any = gpt.responses.create if speaks_responses else gpt.chat.completions.create
        return await create(**payload)
