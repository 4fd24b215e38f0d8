"""Secrets in texts: found by one table of patterns, without guessing, and masked.

>>> mask("export DB_PASSWORD=correct-horse")
('export DB_PASSWORD=[masked: Secret in a setting]', 'a secret was masked (Secret in a setting)')
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache
from string import ascii_letters, digits
from typing import Final

from context_assembler import events
from context_assembler.events import Json, JsonObject
from context_assembler.texts import FORGED, clean_text, decode_text, escape_notes, is_western

_LINE: Final = "[masked: "
_MOST_PASSES: Final = 4  # a secret may have hidden where the next one begins
_SETTING: Final = "Secret in a setting"
# Escape sequences of terminals (ECMA-48), and characters that show nothing: a secret hides in both.
# In the text of a JSON string both may stand as its escapes.
_INVISIBLE: Final = (
    r"(?:\x1b\[|\x9b|\\(?:u001[bB]|x1[bB]|033|e)\[)[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b(?:\][^\x07\x1b]{0,4000}(?:\x07|\x1b\\)|[ -/]{1,8}[0-~]|[@-Z\\-_])|[^\n]\x08"
    "|[\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\U000e0000-\U000e0fff]|"
    r"\\u(?:00[aA][dD]|200[b-fB-F]|2060|[fF][eE][fF][fF])"
    r"|(?<=[^\s\\])\\\r?\n[ \t]{0,80}(?=\S)"  # a word that goes on in the next line
)
# Kind; words of which the lower-case text holds one (none: any text is searched); pattern, whose last
# group is the secret, else the whole match. Bounded, and nothing goes back far: any text is searched in
# linear time. Forms as in detect-secrets 1.5 and the vendors' own pages.
_TABLE: Final = r"""
Private Key | -----begin | -----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----<key lines>
Anthropic API Key | sk-ant- | \bsk-ant-[\w-]{16,}
OpenAI API Key | sk- | \bsk-(?:proj|svcacct|admin)-[\w-]{20,}|\bsk-[A-Za-z0-9]{24,}
Secret Key | sk- | \bsk-(?:\w{1,10}-){0,3}(?=[A-Za-z]{0,24}\d)[A-Za-z0-9]{16,}|\bsk-lf-[0-9a-f-]{36}
Google API Key | aiza | \bAIza[\w-]{35}
Hugging Face Token | hf_ | \bhf_[A-Za-z0-9]{30,}
GitHub Token | gh | gh[pousr]_[A-Za-z0-9_]{36}|\bgithub_pat_\w{22,}
GitLab Token | gl gr | gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-[\w-]{20,}|GR1348941[\w-]{20,}
NPM Token | npm_ _authtoken= | \bnpm_[A-Za-z0-9]{36}\b|:_authToken=\s{0,4}([^\s$]\S{7,})
AWS Access Key | | (?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}
AWS Access Key | aws | (?i)aws.{0,20}?(?:key|pwd|pw|pass|token).{0,20}?['"]([0-9a-z/+]{40})['"]
Azure Storage Account access key | accountkey= | AccountKey=([A-Za-z0-9+/=]{88})
<login> | :// | ://[^:/?#\[\]@\s"'<>]{0,200}:(?![$<{*]|%[(ds])([^/?#\s"'<>]{1,200})@
Discord Bot Token | | [MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27}
Mailchimp Access Key | -us | [0-9a-z]{32}-us[0-9]{1,2}
PyPI Token | pypi-ag | pypi-Ag[\w-]{70,}
SendGrid API Key | sg. | SG\.[\w-]{22}\.[\w-]{43}
Slack Token | xox slack | (?i)xox[abposr]-(?:\d+-)+[a-z0-9]+|//hooks\.slack\.com/services/t\w+/b\w+/\w+
Square OAuth Secret | sq0csp- | sq0csp-[\w\\-]{43}
Stripe Access Key | k_live_ | [rs]k_live_[0-9A-Za-z]{24}
Telegram Bot Token | | (?m)^\d{8,10}:[\w-]{35}$
Twilio API Key | ac sk | \b(?:AC|SK)[a-z0-9]{32}\b
JSON Web Token | eyj | (?<![\w-])eyJ[\w-]+\.[\w-]+\.[\w.+/=-]*
Bearer Token | bearer | \b[Bb]earer\s{1,4}([\w.~+/-]{20,}=*)
Bearer Token | bearer | (?i)\bauthorization<is>bearer[ \t]{1,4}(?=[a-z.~+/_-]{0,64}\d)([\w.~+/-]{8,}=*)
<login> | authorization | (?i:authorization<is>(?:basic|token|digest|apikey)) {1,4}<basic>
<login> | curl | \bcurl\b<command>?\s(?:-u|-U|--user|--proxy-user)[ \t=]{0,4}["']?<user>
<setting> | key token secret passw | (?:<names>)["']?[ \t]{0,4}[=:][ \t]{0,4}<quoted>
<setting> | -- | (?i)(?<![\w-])--(?:[\w-]{0,40}[_-])?<name>[ \t]{1,4}<option>
<setting> | env | (?im)^[ \t]{0,8}ENV[ \t]{1,4}(?:\w{0,40}_)?<name>[ \t]{1,4}<option>
"""
# What every text with a secret has: most are long, and of the others a word says what they are.
_HINTS: Final = (
    "key token secret pass pwd :// -- env bearer authorization curl slack eyj xox".split()
)
_LONG_CHARS: Final = 16
_SHORT_CHARS: Final = 6  # up to here nothing is one: `://a:b@` has seven
_PIECES: Final = {
    "login": "Basic Auth Credentials",
    "setting": _SETTING,
    "key lines": r"[^-]{0,20000}(?:-----END [A-Z0-9 ]{0,40}-----)?",
    "is": r"""["']?[ \t]{0,4}[:=][ \t]{0,4}["']?""",
    "basic": r"(?=[a-z+/_-]{0,64}[A-Z0-9=])([\w.~+/-]{6,}={0,2})",
    "command": r"(?:[^\n\\c]|c(?!url\b)|\\[\s\S]){0,500}",
    "user": r"""[^\s:"'`$<{]{1,64}:([^\s"'`$<>{\[][^\s"'`<>]{0,200})""",
    "names": "[kK]ey|KEY|[tT]oken|TOKEN|[sS]ecret|SECRET|[pP]assw(?:or)?d|PASSW(?:OR)?D",
    "quoted": r"""["']([^\s"'$<{%\[(*][^\s"']{7,})["']""",
    "name": "(?:passw(?:or)?d|passphrase|secret|token|(?:api|access|secret|auth)[_-]?key)",
    "option": r"""(?=\S{0,64}\d)([^\s"'`<>$={%\[(*|&;,)-][^\s"'`<>]{5,1000})""",
}
_Secret = tuple[int, int, str]  # where it starts, where it ends, its kind
Change = Callable[[str], tuple[str, str]]  # returns a text, and what was changed in it


def mask(text: str) -> tuple[str, str]:
    """Return the text with a line in place of each secret, and what was masked, in half a sentence.

    A text without secrets comes back as it is, with an empty notice. One with secrets comes back
    clean: what shows nothing, and could hide them, is gone. Masking twice is as masking once.
    """
    bare, kinds = mask_kinds(text)
    what = "a secret was" if len(kinds) == 1 else f"{len(kinds)} secrets were"
    return bare, f"{what} masked ({', '.join(dict.fromkeys(kinds))})" if kinds else ""


def mask_kinds(text: str) -> tuple[str, list[str]]:
    """Return the text as `mask` does, and the kind of each secret that was masked."""
    bare, kinds = clean_text(text), list[str]()
    if not is_western(bare) or re.search(r"[\x1b\x08\\\xad]", bare) is not None:
        bare = re.sub(_INVISIBLE, "", bare)
    if not _may_hold_any(bare.lower()):
        return text, []
    glued = re.compile(r"[\w-]+")  # what goes on without a break belongs to the secret
    for _ in range(_MOST_PASSES):
        pieces, at = list[str](), 0
        for start, end, kind in find_secrets(bare):
            if start >= at:
                pieces += bare[at:start], f"{_LINE}{kind}]"
                kinds.append(kind)
            tail = glued.match(bare, end)
            at = max(at, tail.end() if tail else end)
        bare = "".join([*pieces, bare[at:]])
        if not pieces:
            break
    return (bare, kinds) if kinds else (text, [])


def find_secrets(text: str) -> list[_Secret]:
    """Return the secrets of a text that are not masked yet, in order, without overlaps."""
    apart: list[_Secret] = []
    for start, end, kind in sorted(_matches(text), key=lambda one: (one[0], -one[1])):
        if apart and start < apart[-1][1]:
            apart[-1] = apart[-1][0], max(apart[-1][1], end), apart[-1][2]
        elif not text.startswith(_LINE, start):
            apart.append((start, end, kind))
    return apart


@cache  # compiled when they are first used: most calls mask nothing
def _compiled() -> list[tuple[str, list[str], re.Pattern[str]]]:
    table = _TABLE
    for name, piece in _PIECES.items():
        table = table.replace(f"<{name}>", piece)
    rows = (row.replace(" | | ", " |  | ").split(" | ", 2) for row in table.strip().split("\n"))
    return [(kind, words.split(), re.compile(form)) for kind, words, form in rows]


def _may_hold_any(folded: str) -> bool:
    return len(folded) > _SHORT_CHARS and (
        any(word in folded for word in _HINTS)
        or max(map(len, folded.split()), default=0) >= _LONG_CHARS
        or (":" in folded and re.search(r"\d:", folded) is not None)
    )


def _matches(text: str) -> Iterator[_Secret]:
    folded = text.lower()
    for kind, words, pattern in _compiled():
        if not words or any(word in folded for word in words):
            for match in pattern.finditer(text):
                yield (*match.span(match.lastindex or 0), kind)
    if any(word in folded for word in ("key", "token", "secret", "pass", "pwd")):
        for match in re.finditer(_GIVEN, text):
            at, given = match.start("value"), re.split(_VALUE_END, match["value"], maxsplit=1)
            value = given[0].rstrip("\\,)|")
            if _is_secret(match, value):
                yield at, at + len(value), _SETTING


# ---- parts ----

# Addresses that a provider fetches from, and what it sealed, are worth nothing but whole.
_WHOLE: Final = frozenset(
    "url image_url file_url file_uri audio_url video_url data file_data "
    "encrypted_content signature thought_signature thoughtSignature".split()
)


def may_mask(kind: int, places: Collection[str]) -> bool:
    """Whether an event of this kind may hold what is masked in these places."""
    number = kind & events.KIND_MASK
    if number == events.COMPACTION:
        return bool(places)
    if number == events.ASSISTANT:  # what a provider's own tools returned
        return "tool_results" in places and bool(kind & events.UNUSUAL)
    return {events.USER: "user", events.TOOL_RESULT: "tool_results"}.get(number) in places


def masked_parts(
    kind: int, parts: Sequence[JsonObject], places: Collection[str]
) -> tuple[Sequence[JsonObject], str]:
    """Return the parts without secrets, the same object if there are none, and what was masked."""
    if not may_mask(kind, places):
        return parts, ""
    notices: dict[str, None] = {}
    is_reply = kind & events.KIND_MASK == events.ASSISTANT
    is_providers = is_reply or kind & events.KIND_MASK == events.COMPACTION
    whole = _WHOLE | {"block"} if is_providers else _WHOLE  # a provider's own goes back whole
    made = [
        part if is_reply and _is_said(part) else _changed(part, whole, mask, notices)
        for part in parts
    ]
    said = "; ".join(notices)
    return (made, f"{said[:1].upper()}{said[1:]}.") if notices else (parts, "")


def escaped_parts(parts: Sequence[JsonObject]) -> tuple[Sequence[JsonObject], str]:
    """Return the parts without what reads as a note of ours, the same object if nothing does."""
    notices: dict[str, None] = {}
    made = [_changed(part, _WHOLE, _escape, notices) for part in parts]
    return (made, FORGED) if notices else (parts, "")


def _escape(text: str) -> tuple[str, str]:
    escaped = escape_notes(text)
    return escaped, FORGED if escaped != text else ""


def _is_said(part: JsonObject) -> bool:
    """Whether the model said it, and not a tool that its provider ran."""
    said = ("message", "refusal", "text", None)
    return part["type"] != "opaque" or part["block"].get("type") in said


def _changed(value: Json, whole: Collection[str], change: Change, said: dict[str, None]) -> Json:
    """Return JSON with its texts changed; the same object if none is."""
    if isinstance(value, str):
        text, notice = change(value)
        said |= {notice: None} if notice else {}
        return text
    if events.is_list(value):
        made = [_changed(held, whole, change, said) for held in value]
        return made if made != value else value
    if not events.is_object(value):
        return value
    fields = {k: v if k in whole else _changed(v, whole, change, said) for k, v in value.items()}
    media_type = str(value.get("media_type") or value.get("mime_type"))
    if re.match(r"text/|application/[\w.-]*(?:json|xml|yaml|javascript)", media_type):
        with suppress(ValueError, TypeError, KeyError):
            bare, notice = change(decode_text(b64decode(value["data"], validate=True))[0])
            if notice:
                said[notice] = None
                fields["data"] = b64encode(bare.encode()).decode()
    if fields == value:
        return value
    return {key: held for key, held in fields.items() if key != "signature"}


# ---- settings: names that are given a value without quotes ----

_GIVEN: Final = r"""(?ix) (?P<word> passw(?:or)?d | passphrase | (?<=_)pwd | secret
    | (?<!page|next|sync|max_) (?<!(?:page|next|sync)[_.-]) token
    | (?:api|access|secret|private|encryption|signing|account|master|auth)[_-]?key )
    (?P<given> [ \t]{0,4} = [ \t]{0,4} | :[ \t]{1,4} )
    (?= (?P<value> (?![$={%\[(*|&;,)]) [^\s"'`<>]{6,500} ))"""
_VALUE_END: Final = r";|&&|&\w+=|\\[nrt\"']"
_NAME_CHARS: Final = f"{ascii_letters}{digits}_.-"
# What stands for a value: a path, a call, a reference, one word for all values, one that is masked.
_NO_VALUE: Final = (
    r"(?:~|\.\.?)/|/(?:app|etc|home|mnt|opt|root|run|secrets|srv|tmp|usr|Users|var)/"
    r"|[A-Za-z_][\w.]*[(\[{]|.*(?:\$[({A-Z_]|\{\{|\[masked:)|(.)\1*$"
    r"|(?i:undefined|required|optional|disabled|enabled|default|string|prompt)$"
)
# A path of attributes, or a variable named for what it holds, or by several words.
_CODE: Final = r"""(?ix) [a-z_]\w*(?:\.[a-z_]\w*)+ | [a-z]\w*_[a-z]+
    | (?=\w*(?:passw|secret|token|key|pwd)) (?: [a-z_]+\d{0,2} | [a-z0-9]*_\w* )"""


def _is_secret(found: re.Match[str], value: str) -> bool:
    """Whether a value is secret: not what code passes on, nor what stands for a value."""
    word, given = found["word"], found["given"]
    before = found.string[max(0, found.start() - 100) : found.start()]
    line = before.rstrip(_NAME_CHARS)
    prefix, line = before[len(line) :], line.rpartition("\n")[2]
    if line.endswith("\\") and prefix[:1] in ("n", "r", "t"):  # an escaped line break in JSON
        prefix, line = prefix[1:], ""
    is_password = word.lower().startswith(("pass", "pwd"))
    if len(value) < (6 if is_password else 8) or re.match(_NO_VALUE, value):
        return False
    is_shell = word.isupper() or prefix.startswith("-") or line.endswith(("?", "&", ";"))
    if given == "=" and is_shell and not line.endswith(("(", ", ")):
        return True
    if re.fullmatch(_CODE, value):
        return False
    is_line = not line.strip(" \t-") or line.endswith(('"', "'"))
    has_digits = any(map(str.isdigit, value))
    if given.startswith(":"):  # of prose and YAML
        is_named = f"{prefix}{word}".lower() not in {"secret", "token"}
        return is_line and is_named and has_digits and not value.isdecimal()
    return has_digits or (is_line and given == "=")
