"""Google ADK: the contents of a request in, those that fit out.

    agent = Agent(model="gemini-3.5-flash", before_model_callback=FitContents(max_tokens=100_000))

The session keeps all events; a request holds the contents that fit, next to the system instruction
and the tools. Contents that stay are ADK's own objects, with thoughts, signatures, files and ids. One
that is shortened or repaired keeps its role, its ids and its other parts. Nothing else of the request
changes. If a content cannot be read, a `TranscriptError` names it.
"""

import warnings

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from context_assembler.events import dump_json
from context_assembler.integrations.fitting import Fitter


class FitContents(Fitter):
    """A `before_model_callback`, for one agent or for several at once."""

    def __call__(self, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Replace the contents of the request by those that fit."""
        del callback_context
        if llm_request.previous_interaction_id:
            warnings.warn(
                "Google keeps the turns of this interaction, so they are sent as they are. "
                "Use a model without use_interactions_api to fit them.",
                stacklevel=2,
            )
            return
        config = llm_request.config
        fitted = self.fit(
            llm_request.contents,
            model=llm_request.model,
            system=getattr(config.system_instruction, "parts", config.system_instruction),
            tools=config.tools,
        )
        llm_request.contents = [
            # JSON, so that signatures and files become bytes again
            one
            if isinstance(one, types.Content)
            else types.Content.model_validate_json(dump_json(one))
            for one in fitted.messages
        ]
