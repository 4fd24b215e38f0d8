"""Tells code and comments in Markdown from the rest."""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

_FENCE: Final = re.compile(r" {0,3}(?:[-*+>] +|\d{1,9}[.)] +)*(?P<fence>`{3,}|~{3,})(?P<rest>.*)")
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_RUNS: Final = re.compile("`+")
_TOKENS: Final = re.compile(r"`+|<!--")
_LIST_START: Final = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")

PieceKind: TypeAlias = Literal["text", "code", "comment"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of Markdown; joined, the pieces are the whole text."""

    kind: PieceKind
    text: str


def split_markdown(text: str) -> list[Piece]:
    """Tell code (fenced, indented or in backticks) and HTML comments from the rest.

    A comment that never closes is text: the rest of the file must not vanish with it.
    """
    return _Lexer(text).read()


@dataclass(slots=True)
class _Lexer:
    text: str
    kinds: list[PieceKind] = field(default_factory=list[PieceKind])
    parts: list[list[str]] = field(default_factory=list[list[str]])
    fence: str = ""
    in_comment: bool = False
    after_blank: bool = True
    in_list: bool = False
    last_close: int = -1
    runs_at: int = -1
    ends_by_length: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def read(self) -> list[Piece]:
        self.last_close = self.text.rfind("-->")
        position = 0
        for line in _LINES.findall(self.text):
            self._read_line(line, position)
            position += len(line)
        return [
            Piece(kind, "".join(parts)) for kind, parts in zip(self.kinds, self.parts, strict=True)
        ]

    def _add(self, kind: PieceKind, text: str) -> None:
        if not text:
            return
        if not self.kinds or self.kinds[-1] != kind:
            self.kinds.append(kind)
            self.parts.append([])
        self.parts[-1].append(text)

    def _read_line(self, line: str, position: int) -> None:
        if self.in_comment:
            self._read_text(line, position)
        elif self.fence:
            self._add("code", line)
            bare = line.strip()
            if len(bare) >= len(self.fence) and bare == self.fence[0] * len(bare):
                self.fence = ""
        elif (opened := _FENCE.match(line)) and not (
            opened["fence"][0] == "`" and "`" in opened["rest"]
        ):
            self.fence = opened["fence"]
            self._add("code", line)
        elif self._is_indented_code(line):
            self._add("code", line)
        else:
            self._read_text(line, position)
            if line.strip():
                self.in_list = bool(_LIST_START.match(line)) or (
                    self.in_list and line.startswith((" ", "\t"))
                )
            self.after_blank = not line.strip()

    def _is_indented_code(self, line: str) -> bool:
        is_indented = line.startswith(("    ", "\t")) and bool(line.strip())
        return is_indented and self.after_blank and not self.in_list

    def _read_text(self, line: str, position: int) -> None:
        done = 0
        while done < len(line):
            if self.in_comment:
                close = line.find("-->", done)
                end = len(line) if close < 0 else close + 3
                self._add("comment", line[done:end])
                self.in_comment = close < 0
                done = end
                continue
            token = _TOKENS.search(line, done)
            if token is None:
                self._add("text", line[done:])
                return
            self._add("text", line[done : token.start()])
            done = self._read_token(line, token, position)

    def _read_token(self, line: str, token: re.Match[str], position: int) -> int:
        if token[0] == "<!--":
            self.in_comment = self.last_close >= position + token.end()
            if not self.in_comment:
                self._add("text", token[0])
                return token.end()
            self._add("comment", token[0])
            return token.end()
        end = self._closing_end(line, token, position)
        self._add("text" if end is None else "code", line[token.start() : end or token.end()])
        return end or token.end()

    def _closing_end(self, line: str, token: re.Match[str], position: int) -> int | None:
        """Return where the next run of as many backticks ends."""
        if self.runs_at != position:
            self.runs_at, self.ends_by_length = position, {}
            for run in _RUNS.finditer(line):
                self.ends_by_length.setdefault(len(run[0]), []).append(run.end())
        ends = self.ends_by_length[len(token[0])]
        later = bisect_right(ends, token.end())
        return ends[later] if later < len(ends) else None
