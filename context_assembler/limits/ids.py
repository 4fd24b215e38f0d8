"""Model ids as people write them, taken apart step by step."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

# Routing prefix → the host it names. What follows the prefix is what that host expects.
GATEWAYS: Final[Mapping[str, str]] = {
    "amazon-bedrock": "bedrock",
    "azure": "azure",
    "azure_ai": "azure",
    "azure_openai": "azure",
    "bedrock": "bedrock",
    "bedrock_converse": "bedrock",
    "cerebras": "cerebras",
    "cloudflare": "cloudflare",
    "databricks": "databricks",
    "deepinfra": "deepinfra",
    "fireworks_ai": "fireworks_ai",
    "github": "github",
    "github_copilot": "github_copilot",
    "google-vertex": "vertex_ai",
    "groq": "groq",
    "hosted_vllm": "vllm",
    "litellm_proxy": "litellm_proxy",
    "nvidia_nim": "nvidia_nim",
    "opencode": "opencode",
    "openrouter": "openrouter",
    "portkey": "portkey",
    "requesty": "requesty",
    "sambanova": "sambanova",
    "together_ai": "together_ai",
    "vercel": "vercel",
    "vercel_ai_gateway": "vercel",
    "vertex_ai": "vertex_ai",
    "vertex_ai_beta": "vertex_ai",
    "vllm": "vllm",
}

# Vendor prefix, as gateways and catalogues spell it → `ModelLimits.provider`.
VENDORS: Final[Mapping[str, str]] = {
    "alibaba": "qwen",
    "amazon": "amazon",
    "anthropic": "anthropic",
    "dashscope": "qwen",
    "deepseek": "deepseek",
    "deepseek-ai": "deepseek",
    "gemini": "google",
    "google": "google",
    "meta": "meta",
    "meta-llama": "meta",
    "minimax": "minimax",
    "minimaxai": "minimax",
    "mistral": "mistral",
    "mistralai": "mistral",
    "models": "google",
    "moonshot": "moonshot",
    "moonshotai": "moonshot",
    "openai": "openai",
    "qwen": "qwen",
    "x-ai": "xai",
    "xai": "xai",
    "z-ai": "zai",
    "zai": "zai",
    "zai-org": "zai",
}

_ROUTE: Final = re.compile(
    r"(?:[a-z]{2}(?:-gov)?-[a-z]+-\d|converse|invoke|responses|eu|us|global|global-standard)/",
    re.IGNORECASE,
)
_VERTEX_PATH: Final = re.compile(r"(?:projects|publishers)/.+/models/", re.IGNORECASE)
_ARN: Final = re.compile(r"arn:aws[\w-]*:bedrock:.+/", re.IGNORECASE)
_GEO: Final = re.compile(r"(?:us-gov|us|eu|apac|jp|au|ca|global)\.(?=[a-z])", re.IGNORECASE)
_DOTTED_VENDOR: Final = re.compile(
    r"(?:anthropic|openai|meta|mistral|amazon|deepseek|qwen|zai|moonshotai|minimax|google)\.",
    re.IGNORECASE,
)
_VARIANT: Final = re.compile(
    r"(?::(?:free|thinking|batch|beta|nitro|floor|extended|online|exacto)|\[1m\])$", re.IGNORECASE
)
_BEDROCK_VERSION: Final = re.compile(r"-v?\d+:\d+$|(?<=\d)-v\d$", re.IGNORECASE)
_VERTEX_DATE: Final = re.compile(r"@(?:\d{8}|default|latest)$", re.IGNORECASE)
_VERTEX_VERSION: Final = re.compile(r"-v\d$", re.IGNORECASE)
_DATE: Final = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$", re.IGNORECASE)
_CLAUDE_NUMBER_FIRST: Final = re.compile(r"claude-(\d+(?:-\d+)?)-([a-z]+)")
_CLAUDE_NAME_FIRST: Final = re.compile(r"claude-([a-z]+)-(\d+(?:-\d+)?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """One way to look an id up.

    Attributes:
        name: What to look up; compare without regard to case.
        host: The gateway or cloud that the id names so far.
        host_id: What that host expects: the id without its routing prefix.
        snapshot: The date (or `-latest`) taken off the end, which the vendor's API wants back.
        vendor: The vendor named by a prefix, as in `ModelLimits.provider`.
    """

    name: str
    host: str | None = None
    host_id: str = ""
    snapshot: str = ""
    vendor: str | None = None


def spellings(asked: str) -> Iterator[Spelling]:
    """Yield ways to look an id up, the most literal first.

    Every step takes off one known prefix or suffix; nothing is matched by its beginning, so that
    an unlisted model never passes for a listed one.
    """
    current = Spelling(name=asked.strip(), host_id=asked.strip())
    yield current
    for step in _STEPS:
        if (following := step(current)) != current:
            current = following
            yield current
    for name in _claude_names(current.name):
        yield replace(current, name=name)


def plainest_spelling(asked: str) -> Spelling:
    """Return the id with everything taken off that can be taken off."""
    current = Spelling(name=asked.strip(), host_id=asked.strip())
    for step in _STEPS:
        current = step(current)
    return current


def _without_gateway(spelling: Spelling) -> Spelling:
    head, slash, rest = spelling.name.partition("/")
    host = GATEWAYS.get(head.lower())
    if not slash or host is None:
        return spelling
    while route := _ROUTE.match(rest):
        rest = rest[route.end() :]
    return replace(spelling, name=rest, host=host, host_id=rest)


def _without_path(spelling: Spelling) -> Spelling:
    if match := _ARN.match(spelling.name):
        return replace(spelling, name=spelling.name[match.end() :], host=spelling.host or "bedrock")
    if match := _VERTEX_PATH.match(spelling.name):
        host = spelling.host or "vertex_ai"
        return replace(spelling, name=spelling.name[match.end() :], host=host)
    return spelling


def _without_vendor(spelling: Spelling) -> Spelling:
    name, vendor = spelling.name, spelling.vendor
    while True:
        head, slash, rest = name.partition("/")
        if not slash or head.lower() not in VENDORS:
            return replace(spelling, name=name, vendor=vendor)
        name, vendor = rest, VENDORS[head.lower()]


def _without_geo(spelling: Spelling) -> Spelling:
    if match := _GEO.match(spelling.name):
        return replace(spelling, name=spelling.name[match.end() :], host=spelling.host or "bedrock")
    return spelling


def _without_variant(spelling: Spelling) -> Spelling:
    return replace(spelling, name=_VARIANT.sub("", spelling.name))


def _without_bedrock_version(spelling: Spelling) -> Spelling:
    return _cut(spelling, _BEDROCK_VERSION, host="bedrock")


def _without_dotted_vendor(spelling: Spelling) -> Spelling:
    match = _DOTTED_VENDOR.match(spelling.name)
    if match is None:
        return spelling
    vendor = VENDORS[match[0][:-1].lower()]
    host = spelling.host or "bedrock"
    return replace(spelling, name=spelling.name[match.end() :], host=host, vendor=vendor)


def _without_vertex_date(spelling: Spelling) -> Spelling:
    cut = _cut(spelling, _VERTEX_DATE, host="vertex_ai")
    return cut if cut == spelling else _cut(cut, _VERTEX_VERSION, host="vertex_ai")


def _without_date(spelling: Spelling) -> Spelling:
    match = _DATE.search(spelling.name)
    if match is None:
        return spelling
    return replace(spelling, name=spelling.name[: match.start()], snapshot=match[0].lower())


def _cut(spelling: Spelling, suffix: re.Pattern[str], *, host: str) -> Spelling:
    name = suffix.sub("", spelling.name)
    if name == spelling.name:
        return spelling
    return replace(spelling, name=name, host=spelling.host or host)


def _claude_names(name: str) -> Iterator[str]:
    """Yield the other spellings of a Claude id: dashes for dots, number and name swapped."""
    dashed = name.lower().replace(".", "-")
    if not dashed.startswith("claude-"):
        return
    yield dashed
    match = _CLAUDE_NUMBER_FIRST.fullmatch(dashed) or _CLAUDE_NAME_FIRST.fullmatch(dashed)
    if match:
        yield f"claude-{match[2]}-{match[1]}"


_STEPS: Final = (
    _without_gateway,
    _without_path,
    _without_vendor,
    _without_geo,
    _without_variant,
    _without_bedrock_version,
    _without_dotted_vendor,
    _without_vertex_date,
    _without_date,
)
