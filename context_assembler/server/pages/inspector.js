"use strict";
// The pages work without this script; it moves from step to step on the page of a session.

const find = (id) => document.getElementById(id);
const number = (value) => value.toLocaleString("en").replace("-", "−");
const sum = (values) => values.reduce((all, one) => all + one, 0);

/** Return an element with text and children; text is never read as HTML. */
function make(name, className, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children.map((one) => typeof one === "number" ? number(one) : one));
  return element;
}

async function ask(path, asked) {
  const given = Object.entries(asked).filter(([, value]) => value !== "");
  const answer = await fetch(`${path}?${new URLSearchParams(given)}`);
  if (answer.status === 504) return ask(path, asked); // the worker goes on computing it
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer.text();
}

/** Run what a form asks for; say below it why that failed. Only the last of its answers counts. */
const turns = {};
async function attempt(name, work, show) {
  const turn = (turns[name] = (turns[name] || 0) + 1);
  find("problem").hidden = true;
  try {
    const done = await work();
    if (turn === turns[name]) show(done);
  } catch (error) {
    find(name).after(find("problem"));
    find("problem").textContent = error.message;
    find("problem").hidden = false;
  }
}

function session(held) {
  let step = held.step, shown = 200;

  // ---- steps: in a file those that it holds, which the slider counts ----

  async function load(at, tried = {}) {
    if (!held.file) return JSON.parse(await ask("/session/step", { id: held.ask, at, ...tried }));
    const far = (one) => Math.abs(one.number - at);
    return held.file.steps.reduce((best, one) => far(one) < far(best) ? one : best);
  }

  async function made(at, tried) {
    const other = await load(at, tried), problem = other.problem || step.problem;
    if (problem) throw new Error(problem);
    return other;
  }

  function go(wait) {
    const place = Number(find("at").value), at = held.numbers ? held.numbers[place - 1] : place;
    find("which").textContent = number(at);
    clearTimeout(go.waits);
    go.waits = setTimeout(() => attempt("steps", () => load(at), (next) => {
      step = next;
      find("step").innerHTML = step.html; // made by the server, which escapes what it is given
      find("wire").hidden = find("copy").disabled = true;
      const place = new URLSearchParams({ id: held.ask, at });
      if (!held.file) history.replaceState(null, "", `?${place}`);
      report();
    }), wait);
  }

  find("at").addEventListener("input", () => go(80));
  find("earlier").addEventListener("click", () => { find("at").stepDown(); go(0); });
  find("later").addEventListener("click", () => { find("at").stepUp(); go(0); });

  // ---- the report: [kind, event or name, decision, tokens, sent, why] ----

  const title = ([kind, name]) =>
    kind === "message" && typeof name === "number" ? held.labels[name - 1] : [kind, String(name)];

  function line(row) {
    const [who, said] = title(row), [rule, reason] = step.whys[row[5]];
    const name = typeof row[1] === "number" ? `${number(row[1])} ${who}` : who;
    return make("tr", "", make("td", "", make("b", "", name), ` ${said}`),
      make("td", `tag ${row[2]}`, row[2]), make("td", "num", row[3]), make("td", "num", row[4]),
      make("td", "quiet", `${reason} `, make("code", "", rule)));
  }

  function report() {
    const decision = find("decision").value, text = find("text").value.toLowerCase();
    const rows = step.rows.filter((row) => (!decision || row[2] === decision)
      && (!text || [...title(row), ...step.whys[row[5]]].join(" ").toLowerCase().includes(text)));
    const sent = sum(rows.map((row) => row[0] === "message" ? row[4] : 0));
    find("found").textContent = `${number(rows.length)} of ${number(step.rows.length)} pieces, `
      + `${number(sent)} tokens of messages sent.`;
    find("report").tBodies[0].replaceChildren(...rows.slice(0, shown).map(line));
    find("more").hidden = rows.length <= shown;
  }

  find("filters").addEventListener("input", () => { shown = 200; report(); });
  find("more").addEventListener("click", () => { shown += 1000; report(); });

  // ---- the payload ----

  async function payload(provider) {
    const asked = { id: held.ask, at: step.number, provider };
    if (!held.file) return JSON.parse(await ask("/session/payload", asked));
    const { pool, payloads } = held.file;
    const value = (one) => Array.isArray(one) ? one.map((at) => pool[at]) : pool[one];
    const entries = Object.entries(payloads[step.number][provider]);
    return Object.fromEntries(entries.map(([key, one]) => [key, value(one)]));
  }

  find("payload").addEventListener("submit", () =>
    attempt("payload", () => payload(find("provider").value), (done) => {
      find("wire").textContent = JSON.stringify(done, null, 2);
      find("wire").hidden = find("copy").disabled = false;
      find("copied").textContent = "";
    }));

  find("copy").addEventListener("click", () => {
    getSelection().selectAllChildren(find("wire"));
    document.execCommand("copy"); // a page from a file may not use the clipboard's own interface
    find("copied").textContent = `Copied ${number(find("wire").textContent.length)} characters.`;
  });

  // ---- two steps compared ----

  /** Say what a later step sends that an earlier one did not, and what it does not any more. */
  function compare(earlier, later, names) {
    const [before, after] = [earlier, later].map((one) =>
      new Map(one.rows.map((row) => [`${row[0]} ${row[1]}`, row])));
    const changes = { Added: [], Cut: [], Changed: [] };
    for (const [name, row] of new Map([...before, ...after])) {
      const was = before.get(name)?.[4] || 0, is = after.get(name)?.[4] || 0;
      if (was !== is) changes[was ? (is ? "Changed" : "Cut") : "Added"].push([row, is - was]);
    }
    const list = ([what, rows]) => make("div", "", make("h3", "",
      `${what}: ${number(rows.length)} pieces, ${number(sum(rows.map(([, by]) => by)))} tokens`),
    make("ol", "", ...rows.slice(0, 12).map(([row, by]) =>
      make("li", "", `${title(row).join(": ")} `, make("b", "", by)))));
    const spent = (one, at) => make("p", "", `${names[at]} sends ${number(one.used)} of `
      + `${number(one.budget)} tokens for `
      + (one.usd === null ? "an unknown price." : `$${one.usd.toFixed(4)}.`));
    return [make("p", "", make("b", "", cacheOf(earlier, later, names))),
      ...[earlier, later].map(spent),
      make("div", "compared", ...Object.entries(changes).map(list))];
  }

  function cacheOf(earlier, later, names) {
    const parts = ["provider", "model", "system prompt", "tools"];
    const other = parts.filter((_, at) => earlier.head[at] !== later.head[at]);
    if (other.length) return `Cache not kept: another ${other.join(" and ")}.`;
    const [old, fresh] = [earlier, later].map((one) =>
      one.rows.filter((row) => row[0] === "message" && row[4]));
    const differs = (row, at) => row[1] !== fresh[at]?.[1] || row[4] !== fresh[at][4];
    const end = old.findIndex(differs), kept = end < 0 ? old : old.slice(0, end);
    const tokens = number(earlier.fixed + sum(kept.map((row) => row[4])));
    return end < 0
      ? `Cache kept: ${names[1]} begins with all that ${names[0]} sent, ${tokens} tokens.`
      : `Cache kept for the first ${tokens} tokens alone: then ${title(old[end]).join(": ")}.`;
  }

  find("compare").addEventListener("submit", () =>
    attempt("compare", () => made(Number(find("other").value)), (other) => {
      const pair = [other, step].sort((one, two) => one.number - two.number);
      const names = pair.map((one) => `step ${number(one.number)}`);
      find("compared").replaceChildren(...compare(...pair, names));
    }));

  // ---- what if, and costs ----

  find("if")?.addEventListener("submit", () => {
    const tried = {
      model: find("if-model").value,
      max_context_tokens: find("if-budget").value,
      truncation_strategy: find("if-strategy").value,
    };
    attempt("if", () => made(step.number, tried), (other) => {
      const box = make("div", "");
      box.innerHTML = other.html; // as above
      find("tried").replaceChildren(...compare(step, other, ["this step", "the other way"]), box);
    });
  });

  find("price")?.addEventListener("submit", () => {
    const asked = { id: held.ask, max_context_tokens: find("price-budget").value };
    attempt("price", () => ask("/session/costs", asked), (html) => {
      find("costs").innerHTML = html; // as above
    });
  });

  document.addEventListener("submit", (event) => event.preventDefault());
  report();
}

if (find("data")) session(JSON.parse(find("data").textContent));
