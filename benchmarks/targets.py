"""The table of targets, from what a run has found."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean, median
from typing import Any, Final, NamedTuple

FLOOR_MS: Final = 11.8  # what `index_trim_load` takes at 5,000 messages where milliseconds hold
_WHO: Final = ("ours", "earlier")
_Found = Mapping[str, Any]


class Row(NamedTuple):
    """One line: what is measured, its target, and its figures by whose they are."""

    what: str
    target: str
    ours: str
    is_met: bool | None
    earlier: str = ""
    peer: str = ""


def write_table(found: _Found) -> str:
    """Return the table as Markdown."""
    about = found["about"]
    where = f"Python {about['python']}, {about['cores']} cores"
    lines = [
        "",
        f"{about['date']}, plan `{about['plan']}`, {about['sessions']} sessions, {where}.",
        "CPU time; median · mean · worst.",
        "",
        "| what | target | measured | met | release before | peer |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    words = {True: "yes", False: "no", None: ""}
    rows = [row for make in _ROWS for row in make(found)]
    lines += [
        f"| {r.what} | {r.target} | {r.ours} | {words[r.is_met]} | {r.earlier} | {r.peer} |"
        for r in rows
    ]
    return "\n".join(lines)


def _answers(found: _Found, measure: str, length: Any, who: str) -> list[dict[str, Any]]:
    answers = found.get(f"{measure} {length} {who}", [])
    return [one for one in answers if "error" not in one]


def _lengths(found: _Found, measure: str) -> list[int]:
    keys = [key.split() for key in found if key.startswith(f"{measure} ")]
    return sorted({int(length) for _, length, _ in keys})


def _three(values: Sequence[float]) -> str:
    shown = [median(values), mean(values), max(values)]
    return " · ".join(f"{value:.2f}" if value < 100 else f"{value:,.0f}" for value in shown)


def _first(found: _Found) -> Iterator[Row]:
    for length in _lengths(found, "first"):
        peer = [a["first"] for a in _answers(found, "langchain_first", length, "langchain")]
        times = {
            who: [answer["first"] for answer in _answers(found, "first", length, who)]
            for who in _WHO
        }
        if not times["ours"]:
            continue
        three = {
            who: median(a["three"] / a["first"] for a in answers)
            for who in _WHO
            if (answers := _answers(found, "first", length, who))
        }
        shown = {who: f"{_three(values)} ms" for who, values in times.items() if values}
        ratio = median(times["ours"]) / median(peer) if peer else None
        if peer:
            shown |= {
                who: f"{median(v) / median(peer):.2f} × ({shown[who]})"
                for who, v in times.items()
                if v
            }
        yield Row(
            f"first call of a process, {length:,} messages ÷ importing and trimming with langchain",
            "≤ 0.10 ×",
            shown["ours"],
            None if ratio is None else ratio <= 0.1,
            shown.get("earlier", ""),
            f"{_three(peer)} ms" if peer else "",
        )
        yield Row(
            "first three calls of a process together ÷ the first",
            "≤ 1.5 ×",
            f"{three['ours']:.2f} ×",
            three["ours"] <= 1.5,
            f"{three['earlier']:.2f} ×" if "earlier" in three else "",
        )
        modules = {
            who: a[0]["modules"] for who in _WHO if (a := _answers(found, "first", length, who))
        }
        yield Row(
            "our modules loaded by a first call",
            "≤ 30",
            str(modules["ours"]),
            modules["ours"] <= 30,
            str(modules.get("earlier", "")),
        )


def _calls(found: _Found) -> Iterator[Row]:
    for length in _lengths(found, "calls"):
        n = {
            who: a[0]["per_message"] for who in _WHO if (a := _answers(found, "calls", length, who))
        }
        if "ours" in n:
            yield Row(
                f"Python calls per message, cold, {length:,} messages",
                "≤ 20",
                f"{n['ours']:.1f}",
                n["ours"] <= 20,
                f"{n['earlier']:.0f}" if "earlier" in n else "",
            )


def _memory(found: _Found) -> Iterator[Row]:
    for length in _lengths(found, "memory"):
        held = {who: _answers(found, "memory", length, who) for who in _WHO}
        names = {"import": ("after import", 10), "after": (f"after {length:,} messages", 25)}
        for field, (what, most) in names.items():
            mb = {
                who: median(a[field] for a in answers) for who, answers in held.items() if answers
            }
            if "ours" in mb:
                yield Row(
                    f"memory above bare Python, {what}",
                    f"≤ {most} MB",
                    f"{mb['ours']:.1f} MB",
                    mb["ours"] <= most,
                    f"{mb['earlier']:.1f} MB" if "earlier" in mb else "",
                )


def _cold(found: _Found) -> Iterator[Row]:
    for length in _lengths(found, "cold"):
        answers = {who: a[0] for who in _WHO if (a := _answers(found, "cold", length, who))}
        if "ours" not in answers:
            continue
        most = 1.0 if length > 50_000 else 1.5
        shown = {
            who: f"{median(a['ours']) / median(a['quarter']):.2f} × ({_three(a['ours'])} ms)"
            for who, a in answers.items()
        }
        ours = answers["ours"]
        peers = [f"`index_trim_load` {_three(ours['quarter'])} ms"]
        if median(ours["same"]) < 0.9 * median(ours["quarter"]):
            peers.append(f"{median(ours['same']):.0f} ms with our budget")
        yield Row(
            f"cold, {length:,} messages, payload included ÷ `index_trim_load`",
            f"≤ {most:g} ×",
            shown["ours"],
            median(ours["ours"]) <= most * median(ours["quarter"]),
            shown.get("earlier", ""),
            ", ".join(peers),
        )


def _scaled(answer: Mapping[str, Any], field: str) -> list[float]:
    return [value * FLOOR_MS / answer["floor"] for value in answer[field]]


def _turns(found: _Found) -> Iterator[Row]:
    for length in _lengths(found, "turns"):
        answers = {who: a[0] for who in _WHO if (a := _answers(found, "turns", length, who))}
        if "ours" not in answers:
            continue
        steps = {who: _scaled(a, "steps") for who, a in answers.items()}
        whole = {who: _scaled(a, "turns") for who, a in answers.items()}
        cuts = answers["ours"]["cuts"]
        peer = ""
        if buffered := _answers(found, "llmbuffer", length, "llmbuffer"):
            floor = answers["ours"]["floor"]
            times = [value * FLOOR_MS / floor for value in buffered[0]["steps"]]
            peer = (
                f"llmbuffer {_three(times)} ms, cold {buffered[0]['cold'] * FLOOR_MS / floor:,.0f}"
            )
        ours = steps["ours"]
        is_met = median(ours) <= 0.15 and mean(ours) <= 0.5 and max(ours) <= 25
        yield Row(
            f"one step with its payload at {length:,} messages ({len(ours)} steps, {cuts} cuts)",
            "≤ 0.15 · 0.5 · 25 ms",
            f"{_three(ours)} ms",
            is_met,
            f"{_three(steps['earlier'])} ms" if "earlier" in steps else "",
            peer,
        )
        yield Row(
            f"… the whole turn at {length:,} messages",
            "",
            f"{_three(whole['ours'])} ms",
            None,
            f"{_three(whole['earlier'])} ms" if "earlier" in whole else "",
        )


def _whole(found: _Found) -> Iterator[Row]:
    least: float | None = None
    for length in _lengths(found, "whole"):
        answers = {who: a[0] for who in _WHO if (a := _answers(found, "whole", length, who))}
        if "ours" not in answers:
            continue
        whole = {who: _scaled(a, "turns") for who, a in answers.items()}
        took = median(whole["ours"])
        target = "≤ 2 ms" if least is None else "no more than with the fewest"
        yield Row(
            f"whole turn with {answers['ours']['kept']:,} kept messages",
            target,
            f"{_three(whole['ours'])} ms",
            took <= 2 if least is None else took <= 1.1 * least,
            f"{_three(whole['earlier'])} ms" if "earlier" in whole else "",
        )
        least = took if least is None else least


def _small(found: _Found) -> Iterator[Row]:
    for length in _lengths(found, "small"):
        times = {
            who: [value for answer in answers for value in _scaled(answer, "times")]
            for who in _WHO
            if (answers := _answers(found, "small", length, who))
        }
        if "ours" in times:
            yield Row(
                f"{length} messages and 10 tools, new assembler, payload included",
                "≤ 2 ms",
                f"{_three(times['ours'])} ms",
                median(times["ours"]) <= 2,
                f"{_three(times['earlier'])} ms" if "earlier" in times else "",
            )


def _hundred(found: _Found) -> Iterator[Row]:
    for length in _lengths(found, "hundred"):
        answers = {who: a[0] for who in _WHO if (a := _answers(found, "hundred", length, who))}
        if "ours" not in answers:
            continue
        texts: dict[str, str] = {}
        for who, answer in answers.items():
            scale = FLOOR_MS / answer["floor"]
            steps = _scaled(answer, "steps")
            texts[who] = (
                f"{mean(steps):.2f} ms a step, {answer['turn'] * scale:.2f} ms a turn, "
                f"p99 of `assemble` {answer['p99'] * scale:.1f} ms"
            )
        ours = answers["ours"]
        scale = FLOOR_MS / ours["floor"]
        is_met = mean(_scaled(ours, "steps")) <= 0.8 and ours["p99"] * scale <= 5
        what = "100 sessions in one loop (p99 is what a caller waits, on a machine others use)"
        yield Row(what, "≤ 0.8 ms · p99 ≤ 5 ms", texts["ours"], is_met, texts.get("earlier", ""))


def _recall(found: _Found) -> Iterator[Row]:
    for length in _lengths(found, "recall"):
        most = 1.0 if length < 50_000 else 0.3 if length < 500_000 else 0.1
        words: list[float] = []
        for measure, name in (("recall", "words"), ("recall_vectors", "words and vectors")):
            for answer in _answers(found, measure, length, "ours")[:1]:
                ours, plain, waits = answer["ours"], answer["plain"], sorted(answer["once"])
                middle = median(ours)
                ratio = middle / median(plain)
                by_words = middle / median(words) if words else 0.0
                is_met = by_words <= 2 if words else ratio <= most
                yield Row(
                    f"a whole recall of 1,000 tokens, {length:,} memories, {name} ÷ plain FTS5",
                    "≤ 2 × words" if words else f"≤ {most:g} ×",
                    f"{ratio:.2f} × ({_three(ours)} ms)"
                    + (f", {by_words:.2f} × words" if words else ""),
                    is_met,
                    peer=f"plain FTS5 {_three(plain)} ms",
                )
                last = waits[int(0.99 * len(waits))] / median(answer["waits"])
                yield Row(
                    f"… {len(waits)} at once: that were late, slowest ÷ one alone",
                    f"none, ≤ {len(waits)} ×",
                    f"{answer['late']}, {last:.0f} ×",
                    not answer["late"] and last <= len(waits),
                )
                if not words:
                    yield Row(
                        "… stored in a second, secrets masked · file ÷ plain FTS5",
                        "≥ 15,000 · ≤ 1.6 ×",
                        f"{answer['second']:,.0f} · {answer['size']:.2f} ×",
                        answer["second"] >= 15_000 and answer["size"] <= 1.6,
                    )
                words = words or ours


def _listing(found: _Found) -> Iterator[Row]:
    for length in _lengths(found, "listing"):
        most = 3 if length <= 50 else 8
        for answer in _answers(found, "listing", length, "ours")[:1]:
            times = {name: answer[name] for name in ("recent", "important", "balanced")}
            yield Row(
                f"a context without a question, {length} memories, {', '.join(times)}",
                f"≤ {most} ms",
                ", ".join(f"{median(values):.2f}" for values in times.values()) + " ms",
                all(median(values) <= most for values in times.values()),
            )


def _fit(found: _Found) -> Iterator[Row]:
    for length in _lengths(found, "fit"):
        peers = _answers(found, "langchain_trim", length, "langchain")
        trim = median(peers[0]["trim"]) if peers else None
        for answer in _answers(found, "fit", length, "ours")[:1]:
            whats = {
                "simple": ("counted simply", 3.0),
                "auto": ("counted exactly", 3.0),
                "simple after": ("an exchange more, `after=`, counted simply", 1.0),
                "auto after": ("an exchange more, `after=`, counted exactly", 1.0),
            }
            for name, (what, most) in whats.items():
                times = answer[name]
                ratio = f"{median(times) / trim:.2f} × " if trim else ""
                yield Row(
                    f"`fit_messages`, {length:,} messages, {what} ÷ `trim_messages` of langchain",
                    f"≤ {most:g} ×",
                    f"{ratio}({_three(times)} ms)",
                    None if trim is None else median(times) <= most * trim,
                    peer=f"{_three(peers[0]['trim'])} ms" if peers else "",
                )


def _replay(found: _Found) -> Iterator[Row]:
    for by in ("assembler", "fit_messages"):
        for length in _lengths(found, f"replay-{by}"):
            for one in _answers(found, f"replay-{by}", length, "ours"):
                names = ("valid", "task", "cached")
                shown = [f"{one[name]:.1%}" for name in names]
                is_good = one["valid"] == one["task"] == 1 and not one["over"]
                yield Row(
                    f"replayed sessions, `{by}`: valid · task · cached · over · cost",
                    "100 · 100 · ≥ 92 % · 0 · ≤ 0.79",
                    f"{' · '.join(shown)} · {one['over']:.0f} · {one['cost_A']:.3f}",
                    is_good and one["cached"] >= 0.92 and one["cost_A"] <= 0.79,
                )


_ROWS: Final[Sequence[Callable[[_Found], Iterator[Row]]]] = (
    _first,
    _cold,
    _turns,
    _whole,
    _small,
    _calls,
    _memory,
    _hundred,
    _fit,
    _replay,
    _recall,
    _listing,
)
