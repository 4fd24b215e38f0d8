"""Templates among instruction files: rendered in a sandbox in which each one ends soon."""

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
    "methods that multiply": ("{{ 'a'.expandtabs(9) }}", 4, "unsafe"),
    "bytes": ("{{ 1.to_bytes(9) }}", 4, "unsafe"),
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


STEPS = "{% for i in range(60) %}STEP{% endfor %}{{ ns.x }}"
GROWS = "{% set ns = namespace(x='a') %}" + STEPS
LISTS = GROWS.replace("STEP", "{% set ns.x = [ns.x, ns.x] %}")


def pairs(form: str, times: int = 30) -> str:
    """Return a template in which `top` is made of `form` as often: A is what it was before."""
    made = [f"{{% set a{n + 1} = {form.replace('A', f'a{n}')} %}}" for n in range(times)]
    return "{% set a0 = 1 %}" + "".join(made) + f"{{% set top = a{times} %}}"


ENDLESS = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a loop with much text": "{% for a in range(99999) %}" + "y" * 10_000 + "{% endfor %}",
    "text that joins itself": GROWS.replace("STEP", "{% set ns.x = ns.x ~ ns.x %}"),
    "text that adds itself": GROWS.replace("STEP", "{% set ns.x = ns.x + ns.x %}"),
    "a block that holds itself": GROWS.replace(
        "STEP", "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}"
    ),
    "lists of lists": LISTS,
    "lists of lists as JSON": LISTS.replace("{{ ns.x }}", "{{ {'x': ns.x}|tojson }}"),
    "lists of lists in a format": LISTS.replace("{{ ns.x }}", "{{ '{}'.format(ns.x) }}"),
    "lists of lists by percent": LISTS.replace("{{ ns.x }}", "{{ '%s' % ns.x }}"),
    "a dict of lists of lists": LISTS.replace("{{ ns.x }}", "{{ {'x': ns.x} }}"),
    "a macro that calls itself twice": (
        "{% macro m(n) %}{% if n %}{{ m(n - 1) * 2 }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
        "{{ m(60) }}"
    ),
    "a long product": "{{ 'a' * 10**10 }}",
    "a long list": "{{ ['a'] * 10**10 }}",
    "a high power": "{{ 10**100000000 }}",
    "a product of large numbers": "{% set ns = namespace(x=10**9999) %}"
    + STEPS.replace("STEP", "{% set ns.x = ns.x * ns.x %}"),
    "a wide field": "{{ '%1000000000d' % 1 }}",
    "a wide field by its argument": "{{ '%*d' % (10**9, 1) }}",
    "a wide format": "{{ '{:1000000000}'.format(1) }}",
    "a wide format by its argument": "{{ '{:{}}'.format(1, 10**9) }}",
    "a wide JSON": "{{ [1]|tojson(10**9) }}",
    "a batch that is filled up": "{{ [1]|batch(10**9, 'x')|list|length }}",
    "many batches that are filled up": "{{ ([[1]] * 999)|map('batch', 9999, 'x')|map('list')|list }}",
    "many slices": "{{ [1]|slice(10**9)|list|length }}",
    "a number rounded to many digits": "{{ 1.5|round(10**7, 'ceil') }}",
    "a sum of many lists": "{{ ([[1] * 9] * 9999)|sum(start=[])|length }}",
    "a long text in short lines": "{{ ('a' * 500000)|wordwrap(1)|length }}",
    "a wide line": "{{ 'a'.ljust(1000000000) }}",
    "a wide centre": "{{ 'a'|center(1000000000) }}",
    "replacements that multiply": "{% set s = 'a' * 100000 %}{{ s.replace('a', s) }}",
    "replacements by a filter": "{% set s = 'a' * 100000 %}{{ s|replace('a', s) }}",
    "a long list of long texts": "{% set s = 'a' * 100000 %}{{ ([s] * 100000)|join }}",
    "a long separator": "{{ range(999)|map('string')|join('x' * 9999) }}",
    "deep indents": "{{ ('a ' * 100000)|replace(' ', nl)|indent(9999) }}",
    # What C does within one step: compare, hash, sort, show, copy, search.
    "lists of lists compared": LISTS.replace("{{ ns.x }}", "{{ ns.x == ns.x }}"),
    "literals compared": pairs("[A, A]") + "{{ top < [top] }}",
    "literals searched": pairs("[A, A]") + "{{ top in [a29, a28] }}",
    "tuples hashed": pairs("(A, A)") + "{{ {top: 1} }}",
    "keys looked up": pairs("(A, A)", 12)
    + "{% set d = {top: 1} %}{% for i in range(9999) %}{{ d[top] }}{% endfor %}",
    "dicts of dicts": pairs("{1: A, 2: A}") + "{{ top == a29 }}",
    "the same lists compared again and again": pairs("[A, A]", 12)
    + "{% for i in range(9999) %}{{ top == top }}{% endfor %}",
    "a list sorted by lists": "{{ ([[1] * 1000] * 1000)|sort|length }}",
    "the largest of lists": "{{ ([[1] * 1000] * 1000)|max }}",
    "lists tested": "{{ ([[1] * 1000] * 1000)|select('equalto', [1] * 1000)|list|length }}",
    "lists shown by a namespace": GROWS.replace(
        "STEP", "{% set ns.x = namespace(a=ns.x, b=ns.x) %}"
    ),
    "a namespace that holds itself": "{% set ns = namespace() %}{% set ns.x = [ns, ns] %}{{ ns }}",
    "slices copied": "{% set a = range(9999)|list %}{% for i in a %}{% set b = a[1:] %}{% endfor %}",
    "a list counted through": "{% set a = range(9999)|list %}{% for i in a %}{{ a.count(0) }}{% endfor %}",
    "entries of one hash": "{{ range(0, 9999 * (2**61 - 1), 2**61 - 1)|unique|list|length }}",
    "text searched from behind": "{{ ('a' * 400000).rfind('b' + 'a' * 200000) }}",
    "text joined by a method": "{{ ('a' * 400000).join(['b'] * 100000) }}",
    "comments taken out": "{{ ('<!---->' * 50000)|striptags }}",
    "a width made of two": "{{ '{:{}{}}'.format('a', 9999, 9999) }}",
    "a width that is text": "{{ '{:{}}'.format('a', '1000000000') }}",
    "a width within an argument": "{{ '{:{a[0]}}'.format(1, a=[10**9]) }}",
    "a wide field of a name": "{{ '%(a b)1000000000d' % {'a b': 1} }}",
    "a wide field of a name with a per cent": "{{ '%(a%b)1000000000d' % {'a%b': 1} }}",
    "a wide field by a tuple": "{% set t = (10**9, 1) %}{{ '%*d' % t }}",
    "a wide field by a group": "{% for g in [[10**9, 1]]|groupby(0) %}{{ '%*s' % g }}{% endfor %}",
    "many wide fields": "{{ ('%9999d' * 9000) % range(9000)|list }}",
    "a wide format by an attribute": "{{ ('{:1000000000}'|attr('format'))(1) }}",
    "a wide format over a list": "{{ ['%1000000000d']|map('format', 1)|list }}",
    "a number of much text": "{{ ('9' * 4000)|int }}",
    "blocks that call two": "".join(
        f"{{% block b{n} %}}{{{{ self.b{n + 1}() }}}}{{{{ self.b{n + 1}() }}}}{{% endblock %}}"
        for n in range(40)
    )
    + "{% block b40 %}{% endblock %}",
    "a dict that grows": "{% set ns = namespace(d={}) %}{% for i in range(9999) %}"
    "{% set ns.d = dict(ns.d, **{i|string: i}) %}{% endfor %}",
    "a cycle of lists": "{% set c = cycler([1] * 9999) %}{% for i in range(9999) %}"
    "{% set x = c.next() %}{% endfor %}",
    "a long sum": "{{ 1" + "+1" * 50_000 + " }}",
    "many expressions": "{{ agent }}" * 50_000,
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
