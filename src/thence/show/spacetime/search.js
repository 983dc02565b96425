// Events by what is typed: words that all have to fit.
//
// Invariant. `message:x`, `process:x` and `kind:x` ask for exactly that; a kind by itself asks for that kind; any other word is
// looked for in the names of messages and processes. Capitals do not matter.

import { KINDS } from "./data.js";

/** A test for events of a run; null for an empty question. */
export function matcher(page, run, question) {
  const tests = question.trim().split(/\s+/).filter(Boolean).map((word) => wordTest(page, run, word.toLowerCase()));
  return tests.length ? (event) => tests.every((test) => test(event)) : null;
}

function wordTest(page, run, word) {
  const [, field, value] = /^(message|process|kind):(.+)$/.exec(word) ?? [];
  if (field === "kind" || KINDS.includes(word)) {
    const kind = KINDS.indexOf(value ?? word);
    return (event) => run.kind[event] === kind;
  }
  const fits = (names, test) => new Set(names.flatMap((name, number) => (test(name.toLowerCase()) ? [number] : [])));
  const exactly = (name) => name === value;
  if (field === "message") {
    const messages = fits(page.messages, exactly);
    return (event) => messages.has(run.message[event]);
  }
  if (field === "process") {
    const lanes = fits(page.processes, exactly);
    return (event) => lanes.has(run.lane[event]);
  }
  const messages = fits(page.messages, (name) => name.includes(word));
  const lanes = fits(page.processes, (name) => name.includes(word));
  return (event) => messages.has(run.message[event]) || lanes.has(run.lane[event]);
}

/** The events that fit, run by run, in order. */
export function search(page, question) {
  const found = [];
  for (const run of page.runs) {
    const test = matcher(page, run, question);
    if (test) for (let event = 0; event < run.count; event++) if (test(event)) found.push({ run: run.number, event });
  }
  return found;
}
