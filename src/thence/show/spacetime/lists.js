// What the page says in words: findings, the chosen event, the dependency log, the lanes. All of it real HTML.
//
// Invariant. Whatever is said here is made of text nodes. What the picture shows of the chosen event or finding is said too.

import { KINDS, SEND, RECEIVE, DELIVER, destinationsOf, entriesOf } from "./data.js";
import { pastOf, futureOf, waitsOf } from "./causes.js";
import { isHeld, timeOf } from "./axis.js";
import { logOf } from "./log.js";
import { eventsOf } from "./view.js";

const DEEDS = ["sent", "received", "delivered", "did something of its own", "crashed"];
const SHOWN_AT_FIRST = 12;

/** Make an element: its name, its attributes, and what stands in it. */
export function make(name, attributes = {}, ...parts) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...parts);
  return made;
}

/** An event in a few words. */
export function deed(page, run, event) {
  const message = run.message[event] >= 0 ? ` ${page.messages[run.message[event]]}` : "";
  return `${page.processes[run.lane[event]]} ${DEEDS[run.kind[event]]}${message}`;
}

function some(items, most = SHOWN_AT_FIRST) {
  return items.length <= most ? items.join(", ") : `${items.slice(0, most).join(", ")} and ${items.length - most} more`;
}

function between(run, one, two) {
  const distances = [`${two - one} events of the order`];
  if (run.timed && !Number.isNaN(run.time[two] - run.time[one])) distances.unshift(`${Number((run.time[two] - run.time[one]).toPrecision(4))} s`);
  return distances.join(", ");
}

/** What is known of an event, as pairs of a word and a text. */
export function factsOf(page, run, event) {
  const names = (lanes) => some(lanes.map((lane) => page.processes[lane]));
  const facts = [["kind", KINDS[run.kind[event]]], ["process", page.processes[run.lane[event]]]];
  const add = (word, text) => facts.push([word, text]);
  if (run.message[event] >= 0) add("message", page.messages[run.message[event]]);
  if (page.runs.length > 1) add("run", run.name);
  if (run.label[event] >= 0) add("label", page.labels[run.label[event]]);
  add("position", `row ${run.index[event]} of its process, ${event + 1} in the order`);
  if (run.timed && !Number.isNaN(run.time[event])) add("time", timeOf(run.time[event]));
  if (run.kind[event] === SEND) add("destinations", names(destinationsOf(run, event)) || "no destination");
  if (run.aside[event]) add("set aside", "the definition cannot use this row");
  else if (run.kind[event] === RECEIVE) add("causality", "an arrival carries none; its delivery does");
  else {
    const count = (mark) => mark.reduce((sum, each) => sum + each, 0);
    add("causal past", `${count(pastOf(run, event))} events`);
    add("causal future", `${count(futureOf(run, event))} events`);
  }
  for (const [word, text] of waiting(page, run, event)) add(word, text);
  const sizes = ["entries", "facts", "bytes"].filter((name) => run[name]?.[event] >= 0);
  if (sizes.length) add("stamp", sizes.map((name) => `${run[name][event]} ${name}`).join(", "));
  if (run.stamped && run.stamp[event] >= 0) {
    const entries = entriesOf(run, run.stamp[event]);
    const text = entries.map(({ message, lanes }) => `${page.messages[message]} to ${names(lanes) || "no destination"}`);
    add("stamp in the clear", some(text, 40) || "empty");
  }
  if (run.line?.[event] >= 0) add("from", `${page.files[run.file[event]]}:${run.line[event]}`);
  return facts;
}

function waiting(page, run, event) {
  const arrival = run.kind[event] === RECEIVE ? event : run.kind[event] === DELIVER ? run.pair[event] : -1;
  if (arrival < 0) return [];
  const delivery = run.pair[arrival];
  if (delivery >= 0 && !isHeld(run, arrival)) return [["held", "not at all: delivered as it arrived"]];
  const causes = waitsOf(run, arrival).filter((each) => delivery < 0 || (each.delivery >= 0 && each.delivery < delivery));
  const names = causes.map((each) => page.messages[each.message]);
  const how = delivery < 0 ? "never delivered" : `for ${between(run, arrival, delivery)}`;
  return [["held", how], ["waited for", some(names) || "no message that precedes it"]];
}

/** Say what an event is, and lead to the events it is tied to. */
export function showEvent(box, page, run, event, go) {
  const list = make("dl");
  for (const [word, text] of factsOf(page, run, event)) list.append(make("dt", {}, word), make("dd", {}, text));
  const ties = [];
  if (run.cause[event] >= 0) ties.push(run.cause[event]);
  if (run.pair[event] >= 0) ties.push(run.pair[event]);
  ties.push(...(run.ends.get(event) ?? []).filter((end) => run.kind[end] === DELIVER));
  const items = ties.slice(0, SHOWN_AT_FIRST).map((tied) => make("li", {}, make("button", { type: "button", onclick: () => go(run.number, tied) }, deed(page, run, tied))));
  box.replaceChildren(list, ...(items.length ? [make("p", {}, "Tied to it:"), make("ul", { class: "plain" }, ...items)] : []));
}

/** Say the dependency log of a member at a place of the order. */
export function showLog(box, page, run, lane, label, until) {
  const entries = logOf(run, lane, label, until);
  if (entries === null) return box.replaceChildren(make("p", {}, "No stamps were recorded. thence simulate --stamps records them."));
  const items = entries.map(({ message, lanes }) =>
    make("li", {}, make("b", {}, page.messages[message]), ` may still be on its way to ${lanes.map((each) => page.processes[each]).join(", ") || "no destination"}`));
  const title = `${page.processes[lane]} after event ${until + 1}: ${entries.length ? `${entries.length} entries` : "empty"}`;
  box.replaceChildren(make("p", {}, title), make("ul", { class: "plain log" }, ...items.slice(0, 200)));
}

/** The list of lanes with what can be done to them. */
export function showLanes(box, page, view, changed) {
  const act = (what) => () => (what(), changed());
  const button = (text, title, what) => make("button", { type: "button", title, "aria-label": title, onclick: act(what) }, text);
  const items = view.lanes.rows.map((lanes) => {
    const name = view.lanes.title(lanes), lane = lanes[0];
    const shown = make("input", { type: "checkbox", onchange: act(() => lanes.forEach((each) => view.lanes.show(each, shown.checked))) });
    shown.checked = !view.lanes.hidden.has(lane);
    const pick = make("input", { type: "checkbox", class: "pick", "data-lane": lane, "aria-label": `pick ${name} for a group` });
    const apart = lanes.length > 1 ? [button("apart", `take the group of ${name} apart`, () => view.lanes.ungroup(lane))] : [];
    return make("li", {}, make("label", {}, shown, " ", make("span", { class: "name" }, name)), pick,
      button("↑", `move ${name} up`, () => view.lanes.move(lane, -1)), button("↓", `move ${name} down`, () => view.lanes.move(lane, 1)), ...apart);
  });
  box.replaceChildren(...items);
}

/** A list of events to go to. */
export function showResults(box, page, found, go, most = 100) {
  const items = found.slice(0, most).map(({ run, event }) =>
    make("li", {}, make("button", { type: "button", onclick: () => go(run, event) }, deed(page, page.runs[run], event))));
  box.replaceChildren(...items);
}

/** A finding in a few words: of a violation the two messages and the process, else its sentence. */
function inBrief(found) {
  if (!found.short) return [found.text];
  const [early, missing, process] = found.short.map((name) => make("b", {}, name));
  return [early, " before ", missing, " at ", process];
}

/** The proof of a finding: its sentence and its events, causes first; the one looked at is marked. */
export function showProof(box, page, found, number, chosen, go) {
  const run = page.runs[found.run];
  const events = eventsOf(found).sort((one, two) => one - two);
  const items = events.map((event) => make("li", {}, make("button", {
    type: "button", "aria-current": chosen?.run === found.run && chosen.event === event ? "true" : null, onclick: () => go(found.run, event),
  }, deed(page, run, event))));
  const title = found.what === "violation" ? `Violation ${found.number ?? number + 1}` : found.what;
  const list = items.length ? [make("p", {}, "Its events, causes first:"), make("ol", {}, ...items)] : [];
  box.replaceChildren(make("h2", {}, title), make("p", {}, found.text), ...list);
}

/** The items of the list of findings from a number on. */
export function findingItems(page, from, to) {
  return page.findings.slice(from, to).map((found, place) =>
    make("li", { class: found.what }, make("button", { type: "button", "data-finding": from + place },
      make("span", { class: "number" }, String(found.number ?? from + place + 1)), " ",
      ...(page.runs.length > 1 ? [make("i", {}, page.runs[found.run].name), " "] : []), ...inBrief(found))));
}
