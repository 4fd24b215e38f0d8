import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from context_assembler.errors import UnknownModelError
from context_assembler.limits import ModelRegistry
from context_assembler.limits.ids import Spelling, plainest_spelling, spellings

PLAINEST = {
    "a plain id stays": ("claude-opus-5-5", "claude-opus-5-5", None, ""),
    "blanks around it go": ("  gpt-4o\n", "gpt-4o", None, ""),
    "a vendor prefix goes": ("anthropic/claude-opus-5-5", "claude-opus-5-5", None, ""),
    "a gateway is remembered": ("groq/openai/gpt-oss-20b", "gpt-oss-20b", "groq", ""),
    "a gateway's region goes": ("bedrock/eu-west-1/zai.glm-5.3", "glm-5.3", "bedrock", ""),
    "a route goes": ("bedrock/converse/us.zai.glm-5.3", "glm-5.3", "bedrock", ""),
    "a geography means bedrock": ("apac.anthropic.claude-opus-5", "claude-opus-5", "bedrock", ""),
    "a government geography too": (
        "us-gov.anthropic.claude-opus-5",
        "claude-opus-5",
        "bedrock",
        "",
    ),
    "a bedrock version goes": ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6", "bedrock", ""),
    "a vertex date means vertex": ("claude-x@20250929", "claude-x", "vertex_ai", ""),
    "a vertex version goes": ("claude-x-v2@20241022", "claude-x", "vertex_ai", ""),
    "a snapshot is remembered": ("gpt-4o-2024-11-20", "gpt-4o", None, "-2024-11-20"),
    "so is latest": ("claude-x-latest", "claude-x", None, "-latest"),
    "a variant goes": ("deepseek/deepseek-flash:free", "deepseek-flash", None, ""),
    "a window mark goes": ("claude-opus-5-5[1m]", "claude-opus-5-5", None, ""),
    "an unknown prefix stays": ("my-gateway/gpt-4o", "my-gateway/gpt-4o", None, ""),
    "a claude id of another form stays": ("claude-x", "claude-x", None, ""),
    "a version is no date": ("gpt-4.2", "gpt-4.2", None, ""),
}


@pytest.mark.parametrize(
    ("asked", "name", "host", "snapshot"), PLAINEST.values(), ids=PLAINEST.keys()
)
def test_known_affixes_are_taken_off(
    asked: str, name: str, host: str | None, snapshot: str
) -> None:
    found = plainest_spelling(asked)

    assert (found.name, found.host, found.snapshot) == (name, host, snapshot)


def test_the_most_literal_spelling_comes_first() -> None:
    names = [spelling.name for spelling in spellings("openrouter/anthropic/claude-sonnet-4.5")]

    assert names == [
        "openrouter/anthropic/claude-sonnet-4.5",
        "anthropic/claude-sonnet-4.5",
        "claude-sonnet-4.5",
        "claude-sonnet-4-5",
        "claude-4-5-sonnet",
    ]


def test_a_gateway_gets_everything_behind_its_prefix() -> None:
    found = plainest_spelling("bedrock/us-east-1/us.anthropic.claude-opus-5-5-v1:0")

    assert found == Spelling(
        name="claude-opus-5-5",
        host="bedrock",
        host_id="us.anthropic.claude-opus-5-5-v1:0",
        vendor="anthropic",
    )


def test_a_claude_id_without_a_number_is_spelled_with_dashes_only() -> None:
    assert [spelling.name for spelling in spellings("claude.x")] == ["claude.x", "claude-x"]


REGISTRY = ModelRegistry(overrides=[])
NAMES = [name for row in REGISTRY.rows() for name in (row.id, *row.aliases)]
KNOWN = {name.lower() for name in NAMES}

# What may be taken off the end of an id, and therefore put there.
TAKEN_OFF = re.compile(
    r"(-v?\d+:\d+|-v\d|@(\d{8}|default|latest)|-(\d{8}|\d{4}-\d\d-\d\d|latest)|"
    r":(free|thinking|batch|beta|nitro|floor|extended|online|exacto)|\[1m\])+",
    re.IGNORECASE,
)


@given(
    name=st.sampled_from(NAMES),
    more=st.text("abxyz0123456789.-", min_size=1, max_size=6)
    | st.sampled_from(
        ["-mini", "-pro", "-32k", "-preview", "-tts", "-ultra", ".1", "-9", "0", "o"]
    ),
)
@settings(max_examples=300)
def test_a_longer_id_is_another_model(name: str, more: str) -> None:
    asked = name + more
    other_spelling = {spelling.name.lower() for spelling in spellings(asked)} & KNOWN
    assume(not TAKEN_OFF.fullmatch(more) and not other_spelling)

    with pytest.raises(UnknownModelError):
        REGISTRY.get(asked)


@given(name=st.sampled_from(NAMES), more=st.text("abcxyz-", min_size=1, max_size=6))
@settings(max_examples=200)
def test_so_is_one_with_something_before_it(name: str, more: str) -> None:
    assume((more + name).lower() not in KNOWN)

    with pytest.raises(UnknownModelError):
        REGISTRY.get(more + name)


@given(name=st.sampled_from(NAMES), cut=st.integers(1, 30))
@settings(max_examples=200)
def test_so_is_the_beginning_of_one(name: str, cut: int) -> None:
    asked = name[:-cut]
    known = {spelling.name.lower() for spelling in spellings(asked)} & KNOWN
    assume(asked.strip() and not known)

    with pytest.raises(UnknownModelError):
        REGISTRY.get(asked)


@given(
    name=st.sampled_from([row.id for row in REGISTRY.rows()]),
    prefix=st.sampled_from(["", "openrouter/", "OpenAI/", "vercel/anthropic/", "us.", "models/"]),
    suffix=st.sampled_from(["", ":free", "-2031-01-31", "-20310131", "@20310131", "-v1:0"]),
)
@settings(max_examples=300)
def test_known_prefixes_and_suffixes_never_lead_to_another_model(
    name: str, prefix: str, suffix: str
) -> None:
    assert REGISTRY.get(prefix + name + suffix).id == name
