// The data of the page, read once.
//
// Invariant. Names are text and stay text: they reach the page through textContent and fillText, never as markup. A column is
// a typed array; event i of a run is entry i of each of its columns; -1 is null, and a time not recorded is NaN.

export const KINDS = ["send", "receive", "deliver", "internal", "crash"];
export const SEND = 0, RECEIVE = 1, DELIVER = 2, INTERNAL = 3, CRASH = 4;

const TYPES = { b: Int8Array, h: Int16Array, i: Int32Array, d: Float64Array };

function column({ type, data }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new TYPES[type](bytes.buffer);
}

/** Read what Python wrote into the element with this id. */
export function readPage(id) {
  const page = JSON.parse(document.getElementById(id).textContent);
  page.runs.forEach((run, number) => openRun(run, number, page));
  page.findings = page.runs.flatMap((run) => run.findings.map((found) => ({ ...found, run: run.number })));
  page.findings.sort((one, two) => (one.what !== "violation") - (two.what !== "violation")); // as an audit numbers them
  return page;
}

function openRun(run, number, page) {
  for (const [name, packed] of Object.entries(run.columns)) run[name] = column(packed);
  delete run.columns;
  run.number = number;
  run.count = run.kind.length;
  run.timed = run.time !== undefined;
  run.stamped = run.stamp !== undefined;
  run.hasLane = new Uint8Array(page.processes.length);
  for (const lane of run.lane) run.hasLane[lane] = 1;
  for (const lane of run.toLane) run.hasLane[lane] = 1;
  run.sendOf = new Map();
  run.ends = new Map();
  for (let i = 0; i < run.count; i++) {
    if (run.kind[i] === SEND && !run.aside[i]) run.sendOf.set(run.message[i], i);
    if (run.cause[i] >= 0) {
      const ends = run.ends.get(run.cause[i]);
      if (ends) ends.push(i);
      else run.ends.set(run.cause[i], [i]);
    }
  }
}

/** The destinations of a send, as lanes. */
export function destinationsOf(run, send) {
  return Array.from(run.toLane.subarray(run.toStart[send], run.toStart[send + 1]));
}

/** The entries of a stamp in the clear: messages with the lanes of their destinations. */
export function entriesOf(run, stamp) {
  const entries = [];
  for (let at = run.stampStart[stamp]; at < run.stampStart[stamp + 1]; at++) {
    const lanes = Array.from(run.factLane.subarray(run.factStart[at], run.factStart[at + 1]));
    entries.push({ message: run.stampMessage[at], lanes });
  }
  return entries;
}
