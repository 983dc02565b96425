// What happened before what, as the definition has it (thence.core.model.order).
//
// Invariant. Within one label, rows of one process follow each other by index, a delivery follows the send of its message, and
// the relation is transitive. A crash belongs to every label. Arrivals and rows set aside carry no causality.

import { SEND, RECEIVE, DELIVER, CRASH, destinationsOf } from "./data.js";

/** For each label the rows of each lane that carry causality, by index. Built once for a run. */
export function chainsOf(run) {
  if (run.chains) return run.chains;
  const labels = new Set();
  for (let i = 0; i < run.count; i++) if (carries(run, i) && run.kind[i] !== CRASH) labels.add(run.label[i]);
  if (!labels.size) labels.add(-1);
  run.chains = new Map([...labels].map((label) => [label, run.hasLane.length ? emptyLanes(run) : []]));
  for (let i = 0; i < run.count; i++) {
    if (!carries(run, i)) continue;
    for (const label of run.kind[i] === CRASH ? labels : [run.label[i]]) run.chains.get(label)[run.lane[i]].push(i);
  }
  const byIndex = (one, two) => run.index[one] - run.index[two];
  for (const lanes of run.chains.values()) for (const rows of lanes) rows.sort(byIndex);
  return run.chains;
}

function emptyLanes(run) {
  return Array.from(run.hasLane, () => []);
}

function carries(run, event) {
  return run.kind[event] !== RECEIVE && !run.aside[event];
}

function labelsOf(run, event) {
  return run.kind[event] === CRASH ? [...chainsOf(run).keys()] : [run.label[event]];
}

/** The position of an event among the rows of its lane. */
function positionIn(run, rows, event) {
  let low = 0, high = rows.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.index[rows[middle]] < run.index[event]) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Mark every event that happened before this one. */
export function pastOf(run, event) {
  const mark = new Uint8Array(run.count);
  if (!carries(run, event)) return mark;
  for (const label of labelsOf(run, event)) {
    const lanes = chainsOf(run).get(label);
    const reached = lanes.map(() => -1);
    const waiting = [event];
    while (waiting.length) {
      const end = waiting.pop();
      const rows = lanes[run.lane[end]];
      const last = positionIn(run, rows, end);
      for (let at = reached[run.lane[end]] + 1; at <= last; at++) {
        mark[rows[at]] = 1;
        if (run.kind[rows[at]] === DELIVER) waiting.push(run.cause[rows[at]]);
      }
      reached[run.lane[end]] = Math.max(reached[run.lane[end]], last);
    }
  }
  mark[event] = 0;
  return mark;
}

/** Mark every event that this one happened before. */
export function futureOf(run, event) {
  const mark = new Uint8Array(run.count);
  if (!carries(run, event)) return mark;
  for (const label of labelsOf(run, event)) {
    const lanes = chainsOf(run).get(label);
    const reached = lanes.map((rows) => rows.length);
    const waiting = [event];
    while (waiting.length) {
      const start = waiting.pop();
      const rows = lanes[run.lane[start]];
      const first = positionIn(run, rows, start);
      for (let at = first; at < reached[run.lane[start]]; at++) {
        mark[rows[at]] = 1;
        if (run.kind[rows[at]] !== SEND) continue;
        for (const end of run.ends.get(rows[at]) ?? []) if (run.kind[end] === DELIVER) waiting.push(end);
      }
      reached[run.lane[start]] = Math.min(reached[run.lane[start]], first);
    }
  }
  mark[event] = 0;
  return mark;
}

/**
 * What a copy waited for between its arrival and its delivery: the messages that causally precede it, are addressed to
 * its process too, and were not delivered there when it arrived. Each with its delivery, -1 if there was none.
 */
export function waitsOf(run, arrival) {
  const send = run.cause[arrival];
  if (send < 0) return [];
  const lane = run.lane[arrival];
  const delivered = new Map();
  for (const row of chainsOf(run).get(run.label[send])?.[lane] ?? []) {
    if (run.kind[row] === DELIVER && !delivered.has(run.message[row])) delivered.set(run.message[row], row);
  }
  const past = pastOf(run, send);
  const found = [];
  for (const [message, cause] of run.sendOf) {
    if (!past[cause] || !destinationsOf(run, cause).includes(lane)) continue;
    const delivery = delivered.get(message) ?? -1;
    if (delivery < 0 || run.index[delivery] > run.index[arrival]) found.push({ message, send: cause, delivery });
  }
  return found.sort((one, two) => (one.delivery < 0) - (two.delivery < 0) || one.delivery - two.delivery);
}
