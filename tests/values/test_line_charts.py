"""Charts are well-formed SVG, whatever names and values they are drawn from."""

from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.simulation.charts import draw_costs
from context_assembler.values.forecasts import CacheForecast
from context_assembler.values.line_charts import LineChart, Series, draw_charts
from context_assembler.values.prices import InputPrice
from context_assembler.values.prompt_caches import CacheSplit
from context_assembler.values.simulations import CutPolicy, SimulatedRun, SimulatedStep, Simulation

SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in drawn(svg).iter(f"{SVG}text")]


@given(
    title=st.text(max_size=40),
    names=st.lists(st.text(max_size=60), max_size=20),
    values=st.lists(st.none() | st.floats(0, 1e12), max_size=12),
)
@settings(max_examples=40)
def test_any_names_and_values_make_a_well_formed_picture(
    title: str, names: list[str], values: list[float | None]
) -> None:
    marked = range(len(values))
    series = [Series(name=name, values=values, marked=marked) for name in names]

    svg = draw_charts([LineChart(title=title, across="call", series=series)] * 2)

    assert len(list(drawn(svg).iter(f"{SVG}g"))) == 2
    svg.encode("utf-8")


def test_what_looks_like_markup_is_text() -> None:
    name = '</text><script>alert("&")</script>'

    svg = draw_charts([LineChart(title=name, across=name, series=[Series(name=name, values=[1])])])

    assert "<script" not in svg
    assert name in texts(svg)


def test_a_line_is_lifted_where_there_is_no_value() -> None:
    series = Series(name="a", values=[1, None, 3, 4], marked=(0, 1))

    svg = draw_charts([LineChart(title="t", across="x", series=[series])])

    [path] = [
        p.get("d", "") for p in drawn(svg).iter(f"{SVG}path") if p.find(f"{SVG}title") is not None
    ]
    assert (path.count("M"), path.count("L")) == (2, 1)
    assert len(list(drawn(svg).iter(f"{SVG}circle"))) == 1


def test_axes_have_round_figures_with_their_unit() -> None:
    def labels(top: float, unit: str = "") -> list[str]:
        chart = LineChart(title="t", across="x", series=[Series(name="a", values=[top])], unit=unit)
        return texts(draw_charts([chart]))[1:7]

    assert labels(93_000) == ["0", "20,000", "40,000", "60,000", "80,000", "100,000"]
    assert labels(0.021, unit="$") == ["$0", "$0.005", "$0.01", "$0.015", "$0.02", "$0.025"]
    assert labels(0)[-1] == "1"


def test_a_long_name_is_cut_beside_the_line_and_whole_in_its_title() -> None:
    name = "a policy with a name that is too long for the margin"

    svg = draw_charts([LineChart(title="t", across="x", series=[Series(name=name, values=[1, 2])])])

    assert f"{name[:33]}…" in texts(svg)
    assert f"<title>{name}</title>" in svg


def test_a_chart_grows_with_its_names() -> None:
    def height(count: int) -> int:
        series = [Series(name=str(n), values=[n]) for n in range(count)]
        return int(
            drawn(draw_charts([LineChart(title="", across="", series=series)])).get("height", 0)
        )

    assert height(1) == height(12) < height(40)


def step(seq: int, usd: float | None, *, overflow: str = "", rewrite: str = "") -> SimulatedStep:
    price = InputPrice(usd=usd, uncached_usd=usd)
    forecast = CacheForecast(split=CacheSplit(uncached_tokens=5), price=price)
    return SimulatedStep(
        seq=seq,
        tokens=0 if overflow else 5,
        forecast=None if overflow else forecast,
        overflow=overflow,
        rewrite=rewrite,
    )


def simulation(*steps: SimulatedStep) -> Simulation:
    run = SimulatedRun(name="smart", policy=CutPolicy(), steps=steps)
    everything = SimulatedRun(name="everything", policy=CutPolicy(), steps=steps)
    return Simulation(model="m", session_tokens=5, everything=everything, runs=(run, run))


def test_costs_are_drawn_beside_tokens_where_they_are_known() -> None:
    known = draw_costs(
        simulation(step(1, 0.5), step(2, 0.5, rewrite="cut"), step(3, None, overflow="!"))
    )
    partly = draw_costs(simulation(step(1, None), step(2, 0.5)))

    assert "Cost of the input so far" in texts(known)
    assert texts(known).count("smart") == 2, "each run once in each chart"
    assert len(list(drawn(known).iter(f"{SVG}circle"))) == 2
    assert "Cost of the input so far" not in texts(partly)
