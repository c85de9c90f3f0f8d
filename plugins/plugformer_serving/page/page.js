// The page of `plugformer serve`: a form from the task's columns, and answers. Everything that comes from the
// server is text: it becomes text nodes and attributes, never markup.
"use strict";

const byId = (id) => document.getElementById(id);

/** Returns an element with properties and children; strings become text. */
function make(name, properties, ...children) {
  const element = document.createElement(name);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}

/** Returns an element of SVG with attributes and a text. */
function draw(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Returns what the server answers; its reason is the message of an error. */
async function request(path, body) {
  const options = body === undefined
    ? {}
    : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, options);
  const value = await response.json();
  if (!response.ok) throw new Error(value.error || response.statusText);
  return value;
}

const percent = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);
let model;

function fieldOf(column) {
  const area = make("textarea", { id: `column-${column.name}`, name: column.name, spellcheck: false });
  const hint = { array: "one on each line", number: "a number", object: "JSON" }[column.type];
  const notes = [hint, column.required ? "" : "optional"].filter(Boolean).join(", ");
  return make("label", { className: "column" }, column.name, make("small", {}, notes && ` (${notes})`), area);
}

/** Returns the value in a field; undefined if an optional one is empty. */
function valueOf(column) {
  const text = byId(`column-${column.name}`).value;
  if (!column.required && text.trim() === "") return undefined;
  if (column.type === "array") {
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    return lines.length > 1 ? lines : text.trim(); // the words of one line are for the server to split
  }
  if (column.type === "object") {
    try { return JSON.parse(text); } catch { throw new Error(`${column.name} is no JSON`); }
  }
  return text;
}

function questionOf(columns) {
  const question = {};
  for (const column of columns) {
    const value = valueOf(column);
    if (value !== undefined) question[column.name] = value;
  }
  return question;
}

function textOf(output) {
  if (typeof output === "string") return output;
  if (typeof output === "number") return String(Number(output.toPrecision(6)));
  if (Array.isArray(output)) return output.map(textOf).join(" ");
  return Object.entries(output).map(([name, part]) => `${name}: ${textOf(part)}`).join(", ");
}

/** Returns a table of names with bars for shares from 0 to 1, the largest first. */
function bars(pairs) {
  const body = make("tbody", {});
  for (const [name, share] of [...pairs].sort((first, second) => second[1] - first[1])) {
    const bar = make("div", { className: "bar" });
    bar.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    body.append(make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, bar),
      make("td", { className: "number" }, percent(share))));
  }
  return make("table", { className: "bars" }, body);
}

/** Returns words with their tags in colors; equal tags have equal colors. */
function taggedWords(words, tags, probabilities) {
  const kinds = [...new Set(tags.filter((tag) => tag !== "O").map((tag) => tag.replace(/^[A-Z]-/, "")))].sort();
  const box = make("p", { className: "words" });
  words.forEach((word, place) => {
    const tag = tags[place], kind = kinds.indexOf(tag.replace(/^[A-Z]-/, ""));
    const span = make("span", { className: kind < 0 ? "word" : `word tagged tag-${kind % 8}` }, word,
      make("small", {}, tag === "O" ? "\u00a0" : tag));
    if (probabilities) span.title = `${tag} ${percent(probabilities[place][tag])}`;
    box.append(span, " ");
  });
  return box;
}

function show(record) {
  const answer = byId("answer");
  if (record.error !== undefined) throw new Error(record.error);
  const inputs = Object.values(record.input);
  const words = Array.isArray(inputs[0]) ? inputs[0] : String(inputs[0]).split(/\s+/).filter(Boolean);
  const tags = record.output;
  const tagged = Array.isArray(tags) && tags.length === words.length && tags.every((tag) => typeof tag === "string")
    && (!record.probabilities || Array.isArray(record.probabilities));
  answer.append(tagged && inputs.length === 1
    ? taggedWords(words, tags, record.probabilities)
    : make("p", { className: "output" }, textOf(record.output) || "(empty)"));
  const notes = [];
  if (typeof record.score === "number") notes.push(`probability ${percent(Math.min(1, Math.exp(record.score)))}`);
  if (record.truncated) notes.push("the text was too long: only its beginning was read");
  if (record.unknown) notes.push(`unknown: ${record.unknown.join(", ")}`);
  answer.append(make("p", { className: "quiet" }, notes.join("; ")));
  if (record.probabilities && !Array.isArray(record.probabilities)) {
    answer.append(bars(Object.entries(record.probabilities)));
  } else if (record.alternatives) {
    const list = make("ol", { className: "alternatives", start: 2 });
    for (const other of record.alternatives) {
      const chance = typeof other.score === "number" ? ` (${percent(Math.exp(other.score))})` : "";
      list.append(make("li", {}, textOf(other.output), make("span", { className: "quiet" }, chance)));
    }
    answer.append(list);
  }
  if (model.attention) {
    const button = make("button", { type: "button", className: "plain", id: "see" }, "Show attention");
    button.addEventListener("click", () => run(button, () => attend(record.input)));
    answer.append(button);
  }
}

async function ask() {
  byId("answer").replaceChildren();
  byId("attention").hidden = true;
  if (model.finds) {
    const source = byId(`column-${model.columns[0].name}`).value;
    const sentences = byId("column-candidates").value.split("\n").filter((line) => line.trim() !== "");
    const scores = await request("./", { inputs: { source_sentence: source, sentences } });
    byId("answer").append(bars(sentences.map((sentence, place) => [sentence, scores[place]])));
    return;
  }
  const body = { inputs: questionOf(model.columns), probabilities: model.probabilities };
  if (model.alternatives) body.n_best = Number(byId("n_best").value);
  const [record] = await request("predict", body);
  show(record);
}

async function attend(question) {
  const { maps } = await request("attention", { inputs: question });
  byId("attention").hidden = false;
  if (maps.length === 0) {
    byId("weights").replaceChildren("No attention of this model has weights.");
    return;
  }
  byId("map").replaceChildren(...maps.map((map, place) => make("option", { value: place }, map.name)));
  const chooseHead = () => plot(maps[byId("map").value], Number(byId("head").value));
  const chooseMap = () => {
    const heads = maps[byId("map").value].weights;
    byId("head").replaceChildren(...heads.map((_, place) => make("option", { value: place }, String(place))));
    chooseHead();
  };
  byId("map").value = String(Math.max(0, maps.findIndex((map) => map.name.includes("cross"))));
  byId("map").onchange = chooseMap;
  byId("head").onchange = chooseHead;
  chooseMap();
}

const shortened = (token) => {
  const shown = token.replace(/[ \n\t]/g, "\u2423");
  return shown.length > 12 ? `${shown.slice(0, 11)}\u2026` : shown;
};

/** Draws the weights of one head: rows read columns. */
function plot(map, head) {
  const cell = 18, left = 96, top = 90, weights = map.weights[head];
  const width = left + map.key.length * cell + 12, height = top + map.query.length * cell + 12;
  const picture = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${map.name}, head ${head}` });
  map.key.forEach((token, column) => {
    const x = left + (column + 0.7) * cell, y = top - 6;
    picture.append(draw("text", { x, y, transform: `rotate(-60 ${x} ${y})` }, shortened(token)));
  });
  map.query.forEach((token, row) => {
    const y = top + (row + 0.7) * cell;
    picture.append(draw("text", { x: left - 6, y, "text-anchor": "end" }, shortened(token)));
    weights[row].forEach((weight, column) => {
      const box = draw("rect", { x: left + column * cell, y: top + row * cell, width: cell - 1, height: cell - 1,
        "fill-opacity": 0.05 + 0.95 * weight });
      box.append(draw("title", {}, `${token} reads ${map.key[column]}: ${weight}`));
      picture.append(box);
    });
  });
  byId("weights").replaceChildren(picture);
}

/** Does something with a button's request, and says how it went. */
async function run(button, action) {
  button.disabled = true;
  byId("error").hidden = true;
  byId("status").textContent = "Working\u2026";
  const began = performance.now();
  try {
    await action();
    byId("status").textContent = `${Math.round(performance.now() - began)} ms`;
  } catch (error) {
    byId("status").textContent = "";
    byId("error").textContent = error.message;
    byId("error").hidden = false;
  } finally {
    button.disabled = false;
  }
}

async function start() {
  model = await request("about");
  document.title = model.description || model.run;
  byId("description").textContent = model.description || model.run;
  byId("facts").textContent = [model.run, ...model.facts].join(" \u00b7 ");
  const columns = [...model.columns];
  if (model.finds) columns.push({ name: "candidates", type: "array", required: true });
  byId("columns").append(...columns.map(fieldOf));
  byId("outputs").hidden = !model.alternatives;
  byId("n_best").max = String(model.classes.length || model.most_outputs);
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    run(byId("ask"), ask);
  });
  byId("form").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
  });
  document.querySelector("textarea").focus();
}

start().catch((error) => {
  byId("error").textContent = error.message;
  byId("error").hidden = false;
});
