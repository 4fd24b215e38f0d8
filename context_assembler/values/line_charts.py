"""Line charts as SVG: a title, two axes, a line for each series, and its name beside it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import floor, log10
from typing import Final
from xml.sax.saxutils import escape, quoteattr

_WIDTH, _LEAST_HEIGHT = 960, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 250, 44, 44
_TICKS: Final = 5
_LINE_HEIGHT: Final = 18
_LONGEST_NAME_CHARS: Final = 34
# Told apart by people who see few colours as well (Okabe and Ito), and by their dashes without any.
_COLOURS: Final = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_LEAST_VALUE: Final = 1e-12  # what is less is drawn as nothing
_UNSAYABLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DASHES: Final = ("", "8 4", "2 3", "10 3 2 3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: a value for each place from 1 on, `None` where there is none.

    `marked` are places, counted from 0, that get a dot.
    """

    name: str
    values: Sequence[float | None]
    marked: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart:
    """Lines over the same places; `unit` stands in front of the figures of the upright axis."""

    title: str
    across: str
    series: Sequence[Series]
    unit: str = ""


def draw_charts(charts: Sequence[LineChart]) -> str:
    """Return the charts as one SVG document, one below the other."""
    starts = [0, *accumulate(map(_height_of, charts))]
    height = starts[-1]
    drawn = "\n".join(
        f'<g transform="translate(0 {start})">\n{_draw(chart)}\n</g>'
        for start, chart in zip(starts, charts, strict=False)
    )
    titles = "; ".join(chart.title for chart in charts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" aria-label={_attribute(titles)} '
        'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>\n{drawn}\n</svg>\n'
    )


def _height_of(chart: LineChart) -> int:
    """Return the height of a chart: room for all names."""
    return max(_LEAST_HEIGHT, _TOP + _BOTTOM + len(chart.series) * _LINE_HEIGHT)


def _draw(chart: LineChart) -> str:
    top = _round_up(max((v for s in chart.series for v in s.values if v is not None), default=0))
    places = max((len(series.values) for series in chart.series), default=0)
    plot = _Plot(top=top, places=places, height=_height_of(chart))
    return "\n".join(
        [
            f'<text x="{_LEFT}" y="24" font-size="15" font-weight="bold">{_text(chart.title)}</text>',
            *_axes(plot, chart),
            *(
                element
                for number, series in enumerate(chart.series)
                for element in _line(plot, series, number)
            ),
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plot:
    """Where places and values lie."""

    top: float
    places: int
    height: int

    def x(self, place: int) -> float:
        steps = max(1, self.places - 1)
        return round(_LEFT + place * (_WIDTH - _LEFT - _RIGHT) / steps, 1)

    def y(self, value: float) -> float:
        whole = self.height - _TOP - _BOTTOM
        return round(self.height - _BOTTOM - value / self.top * whole, 1)


def _axes(plot: _Plot, chart: LineChart) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, plot.height - _BOTTOM
    for tick in range(_TICKS + 1):
        value = plot.top * tick / _TICKS
        y = plot.y(value)
        yield f'<path d="M{_LEFT} {y}H{right}" stroke="#dddddd"/>'
        label = _text(f"{chart.unit}{_figure(value)}")
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end" fill="#444444">{label}</text>'
    yield f'<path d="M{_LEFT} {bottom}H{right}" stroke="#444444"/>'
    for place in sorted({0, max(0, plot.places - 1)}):
        yield (
            f'<text x="{plot.x(place)}" y="{bottom + 16}" text-anchor="middle" '
            f'fill="#444444">{place + 1:,}</text>'
        )
    middle = (_LEFT + right) / 2
    across = _text(chart.across)
    yield f'<text x="{middle}" y="{bottom + 34}" text-anchor="middle">{across}</text>'


def _line(plot: _Plot, series: Series, number: int) -> Iterator[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    dash = _DASHES[number % len(_DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    look = f'fill="none" stroke="{colour}" stroke-width="1.8"{dashed}'
    path = "".join(_strokes(plot, series.values))
    name = _text(series.name)
    if path:
        yield f'<path d="{path}" {look}><title>{name}</title></path>'
    for place in series.marked:
        value = series.values[place]
        if value is not None:
            yield f'<circle cx="{plot.x(place)}" cy="{plot.y(value)}" r="2.6" fill="{colour}"/>'
    x, y = _WIDTH - _RIGHT + 14, _TOP + 6 + number * _LINE_HEIGHT
    short = series.name
    if len(short) > _LONGEST_NAME_CHARS:
        short = f"{short[: _LONGEST_NAME_CHARS - 1]}…"
    yield f'<path d="M{x} {y}h22" {look}/>'
    yield f'<text x="{x + 28}" y="{y + 4}">{_text(short)}</text>'


def _strokes(plot: _Plot, values: Sequence[float | None]) -> Iterator[str]:
    """Yield the pen's moves; it is lifted where there is no value."""
    is_down = False
    for place, value in enumerate(values):
        if value is not None:
            yield f"{'L' if is_down else 'M'}{plot.x(place)} {plot.y(value)}"
        is_down = value is not None


def _round_up(value: float) -> float:
    """Return the next round figure: 1, 2, 2.5 or 5 times a power of ten."""
    if value < _LEAST_VALUE:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.3g}"


def _text(text: str) -> str:
    return escape(_sayable(text))


def _attribute(text: str) -> str:
    return quoteattr(_sayable(text))


def _sayable(text: str) -> str:
    """Return the text with what XML cannot say, not even escaped, replaced."""
    return _UNSAYABLE.sub("\ufffd", text)
