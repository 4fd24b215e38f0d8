"""Google ADK's own loop, with its model for Gemini."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from context_assembler.testing import ProviderServer
from tests.integrations import loop

loop.needs("google.adk")

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import Gemini, LlmRequest
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.adk.runners import InMemoryRunner
from google.genai import Client, types

from context_assembler.integrations.google_adk import FitContents

pytestmark = pytest.mark.filterwarnings("ignore")


async def agent(model: str, own: Any, plugins: list[Any], server: ProviderServer) -> str:
    client = Client(api_key="test", http_options=types.HttpOptions(base_url=server.url))
    made = LlmAgent(
        name="reader",
        model=Gemini(model=model, client=client),
        instruction=loop.SYSTEM,
        tools=[loop.read_page],
        before_model_callback=own,
    )
    app = App(name="logs", root_agent=made, plugins=plugins)
    async with InMemoryRunner(app=app) as runner:
        session = await runner.session_service.create_session(app_name="logs", user_id="u")
        asked = types.UserContent(loop.TASK)
        told = runner.run_async(user_id="u", session_id=session.id, new_message=asked)
        return str([event.content async for event in told][-1])


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.5-flash"])
def test_an_agent_runs_its_whole_loop(model: str) -> None:
    script = loop.make_script("I look at the next page.")
    ours = loop.play(partial(agent, model, FitContents(max_tokens=loop.BUDGET), []), script)
    plugin = ContextFilterPlugin(num_invocations_to_keep=1)
    theirs = loop.play(partial(agent, model, None, [plugin]), script)
    loop.check_beside(f"Google ADK, {model}", ours, theirs, "ContextFilterPlugin")


def read(page: int, result: str) -> list[types.Content]:
    """Return a signed call and its result."""
    call = types.FunctionCall(id=f"c{page}", name="read_page", args={"page": page})
    signed = types.Part(function_call=call, thought_signature=b"\xff\x00signed")
    answer = types.FunctionResponse(id=f"c{page}", name="read_page", response={"result": result})
    return [
        types.Content(role="model", parts=[signed]),
        types.Content(role="user", parts=[types.Part(function_response=answer)]),
    ]


def test_what_stays_is_the_same_object_and_what_is_shortened_keeps_its_id() -> None:
    drawn = types.Part.from_uri(file_uri="gs://logs/page.png", mime_type="image/png")
    task = types.UserContent([types.Part(text=loop.TASK), drawn])
    given = [task, *read(1, "line\n" * 9_000), *read(2, "short")]
    request = LlmRequest(model="gemini-3.5-flash", contents=given)

    FitContents(max_tokens=loop.BUDGET)(None, request)

    stayed = [one is own for one, own in zip(request.contents, given, strict=True)]
    assert stayed == [True, True, False, True, True]
    answer = request.contents[2].parts[0].function_response
    assert (answer.id, answer.name) == ("c1", "read_page")
    assert "shortened" in str(answer.response)
    assert given[2] == read(1, "line\n" * 9_000)[1]


def test_contents_of_an_interaction_that_google_keeps_are_sent_as_they_are() -> None:
    given = read(1, "short")[1:]
    request = LlmRequest(model="gemini-3.5-flash", contents=given, previous_interaction_id="i1")

    with pytest.warns(UserWarning, match="use_interactions_api"):
        FitContents()(None, request)

    assert request.contents == given


def test_its_page_and_example_run(tmp_path: Path) -> None:
    loop.check_section("Google ADK")
    loop.check_example("google_adk_agent", "Page 7 is odd.", tmp_path)
