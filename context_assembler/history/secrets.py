"""Secrets in texts: found by one table of patterns, without guessing, and masked.

>>> mask("export DB_PASSWORD=correct-horse")
('export DB_PASSWORD=[masked: Secret in a setting]', 'a secret was masked (Secret in a setting)')
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    KIND_MASK,
    TOOL_RESULT,
    UNUSUAL,
    USER,
    Json,
    JsonObject,
)
from context_assembler.texts import clean_text

_LINE: Final = "[masked: "
_MOST_PASSES: Final = 4  # a secret may have hidden where the next one begins
_PRIVATE_KEY: Final = "Private Key"
_SETTING: Final = "Secret in a setting"
_LOGIN: Final = "Basic Auth Credentials"
# Escape sequences of terminals (ECMA-48), and characters that show nothing: a secret hides in both.
_INVISIBLE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
    "|[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
)
_LOOK: Final = re.compile(r"[\x1b\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")

# Kind, words of which the lower-case text holds one (none: any text is searched), pattern. The last
# group is the secret, else the whole match. Bounded, and nothing goes back far: any text is searched in
# linear time. Forms as in detect-secrets 1.5 and the vendors' own pages.
_TABLE: Final = (
    (
        _PRIVATE_KEY,
        "-----begin",
        r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r"[^-]{0,20000}(?:-----END [A-Z0-9 ]{0,40}-----)?",
    ),
    ("Anthropic API Key", "sk-ant-", r"\bsk-ant-[\w-]{16,}"),
    ("OpenAI API Key", "sk-", r"\bsk-(?:proj|svcacct|admin)-[\w-]{20,}|\bsk-[A-Za-z0-9]{32,}"),
    ("Google API Key", "aiza", r"\bAIza[\w-]{35}"),
    ("Hugging Face Token", "hf_", r"\bhf_[A-Za-z0-9]{30,}"),
    (
        "GitHub Token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"gh[pousr]_[A-Za-z0-9_]{36}|\bgithub_pat_\w{22,}",
    ),
    (
        "GitLab Token",
        "glpat- gldt- glft- glsoat- glrt- gr1348941 glcbt- glimt- glptt- glagent- gloas-",
        r"(?:gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-|GR1348941)[\w-]{20,1024}",
    ),
    ("NPM Token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("NPM Token", "_authtoken=", r":_authToken=\s{0,4}([^\s$]\S{7,})"),
    (
        "AWS Access Key",
        "akia asia abia acca a3t",
        r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}",
    ),
    (
        "AWS Access Key",
        "aws",
        r"(?i)aws.{0,20}?(?:key|pwd|pw|pass|token).{0,20}?['\"]([0-9a-z/+]{40})['\"]",
    ),
    ("Azure Storage Account access key", "accountkey=", r"AccountKey=([A-Za-z0-9+/=]{88})"),
    (_LOGIN, "://", r"://[^:/?#\[\]@\s]{1,200}:([^:/?#\[\]@!$&'()*+,;=\s]{1,200})@"),
    ("Discord Bot Token", "", r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27}"),
    ("Mailchimp Access Key", "-us", r"[0-9a-z]{32}-us[0-9]{1,2}"),
    ("PyPI Token", "pypi-ag", r"pypi-Ag[\w-]{70,}"),
    ("SendGrid API Key", "sg.", r"SG\.[\w-]{22}\.[\w-]{43}"),
    (
        "Slack Token",
        "xox hooks.slack.com",
        r"(?i)xox[abposr]-(?:\d+-)+[a-z0-9]+|https://hooks\.slack\.com/services/T\w+/B\w+/\w+",
    ),
    ("Square OAuth Secret", "sq0csp-", r"sq0csp-[\w\\-]{43}"),
    ("Stripe Access Key", "k_live_", r"[rs]k_live_[0-9A-Za-z]{24}"),
    ("Telegram Bot Token", "", r"(?m)^\d{8,10}:[\w-]{35}$"),
    ("Twilio API Key", "ac sk", r"\b(?:AC|SK)[a-z0-9]{32}\b"),
    ("JSON Web Token", "eyj", r"(?<![\w-])eyJ[\w-]+\.[\w-]+\.[\w.+/=-]*"),
    ("Bearer Token", "bearer", r"\b[Bb]earer\s{1,4}([\w.~+/-]{20,}=*)"),
    (
        "Bearer Token",
        "bearer",
        r"(?i)\bauthorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?bearer[ \t]{1,4}"
        r"(?=[a-z.~+/_-]{0,64}\d)([\w.~+/-]{8,}=*)",
    ),
    (
        _LOGIN,
        "authorization",
        r"(?i:authorization)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?i:basic|token|digest|apikey) {1,4}"
        r"(?=[a-z+/_-]{0,64}[A-Z0-9=])([\w.~+/-]{6,}={0,2})",
    ),
    (  # curl's option, in the line of its command
        _LOGIN,
        "curl",
        r"\bcurl\b(?:[^\n\\]|\\.|\\\n){0,500}?\s(?:-u|-U|--user|--proxy-user)[ \t=]{0,4}[\"']?"
        r"[^\s:\"'`$<{]{1,64}:([^\s\"'`$<>{\[][^\s\"'`<>]{0,200})",
    ),
    (  # name = "value" and "name": "value" in code and data
        _SETTING,
        "key token secret passw",
        r"(?:[kK](?:ey|EY)|[tT](?:oken|OKEN)|[sS](?:ecret|ECRET)|[pP](?:assw(?:or)?d|ASSW(?:OR)?D))"
        r"[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']([^\s\"'$<{%\[(*][^\s\"']{7,})[\"']",
    ),
    (  # options of commands, and a Dockerfile's old way
        _SETTING,
        "-- env",
        r"(?im)(?:(?<![\w-])--(?:[\w-]{0,40}[_-])?|^[ \t]{0,8}ENV[ \t]{1,4}(?:\w{0,40}_)?)"
        r"(?:passw(?:or)?d|passphrase|secret|token|(?:api|access|secret|auth)[_-]?key)[ \t]{1,4}"
        r"(?=\S{0,64}\d)([^\s\"'`<>$={%\[(*|&;,)-][^\s\"'`<>]{5,1000})",
    ),
)


class Secret(NamedTuple):
    """Where a text holds a secret: from `start` up to, and without, `end`."""

    kind: str
    start: int
    end: int


def mask(text: str) -> tuple[str, str]:
    """Return the text with a line in place of each secret, and what was masked, in half a sentence.

    A text without secrets comes back as it is, with an empty notice. One with secrets comes back
    clean: what shows nothing, and could hide them, is gone. Masking twice is as masking once.
    """
    bare = clean_text(text)
    if _LOOK.search(bare):
        bare = _INVISIBLE.sub("", bare)
    kinds: list[str] = []
    for _ in range(_MOST_PASSES):
        secrets = find_secrets(bare)
        if not secrets:
            break
        pieces, done = list[str](), 0
        for kind, start, end in secrets:
            pieces += (bare[done:start], f"{_LINE}{kind}]")
            kinds.append(kind)
            done = end
        bare = "".join((*pieces, bare[done:]))
    if not kinds:
        return text, ""
    what = "a secret was" if len(kinds) == 1 else f"{len(kinds)} secrets were"
    return bare, f"{what} masked ({', '.join(dict.fromkeys(kinds))})"


def find_secrets(text: str) -> list[Secret]:
    """Return the secrets of a text that are not masked yet, in order, without overlaps."""
    found = (one for one in _matches(text) if not text.startswith(_LINE, one.start))
    apart: list[Secret] = []
    for secret in sorted(found, key=lambda one: (one.start, -one.end)):
        if apart and secret.start < apart[-1].end:
            apart[-1] = apart[-1]._replace(end=max(apart[-1].end, secret.end))
        else:
            apart.append(secret)
    return apart


@cache
def _compiled() -> tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...]:
    return tuple((kind, tuple(words.split()), re.compile(form)) for kind, words, form in _TABLE)


def _matches(text: str) -> Iterator[Secret]:
    folded = text.lower()
    for kind, words, pattern in _compiled():
        if not words or any(word in folded for word in words):
            for match in pattern.finditer(text):
                yield Secret(kind, *match.span(match.lastindex or 0))
    if any(word in folded for word in ("key", "token", "secret", "pass", "pwd")):
        yield from _settings(text)
    if "-----end" in folded:
        yield from _key_ends(text)


# ---- parts ----

# Addresses that a provider fetches from, and what it sealed, are worth nothing but whole.
_WHOLE: Final = frozenset(
    "url image_url file_url file_uri audio_url video_url data file_data "
    "encrypted_content signature thought_signature thoughtSignature".split()
)


def may_mask(kind: int, places: Collection[str]) -> bool:
    """Whether an event of this kind may hold what is masked in these places."""
    number = kind & KIND_MASK
    if number == USER:
        return "user" in places
    if number == ASSISTANT:  # what a provider's own tools returned
        return "tool_results" in places and bool(kind & UNUSUAL)
    return (number == TOOL_RESULT and "tool_results" in places) or number == COMPACTION


def masked_parts(
    kind: int, parts: Sequence[JsonObject], places: Collection[str]
) -> tuple[Sequence[JsonObject], str]:
    """Return the parts without secrets, the same object if there are none, and what was masked."""
    if not places or not may_mask(kind, places):
        return parts, ""
    notices: list[str] = []
    keeps_blocks = kind & KIND_MASK in (ASSISTANT, COMPACTION)  # a provider's own go back whole
    made = [
        part
        if keeps_blocks and kind & KIND_MASK == ASSISTANT and part["type"] != "opaque"
        else _masked(part, notices, keeps_blocks=keeps_blocks)
        for part in parts
    ]
    said = "; ".join(dict.fromkeys(notices))
    return (made, f"{said[:1].upper()}{said[1:]}.") if notices else (parts, "")


def _masked(value: Json, notices: list[str], *, keeps_blocks: bool) -> Json:
    """Return JSON with its texts masked; the same object if none holds a secret."""
    if isinstance(value, str):
        text, notice = mask(value)
        notices += [notice] if notice else []
        return text if notice else value
    if isinstance(value, list):
        made = [_masked(held, notices, keeps_blocks=keeps_blocks) for held in value]
        return made if made != value else value
    if not isinstance(value, dict):
        return value
    changed = {
        key: new
        for key, held in value.items()
        if key not in _WHOLE and not (keeps_blocks and key == "block")
        if (new := _masked(held, notices, keeps_blocks=keeps_blocks)) is not held
    }
    if not changed:
        return value
    return {key: held for key, held in (value | changed).items() if key != "signature"}


# ---- settings: names that are given a value without quotes ----

_GIVEN: Final = re.compile(
    r"""(?ix) (?P<word> passw(?:or)?d | passphrase | (?<=_)pwd | secret | token
    | (?:api|access|secret|private|encryption|signing|account|master|auth)[_-]?key )
    (?P<given> [ \t]{0,4} = [ \t]{0,4} | :[ \t]{1,4} )
    (?P<value> [^\s"'`<>$={%\[(*|&;,)] [^\s"'`<>]{0,500}+ )"""
)
_NAME: Final = re.compile(r"[\w.-]{0,60}\Z", re.ASCII)
# A path of attributes, or a variable named for what it holds.
_CODE: Final = re.compile(
    r"""(?ix) [a-z_]\w*(?:\.[a-z_]\w*)+
    | (?=\w*(?:passw|secret|token|key|pwd)) (?: [a-z_]+\d{0,2} | [a-z0-9]*_\w* )"""
)
_REFERENCE: Final = re.compile(
    r"(?:~|\.\.?)/|/(?:app|etc|home|mnt|opt|root|run|secrets|srv|tmp|usr|Users|var)/"
    r"|[A-Za-z_][\w.]*[(\[{]|.*(?:\$[({A-Z_]|\{\{)"
)
_SNAKE: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_ENDS_IN_CODE: Final = re.compile(r"[;,)|]|&(?:&|\w+[=;])|\\[nrt\"']")
_ENDS_IN_SHELL: Final = re.compile(r";|&\w+=|\\[nrt\"']")
_PLACES: Final = re.compile(r"(?i)(?:page|next|sync|cursor|continuation|cancellation)[_.-]?token$")
_COUNTS: Final = re.compile(r"(?i)(?:max|min|num|count|limit|per)[_.-]")
_WORDS: Final = ("undefined required optional disabled enabled default string prompt").split()


def _settings(text: str) -> Iterator[Secret]:
    at = 0
    while (found := _GIVEN.search(text, at)) is not None:
        start = found.start("value")
        chars = _secret_chars(found)
        if chars:
            yield Secret(_SETTING, start, start + chars)
        at = start + chars


def _secret_chars(found: re.Match[str]) -> int:
    """Return how many characters of a value are secret; 0 for a reference, a count or an empty one.

    What code passes on, and what stands for a value, is left alone.
    """
    word, given = found["word"].lower(), found["given"].strip(" \t")
    before = found.string[max(0, found.start() - 200) : found.start()]
    prefix = before[_NAME.search(before).start() :]  # type: ignore[union-attr]  # it matches anywhere
    line = before[: len(before) - len(prefix)].rpartition("\n")[2]
    if line.endswith("\\") and prefix[:1] in {"n", "r", "t"}:  # a line break as JSON writes it
        prefix, line = prefix[1:], ""
    name, is_password = prefix + found["word"], word.startswith(("pass", "pwd"))
    is_spaced = found["given"] != "="
    is_variable = name.isupper() and not is_spaced and not line.endswith(("(", ", "))
    is_option = not is_spaced and (name.startswith("-") or line.endswith(("?", "&", ";")))
    ends = _ENDS_IN_SHELL if is_variable else _ENDS_IN_CODE
    value = ends.split(found["value"], maxsplit=1)[0].rstrip(",\\")
    is_count = value.isdecimal() and not is_password
    if (
        len(value) < (6 if is_password else 8)
        or (is_count and (not is_variable or _COUNTS.search(name)))
        or len(set(value)) <= 2
        or value.lower() in _WORDS
        or "[masked:" in value
        or _REFERENCE.match(value)
        or _PLACES.search(name)
    ):
        return 0
    if is_variable or is_option:
        return len(value)
    if any(char in value for char in "({[") or _CODE.fullmatch(value):
        return 0
    is_line = not line.strip(" \t-") or line.endswith(('"', "'"))
    has_digit = any(map(str.isdigit, value)) and not value.isdecimal()
    if given == ":":
        is_secret = name.lower() not in {"secret", "token"} and is_line and has_digit
    elif name.isupper() and found["given"].startswith("= "):
        is_secret = False  # to a shell it is empty
    else:
        is_plain = value.replace("_", "").isalpha()
        is_secret = (not is_spaced and is_line) or (
            not is_plain and (is_password or not _SNAKE.fullmatch(value))
        )
    return len(value) if is_secret else 0


# ---- the rest of a private key, if a file is read in pieces ----

_FRONT: Final = r"[^A-Za-z0-9+/=-]{0,20}+(?:\d{1,6}[^A-Za-z0-9+/=-]{1,20}+)?"
_END: Final = re.compile(r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_LINES: Final = re.compile(  # read backwards; the last line may be short
    rf"{_FRONT}(?:[A-Za-z0-9+/=]{{1,31}}+(?![A-Za-z0-9+/=]){_FRONT})?"
    rf"(?:={{0,2}}+(?P<line>[A-Za-z0-9+/]{{32,}}+){_FRONT})+"
)


def _key_ends(text: str) -> Iterator[Secret]:
    done = 0
    for end in _END.finditer(text):
        before = text[max(done, end.start() - 20_000) : end.start()]
        if (lines := _LINES.match(before[::-1])) is not None:
            yield Secret(_PRIVATE_KEY, end.start() - lines.end("line"), end.end())
        done = end.end()
