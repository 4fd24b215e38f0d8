"use strict";
// The pages work without this script; it moves from step to step on the page of a session.

const find = (id) => document.getElementById(id);
const held = find("data") && JSON.parse(find("data").textContent);
const number = (value) => value.toLocaleString("en").replace("-", "−");
const PAGE = 200;

/** Return an element with text and children; text is never read as HTML. */
function make(name, className, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children.filter((one) => one !== "").map((one) =>
    typeof one === "number" ? number(one) : one));
  return element;
}

async function ask(path, asked) {
  const given = Object.entries(asked).filter(([, value]) => value !== "");
  const answer = await fetch(`${path}?${new URLSearchParams(given)}`);
  const text = await answer.text();
  if (answer.status === 504) return ask(path, asked); // the worker goes on computing it
  if (!answer.ok) {
    let reason = text;
    try { reason = JSON.parse(text).error; } catch { /* it is a plain text */ }
    throw new Error(reason);
  }
  return text;
}

/** Run what a form asks for; say below it why that failed. Only the last of its answers counts. */
const turns = {};
async function attempt(name, work) {
  const turn = (turns[name] = (turns[name] || 0) + 1);
  document.body.classList.add("busy");
  find("problem").hidden = true;
  try {
    const done = await work();
    return turn === turns[name] ? done : undefined;
  } catch (error) {
    if (turn === turns[name]) {
      find(name).after(find("problem"));
      find("problem").textContent = error.message;
      find("problem").hidden = false;
    }
  } finally {
    document.body.classList.remove("busy");
  }
  return undefined;
}

function session() {
  let step = held.step, shown = PAGE;
  const known = held.file && held.file.steps.map((one) => one.number);

  // ---- steps ----

  const nearest = (at) => known.reduce((best, one) =>
    Math.abs(one - at) < Math.abs(best - at) ? one : best);

  async function load(at, tried = {}) {
    if (known) return held.file.steps[known.indexOf(nearest(at))];
    return JSON.parse(await ask("/session/step", { id: held.ask, at, ...tried }));
  }

  async function made(at, tried) {
    const other = await load(at, tried), problem = other.problem || step.problem;
    if (problem) throw new Error(problem);
    return other;
  }

  async function go(at) {
    const next = await attempt("steps", () => load(at));
    if (!next) return;
    step = next;
    find("step").innerHTML = step.html; // made by the server, which escapes what it is given
    find("at").value = step.number;
    find("which").textContent = number(step.number);
    find("wire").hidden = find("copy").disabled = true;
    if (!known) {
      const url = new URL(location);
      url.searchParams.set("at", step.number);
      history.replaceState(null, "", url);
    }
    listChoices();
    report();
  }

  function move(by) {
    const count = Number(find("at").max);
    if (!known) return go(Math.min(count, Math.max(1, step.number + by)));
    const place = known.indexOf(step.number) + by;
    return go(known[Math.min(known.length - 1, Math.max(0, place))]);
  }

  let waits = 0;
  find("at").addEventListener("input", () => {
    find("which").textContent = find("at").value;
    clearTimeout(waits);
    waits = setTimeout(() => go(Number(find("at").value)), known ? 0 : 80);
  });
  find("earlier").addEventListener("click", () => move(-1));
  find("later").addEventListener("click", () => move(1));
  find("steps").addEventListener("submit", (event) => event.preventDefault());

  // ---- the report ----

  const title = ([kind, name]) =>
    kind === "message" && typeof name === "number" ? held.labels[name - 1] : [kind, String(name)];

  function listChoices() {
    const choices = {
      kind: new Set(step.rows.map((row) => row[0])),
      decision: new Set(step.rows.map((row) => row[2])),
      rule: new Set(step.whys.map((why) => why[0]).filter(Boolean)),
    };
    for (const [id, names] of Object.entries(choices)) {
      const select = find(id), was = select.value;
      const options = [...names].sort().map((name) => new Option(name, name));
      select.replaceChildren(new Option("all", ""), ...options);
      if (names.has(was)) select.value = was;
    }
  }

  function line(row) {
    const [who, said] = title(row);
    const [rule, reason] = step.whys[row[5]];
    const name = typeof row[1] === "number" ? `${number(row[1])} ${who}` : who;
    return make("tr", "",
      make("td", "", make("span", "who", name), said),
      make("td", "", make("span", `tag ${row[2]}`, row[2])),
      make("td", "num", row[3]), make("td", "num", row[4]),
      make("td", "", reason, rule && reason ? " " : "", rule && make("code", "", rule)));
  }

  function report() {
    const kind = find("kind").value, decision = find("decision").value;
    const rule = find("rule").value, text = find("text").value.toLowerCase();
    const rows = step.rows.filter((row) =>
      (!kind || row[0] === kind) && (!decision || row[2] === decision)
      && (!rule || step.whys[row[5]][0] === rule)
      && (!text || [...title(row), ...step.whys[row[5]]].join(" ").toLowerCase().includes(text)));
    const messages = rows.filter((row) => row[0] === "message");
    const sum = (at) => number(messages.reduce((all, row) => all + row[at], 0));
    find("found").textContent = `${number(rows.length)} of ${number(step.rows.length)} pieces; `
      + `of the ${sum(3)} tokens of messages among them ${sum(4)} are sent.`;
    find("report").tBodies[0].replaceChildren(...rows.slice(0, shown).map(line));
    find("more").hidden = rows.length <= shown;
  }

  find("filters").addEventListener("input", () => { shown = PAGE; report(); });
  find("filters").addEventListener("submit", (event) => event.preventDefault());
  find("more").addEventListener("click", () => { shown += 1000; report(); });

  // ---- the payload ----

  function pooled(provider) {
    const { pool, payloads } = held.file;
    const value = (one) => Array.isArray(one) ? one.map((at) => pool[at]) : pool[one];
    const entries = Object.entries(payloads[step.number][provider]);
    return Object.fromEntries(entries.map(([key, one]) => [key, value(one)]));
  }

  find("payload").addEventListener("submit", async (event) => {
    event.preventDefault();
    const provider = find("provider").value;
    const asked = { id: held.ask, at: step.number, provider };
    const payload = await attempt("payload", async () =>
      known ? pooled(provider) : JSON.parse(await ask("/session/payload", asked)));
    if (payload === undefined) return;
    find("wire").textContent = JSON.stringify(payload, null, 2);
    find("wire").hidden = find("copy").disabled = false;
    find("copied").textContent = "";
  });

  find("copy").addEventListener("click", async () => {
    const text = find("wire").textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // a page from a file, or over plain HTTP, may not write there by itself
      getSelection().selectAllChildren(find("wire"));
      document.execCommand("copy");
    }
    find("copied").textContent = `Copied ${number(text.length)} characters.`;
  });

  // ---- two steps compared ----

  const sentOf = (one) => one.rows.filter((row) => row[4] && row[0] === "message");
  const nameOf = (row) => `${row[0]} ${row[1]}`;

  /** Say what a later step sends that an earlier one did not, and what it does not any more. */
  function compare(earlier, later, names) {
    const before = new Map(earlier.rows.map((row) => [nameOf(row), row]));
    const after = new Map(later.rows.map((row) => [nameOf(row), row]));
    const added = later.rows.filter((row) => row[4] && !before.get(nameOf(row))?.[4]);
    const cut = earlier.rows.filter((row) => row[4] && !after.get(nameOf(row))?.[4]);
    const changed = later.rows.filter((row) => {
      const was = before.get(nameOf(row));
      return was && was[4] && row[4] && (was[4] !== row[4] || was[2] !== row[2]);
    });
    const list = (what, rows, tokens) => make("div", "",
      make("h3", "", `${what}: ${number(rows.length)} pieces, `
        + `${number(rows.reduce((all, row) => all + tokens(row), 0))} tokens`),
      make("ol", "", ...rows.slice(0, 12).map((row) => make("li", "",
        make("span", "", title(row).join(": ")), make("b", "num", tokens(row))))),
      rows.length > 12 ? make("p", "quiet", `and ${number(rows.length - 12)} more`) : "");
    const change = (row) => row[4] - before.get(nameOf(row))[4];
    const spent = (one) => `sends ${number(one.used)} of ${number(one.budget)} tokens for `
      + (one.usd === null ? "an unknown price" : `$${one.usd.toFixed(4)}`);
    return [
      make("p", "", make("b", "", cacheOf(earlier, later, names))),
      make("p", "", `${names[0][0].toUpperCase()}${names[0].slice(1)} ${spent(earlier)}; `
        + `${names[1]} ${spent(later)}.`),
      make("div", "compared", list("Added", added, (row) => row[4]),
        list("Cut", cut, (row) => row[4]), list("Changed", changed, change)),
    ];
  }

  function cacheOf(earlier, later, [first, second]) {
    const parts = ["provider", "model", "system prompt", "tools"];
    const other = parts.filter((_, at) => earlier.head[at] !== later.head[at]);
    if (other.length) return `Cache not kept: another ${other.join(" and ")}.`;
    const old = sentOf(earlier), fresh = sentOf(later);
    let same = 0, tokens = earlier.fixed;
    while (same < old.length && fresh[same] && nameOf(old[same]) === nameOf(fresh[same])
      && old[same][4] === fresh[same][4]) tokens += old[same++][4];
    if (same === old.length) {
      return `Cache kept: ${second} begins with all that ${first} sent, ${number(tokens)} tokens.`;
    }
    return `Cache kept for the first ${number(tokens)} tokens alone: the two differ from `
      + `“${title(old[same]).join(": ")}” on.`;
  }

  find("compare").addEventListener("submit", async (event) => {
    event.preventDefault();
    const other = await attempt("compare", () => made(Number(find("other").value)));
    if (!other) return;
    const pair = [other, step].sort((one, two) => one.number - two.number);
    const names = pair.map((one) => `step ${number(one.number)}`);
    find("compared").replaceChildren(...compare(...pair, names));
  });

  // ---- what if, and costs ----

  find("if")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const tried = {
      model: find("if-model").value,
      max_context_tokens: find("if-budget").value,
      truncation_strategy: find("if-strategy").value,
    };
    const other = await attempt("if", () => made(step.number, tried));
    if (!other) return;
    const box = make("div", "");
    box.innerHTML = other.html; // as above
    find("tried").replaceChildren(...compare(step, other, ["this step", "the other way"]), box);
  });

  find("price")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const asked = { id: held.ask, max_context_tokens: find("price-budget").value };
    const html = await attempt("price", () => ask("/session/costs", asked));
    if (html) find("costs").innerHTML = html; // as above
  });

  listChoices();
  report();
}

if (held) session();
