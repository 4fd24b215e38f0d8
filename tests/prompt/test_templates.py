"""Templates among instruction files: rendered in a sandbox in which loops and products end."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from context_assembler.errors import TemplateError
from context_assembler.prompt import BootstrapFile, render_files

VARIABLES: dict[str, Any] = {"agent": "ada", "tools": ["search", "book"], "skills": [], "nl": "\n"}


def template(text: str) -> BootstrapFile:
    return BootstrapFile(
        section="agent",
        path="AGENT.md",
        state="ok",
        text=text,
        metadata={"template": "jinja2"},
        first_line=4,
    )


def render(text: str) -> str:
    return render_files([template(text)], VARIABLES)[0].text


ORDINARY = {
    "variables": (
        "I am {{ agent }}:{% for t in tools %} {{ t }}{% endfor %}",
        "I am ada: search book",
    ),
    "turns of a loop": (
        "{% for t in tools %}{{ loop.index }}/{{ loop.length }}{{ ',' if loop.first }}{% endfor %}",
        "1/2,2/2",
    ),
    "a loop over nothing": ("{% for s in skills %}x{% else %}none{% endfor %}", "none"),
    "a loop over pairs": ("{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}", "a=1"),
    "a loop into a tree": (
        "{% for i in [1, [2, [3]]] recursive %}{{ loop(i) if i is iterable else i }}{% endfor %}",
        "123",
    ),
    "operators": (
        "{{ 1 + 2 }} {{ 3 * 4 }} {{ 7 % 3 }} {{ 2**5 }} {{ 'ab' * 2 }}",
        "3 12 1 32 abab",
    ),
    "texts": (
        "{{ 'a' ~ 1 ~ ['b'] }} {{ '%s-%d' % ('a', 3) }} {{ '{:>3}'.format(3) }}",
        "a1['b'] a-3   3",
    ),
    "digits in texts": ("{{ '%s' % '123456' }} {{ '12345 {}'.format(1) }}", "123456 12345 1"),
    "filters": (
        "{{ tools|join(', ') }} {{ tools|sort|first|upper }} {{ 'a b'|wordwrap(1) }}",
        "search, book BOOK a\nb",
    ),
    "filters with numbers": (
        "{{ [1, 2, 3]|batch(2)|list }} {{ 1.234|round(1) }} {{ [1, 2]|sum(start=3) }}",
        "[[1, 2], [3]] 1.2 6",
    ),
    "methods": ("{{ agent.replace('a', 'o').title() }} {{ '-'.join(tools) }}", "Odo search-book"),
    "a macro": ("{% macro m(t) %}<{{ t }}>{% endmacro %}{{ m('a') }}{{ m('b') }}", "<a><b>"),
    "formats": ("{{ '%d' % 2000 }} {{ '{:,}'.format(9999) }} {{ '%s'|format(9) }}", "2000 9,999 9"),
    "a long range": ("{{ range(100000)|list|length }}", "100000"),
}


@pytest.mark.parametrize(("text", "expected"), ORDINARY.values(), ids=ORDINARY)
def test_what_ends_is_rendered_as_jinja_does(text: str, expected: str) -> None:
    assert render(text) == expected


def test_a_template_may_render_to_nothing_and_other_files_are_not_templates() -> None:
    nothing = template("{% if skills %}x{% endif %}")
    plain = template("{{ x }} {% nonsense %}")._replace(metadata={})
    left_out = template("{{ nobody }}")._replace(section="soul")

    rendered = render_files([nothing, plain, left_out], VARIABLES, sections=["agent"])

    assert [(file.state, file.text) for file in rendered] == [
        ("empty", ""),
        ("ok", plain.text),
        ("ok", left_out.text),
    ]


BROKEN = {
    "syntax": ("a\n{% if %}", 5, "Expected an expression"),
    "undefined": ("a\n\n{{ agnet }}", 6, "'agnet' is undefined"),
    "unsafe": ("{{ ''.__class__.__mro__ }}", 4, "unsafe"),
    "failing": ("{{ 1 / 0 }}", 4, "division"),
    "no such filter": ("{{ agent|shout }}", 4, "shout"),
    "no such template": ("{% include 'x' %}", 4, "loader"),
    "random text": ("{{ lipsum() }}", 4, "undefined"),
}


@pytest.mark.parametrize(("text", "line", "reason"), BROKEN.values(), ids=BROKEN)
def test_an_error_names_file_and_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason) as caught:
        render(text)

    assert (caught.value.file, caught.value.line) == ("AGENT.md", line)


def test_a_fault_may_wait_as_a_file_that_cannot_be_read() -> None:
    [file] = render_files([template("{{ agnet }}")], VARIABLES, lets_faults_wait=True)

    assert (file.state, file.text) == ("unreadable", "")
    assert "its template does not render: AGENT.md:4: 'agnet' is undefined." in file.warnings


ENDLESS = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a loop with much text": "{% for a in range(99999) %}" + "y" * 10_000 + "{% endfor %}",
    "a macro that calls itself twice": (
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}"
    ),
    "blocks that call two": "".join(
        f"{{% block b{n} %}}{{{{ self.b{n + 1}() }}}}{{{{ self.b{n + 1}() }}}}{{% endblock %}}"
        for n in range(40)
    )
    + "{% block b40 %}{% endblock %}",
    "a long product": "{{ 'a' * 10**10 }}",
    "a long list": "{{ ['a'] * 10**10 }}",
    "a high power": "{{ 10**100000000 }}",
    "a product of large numbers": "{% set ns = namespace(x=10**9999) %}"
    "{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "much text": "{{ ('a' * 100000)|replace('a', 'bbbbbbbbbbbb') }}",
}


@pytest.mark.parametrize(
    "text", ["{{ (" + "(" * 3000, "{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}"]
)
def test_a_template_that_is_too_deep_is_an_error(text: str) -> None:
    with pytest.raises(TemplateError):
        render(text)


def test_templates_in_several_threads_do_not_share_their_work() -> None:
    texts = ["{{ range(90000)|list|length }}", "{% for i in range(90000) %}{% endfor %}done"] * 4
    with ThreadPoolExecutor(4) as threads:
        rendered = list(threads.map(render, texts))

    assert rendered == ["90000", "done"] * 4


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_a_template_that_would_not_end_is_an_error(text: str) -> None:
    with pytest.raises(TemplateError, match="does not end within 1,000,000 steps"):
        render(text)
