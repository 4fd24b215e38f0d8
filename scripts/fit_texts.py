"""Texts of many kinds and scripts, gathered from a machine: what the estimator is fitted on."""

import ast
import base64
import gettext
import gzip
import json
import random
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOTS: Final = ("/usr/share", "/usr/include", "/usr/lib", "/usr/local", "/root")
SIZES_CHARS: Final = (200, 400, 1_000, 2_000, 4_000, 8_000)
SEED: Final = 20_261_128
MOST_PER_KIND: Final = 140

FILE_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "python": ("*/python3*/*.py",),
    "json": ("*.json",),
    "markdown": ("*.md",),
    "rst": ("*.rst", "*/doc/*.txt"),
    "licence": ("*/common-licenses/*", "*/licenses/*", "*/copyright"),
    "javascript": ("*/node_modules/*.js", "*/share/*.js"),
    "minified": ("*.min.js",),
    "typescript": ("*.d.ts",),
    "html": ("*.html",),
    "xml": ("*.xml", "*.svg"),
    "yaml": ("*.yaml", "*.yml"),
    "c": ("/usr/include/*.h",),
    "shell": ("*/bash-completion/completions/*", "*.sh"),
    "perl": ("*.pm",),
    "css": ("*.css",),
    "sql": ("*.sql",),
    "toml": ("*.toml",),
    "csv": ("*.csv",),
    "changelog": ("*/changelog*.gz",),
    "prose": ("*/README*", "*/NEWS*", "*.pod", "*/topics.py"),
}
# The kinds of languages, by the names of their message catalogues and manual pages.
LANGUAGES: Final[Mapping[str, str]] = {
    "latin west": "de fr es it pt pt_BR nl ca gl",
    "latin north": "sv da nb nn fi et is",
    "latin east": "pl cs sk sl hr bs ro hu lt lv sq sr@latin",
    "latin other": "tr id ms eu eo ga cy af oc ast br ku sc fur wa nds tl az uz kmr crh lg rw xh zu"
    " ia gd fo be@latin nso tk ca@valencia",
    "vietnamese": "vi",
    "cyrillic": "ru bg",
    "cyrillic west": "uk be sr mk sr@ije",
    "cyrillic other": "kk ky mn tt tg uz@cyrillic ab cv",
    "greek": "el",
    "hebrew": "he yi",
    "arabic": "ar fa ps ug ur",
    "indic": "hi mr ne mai bn bn_IN bn_BD as pa gu or ta te kn ml si",
    "script other": "ka hy th km my dz am ti lo",
    "chinese": "zh_CN",
    "chinese trad.": "zh_TW zh_HK",
    "japanese": "ja",
    "korean": "ko",
}
KIND_BY_LANGUAGE: Final = {
    name: kind for kind, names in LANGUAGES.items() for name in names.split()
}
_WORDS: Final = (
    *("connection", "request", "user", "worker", "retry", "timeout", "session", "queue", "cache"),
    *("database", "token", "payload", "stream", "error", "warning", "started", "finished"),
    *("accepted", "refused"),
)
_EMOJI: Final = [
    chr(code)
    for first, last in (
        (0x1F600, 0x1F64F),
        (0x1F300, 0x1F5FF),
        (0x1F680, 0x1F6C0),
        (0x1F90C, 0x1F9FF),
    )
    for code in range(first, last)
]


_JOINED: Final = (
    *(
        "👍🏽",
        "❤️",
        "🇫🇷",
        "👩‍💻",
        "👨‍👩‍👧‍👦",
        "🏳️‍🌈",
        "✅",
        "⚠️",
        "🎉",
        "🚀",
        "😀",
        "😂",
        "🙏",
        "🔥",
        "👍",
    ),
    *("⭐", "→", "✨", "🤷‍♀️", "👋🏻", "☕", "1️⃣", "🇩🇪", "💯", "🫠", "🫨", "🪿", "🩷", "🛜", "🫎"),
)


class Sample(NamedTuple):
    """A text, its kind, and the file that it is from."""

    kind: str
    source: str
    text: str


def gather_samples(roots: tuple[str, ...] = ROOTS) -> list[Sample]:
    """Return the texts; the same files give the same texts."""
    dice = random.Random(SEED)
    files = sorted(
        str(path)
        for root in roots
        for path in Path(root).rglob("*")
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    )
    samples = [
        *_from_files(files, dice),
        *_from_catalogues(files, dice),
        *_from_manuals(files, dice),
    ]
    return [*samples, *_made(dice), *_from_sources(files), *_compact(files)]


def _from_files(files: list[str], dice: random.Random) -> Iterator[Sample]:
    for kind, patterns in FILE_KINDS.items():
        mine = [f for f in files if any(fnmatch(f, pattern) for pattern in patterns)]
        dice.shuffle(mine)
        yield from _cut(kind, iter(mine), dice, most=MOST_PER_KIND)


def _from_manuals(files: list[str], dice: random.Random) -> Iterator[Sample]:
    for language, kind in KIND_BY_LANGUAGE.items():
        mine = [f for f in files if f.startswith(f"/usr/share/man/{language}/")]
        dice.shuffle(mine)
        yield from _cut(kind, iter(mine), dice, most=16)


def _cut(kind: str, files: Iterator[str], dice: random.Random, *, most: int) -> Iterator[Sample]:
    for file in files:
        text = _read(Path(file))
        if len(text) < 300:
            continue
        yield Sample(kind, file, _excerpt(text, dice))
        most -= 1
        if not most:
            return


def _from_sources(files: list[str]) -> Iterator[Sample]:
    """Yield the plain English of sources, and definitions of tools made from their functions."""
    dice = random.Random(SEED)
    mine = [f for f in files if fnmatch(f, "*/python3.1[0-9]/[a-z]*.py")]
    dice.shuffle(mine)
    for file in mine[:400]:
        try:
            nodes = list(ast.walk(ast.parse(_read(Path(file)))))
        except (SyntaxError, ValueError):
            continue
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
        told = [(node, text) for node in functions if (text := ast.get_docstring(node))]
        if len(told) > 5:
            texts = [text for _, text in told]
            yield Sample("docstrings", file, _excerpt("\n\n".join(texts), dice))
            yield Sample("words", file, _excerpt(" ".join(" ".join(texts).split()), dice))
            for _ in range(8):  # as short as what people say
                start = dice.randrange(max(1, len(texts) - 1))
                yield Sample("said", file, " ".join(texts[start].split())[: dice.randint(60, 250)])
            yield Sample("amounts", file, _with_amounts(" ".join(texts), dice))
            tools = [_tool(node, text) for node, text in dice.sample(told, k=min(5, len(told)))]
            yield Sample("tools", file, _dense(tools)[:8_000])


def _with_amounts(text: str, dice: random.Random) -> str:
    """Return some sentences in which every sixth word or so is a number, a price, a time."""
    amounts = ("5", "100", "$1.10", "3.5%", "12:30", "2/3", "$0.05.", "(7)", "10x", "1,200", "-4")
    words = text.split()[: dice.choice((30, 60, 120))]
    return " ".join(dice.choice(amounts) if dice.random() < 0.17 else word for word in words)


def _tool(node: ast.FunctionDef, text: str) -> dict[str, object]:
    lines = [line for line in text.splitlines() if len(line) > 20] or [text]
    properties = {
        argument.arg: {
            "type": ("string", "integer", "boolean")[at % 3],
            "description": lines[at % len(lines)],
        }
        for at, argument in enumerate(node.args.args)
    }
    schema = {"type": "object", "properties": properties, "required": sorted(properties)[:2]}
    return {"name": node.name, "description": text[:400], "input_schema": schema}


def _compact(files: list[str]) -> Iterator[Sample]:
    """Yield JSON without blanks, as requests carry it."""
    dice = random.Random(SEED)
    mine = [f for f in files if f.endswith(".json")]
    dice.shuffle(mine)
    left = MOST_PER_KIND
    for file in mine:
        try:
            text = _dense(json.loads(_read(Path(file)) or "0"))
        except (RecursionError, ValueError):
            continue
        if left and len(text) > 300:
            left -= 1
            yield Sample("json compact", file, _excerpt(text, dice))


def _dense(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()[:2_000_000]
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        return content[:400_000].decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError):
        return ""


def _excerpt(text: str, dice: random.Random) -> str:
    size = dice.choice(SIZES_CHARS)
    start = dice.randrange(max(1, len(text) - size))
    return text[start : start + size].strip() or text[:size]


def _from_catalogues(files: list[str], dice: random.Random) -> Iterator[Sample]:
    by_language: dict[str, list[str]] = {}
    for file in files:
        language, found, _ = file.rpartition("/LC_MESSAGES/")
        if found and file.endswith(".mo"):
            by_language.setdefault(language.rsplit("/", 1)[1], []).append(file)
    for language, mine in sorted(by_language.items()):
        if language in KIND_BY_LANGUAGE:
            dice.shuffle(mine)
            yield from _messages(KIND_BY_LANGUAGE[language], mine[:40], dice)
    for file in dice.sample(by_language.get("de", []), k=min(60, len(by_language.get("de", [])))):
        originals = [text for text, _ in _catalogue(file) if len(text) > 30]
        if len(originals) > 14:
            yield Sample("english", file, _excerpt(" ".join(originals), dice))


def _messages(kind: str, files: list[str], dice: random.Random) -> Iterator[Sample]:
    for file in files:
        texts = [told for text, told in _catalogue(file) if told != text and len(told) > 20]
        if len(texts) > 14:
            joint = dice.choice((" ", "\n"))
            yield Sample(kind, file, _excerpt(joint.join(texts), dice))


def _catalogue(file: str) -> list[tuple[str, str]]:
    try:
        with Path(file).open("rb") as opened:
            content: dict[Any, Any] = vars(gettext.GNUTranslations(opened))["_catalog"]
    except (IndexError, OSError, UnicodeDecodeError, ValueError):
        return []
    pairs = [(k, v) for k, v in content.items() if isinstance(k, str) and k and isinstance(v, str)]
    return sorted((k, re.sub(r"%[-+0-9.$a-z]+", "", v)) for k, v in pairs)


def _made(dice: random.Random) -> Iterator[Sample]:
    makers: dict[str, Callable[[], str]] = {
        "base64": lambda: base64.b64encode(dice.randbytes(4_000)).decode(),
        "hex": lambda: dice.randbytes(4_000).hex(),
        "rows": lambda: "\n".join(_row(dice) for _ in range(100)),
        "numbers": lambda: " ".join(_number(dice) for _ in range(1_500)),
        "logs": lambda: "\n".join(_log_line(dice) for _ in range(80)),
        "emoji": lambda: " ".join(_chatter(dice) for _ in range(600)),
        "traceback": lambda: "\n".join(_traceback(dice) for _ in range(40)),
        "json rows": lambda: json.dumps(
            [_record(dice) for _ in range(80)], indent=dice.choice((None, 2))
        ),
    }
    joined = random.Random(SEED)
    for number in range(60):
        mixed = " ".join(_signs(joined) for _ in range(400))
        yield Sample("emoji joined", f"made emoji joined {number}", _excerpt(mixed, joined))
    for number in range(60):
        for kind, make in makers.items():
            yield Sample(kind, f"made {kind} {number}", _excerpt(make(), dice))


def _stamp(dice: random.Random) -> str:
    return f"2026-{dice.randint(1, 12):02}-{dice.randint(1, 28):02} {dice.randint(0, 23):02}:{dice.randint(0, 59):02}:{dice.randint(0, 59):02}"


def _row(dice: random.Random) -> str:
    return f"{uuid.UUID(int=dice.getrandbits(128))},{dice.random() * 1000:.4f},{_stamp(dice)}Z"


def _number(dice: random.Random) -> str:
    size = 10 ** dice.randint(0, 5)
    return str(
        dice.choice(
            (
                dice.randint(0, 9),
                dice.randint(0, 99_999),
                round(dice.random() * size, dice.randint(1, 6)),
            )
        )
    )


def _log_line(dice: random.Random) -> str:
    level, thread = (
        dice.choice(("INFO", "WARN", "ERROR", "DEBUG")),
        dice.choice(("main", "worker-1", "pool-3-thread-7")),
    )
    words = " ".join(dice.choices(_WORDS, k=dice.randint(3, 9)))
    address = ".".join(str(dice.randint(0, 255)) for _ in range(4))
    where = f"com.example.{dice.choice(_WORDS)}.{dice.choice(_WORDS).title()}Service"
    return f"{_stamp(dice)},{dice.randint(0, 999):03} {level} [{thread}] {where} - {words} id={dice.randint(1, 10**6)} ip={address} took={dice.random() * 500:.1f}ms"


def _chatter(dice: random.Random) -> str:
    return dice.choice(_WORDS) + (dice.choice(_EMOJI) if dice.random() < 0.4 else "")


def _signs(dice: random.Random) -> str:
    """Return a word, or emoji as people send them: joined, coloured, flags, repeated."""
    if dice.random() < 0.3:
        return dice.choice(_WORDS)
    return dice.choice(_JOINED) if dice.random() < 0.4 else dice.choice(_EMOJI) * dice.randint(1, 4)


def _traceback(dice: random.Random) -> str:
    frames = "".join(
        f'  File "/srv/app/{dice.choice(_WORDS)}/{dice.choice(_WORDS)}.py", line {dice.randint(1, 900)}, in '
        f"{dice.choice(_WORDS)}_{dice.choice(_WORDS)}\n    {dice.choice(_WORDS)} = self.{dice.choice(_WORDS)}({dice.randint(0, 99)})\n"
        for _ in range(dice.randint(2, 8))
    )
    return f"Traceback (most recent call last):\n{frames}{dice.choice(('ValueError', 'KeyError'))}: {dice.choice(_WORDS)}\n"


def _record(dice: random.Random) -> dict[str, object]:
    return {
        "id": dice.randint(1, 10**6),
        "name": " ".join(dice.choices(_WORDS, k=2)),
        "is_open": dice.random() < 0.5,
        "tags": dice.choices(_WORDS, k=dice.randint(0, 3)),
        "score": round(dice.random(), 4),
        "at": _stamp(dice),
    }
