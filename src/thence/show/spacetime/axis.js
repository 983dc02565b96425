// Where an event stands from left to right: in an order in which causes come first, or at its recorded time.
//
// Invariant. In the order, event i stands at i. In time it stands at its time; one without a time stands where the event before
// it in the order does. `sorted` holds the events of a run from left to right.

import { Spans } from "./spans.js";
import { DELIVER, RECEIVE } from "./data.js";

export class Axis {
  /** `by` is "order" or "time". */
  constructor(run, by) {
    this.run = run;
    this.place = by === "time" ? times(run) : Float64Array.from({ length: run.count }, (_, i) => i);
    this.sorted = Int32Array.from({ length: run.count }, (_, i) => i);
    if (by === "time") this.sorted.sort((one, two) => this.place[one] - this.place[two] || one - two);
    this.left = run.count ? this.place[this.sorted[0]] : 0;
    this.right = run.count ? this.place[this.sorted[run.count - 1]] : 1;
    this.arrows = this.copies();
    this.holds = this.waiting();
  }

  /** Each copy as an arrow from its send to its arrival, or to its delivery if no arrival was recorded. */
  copies() {
    const { run, place } = this;
    const ends = [];
    for (let i = 0; i < run.count; i++) {
      if (run.cause[i] >= 0 && !(run.kind[i] === DELIVER && run.pair[i] >= 0)) ends.push(i);
    }
    const end = Int32Array.from(ends);
    const spans = new Spans(Float64Array.from(ends, (i) => place[run.cause[i]]), Float64Array.from(ends, (i) => place[i]));
    return { end, spans };
  }

  /** Each hold as a span from the arrival of a copy to its delivery, if anything happened at its process between them. */
  waiting() {
    const { run, place } = this;
    const held = [];
    for (let i = 0; i < run.count; i++) if (isHeld(run, i)) held.push(i);
    const arrival = Int32Array.from(held);
    const spans = new Spans(
      Float64Array.from(held, (i) => place[i]),
      Float64Array.from(held, (i) => place[run.pair[i]]),
    );
    return { arrival, spans };
  }

  /** The position in `sorted` of the first event at or right of a place. */
  first(place) {
    let low = 0, high = this.sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.place[this.sorted[middle]] < place) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The events within a window. */
  within(from, to) {
    let end = this.first(to);
    while (end < this.sorted.length && this.place[this.sorted[end]] <= to) end++;
    return this.sorted.subarray(this.first(from), end);
  }
}

/** Tell whether an arrival was held: something happened at its process before it was delivered. */
export function isHeld(run, arrival) {
  return run.kind[arrival] === RECEIVE && run.pair[arrival] >= 0 && run.index[run.pair[arrival]] - run.index[arrival] > 1;
}

function times(run) {
  const place = new Float64Array(run.count);
  let last = run.time.find((time) => !Number.isNaN(time)) ?? 0;
  for (let i = 0; i < run.count; i++) place[i] = last = Number.isNaN(run.time[i]) ? last : run.time[i];
  return place;
}

/** Tell whether a time counts seconds since 1970: those of a simulation are small, and more are no time of ours. */
function isMoment(seconds) {
  return seconds >= 1e8 && seconds < 1e11;
}

/** A place of the time axis in words; `step` says how exactly. A moment is shown by its time of day, in UTC. */
export function timeAt(seconds, step) {
  const digits = Math.min(9, Math.max(0, -Math.floor(Math.log10(step))));
  const text = seconds.toFixed(digits);
  if (!isMoment(seconds)) return `${Number(text)} s`;
  const [whole, fraction] = text.split(".");
  return `${new Date(whole * 1000).toISOString().slice(11, 19)}${fraction ? `.${fraction}` : ""}Z`;
}

/** A recorded time in words, with its day where it has one. */
export function timeOf(seconds) {
  return isMoment(seconds) ? `${seconds} s, ${new Date(seconds * 1000).toISOString()}` : `${seconds} s`;
}

export function tick(least, by) {
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= least) ?? 10 * power;
  return by === "order" ? Math.max(1, step) : step;
}
