// What is being looked at: one object, and its form in the address.
//
// Invariant. The picture is a function of the page's data and of this. The fragment of the address says all of it that another
// reader needs to see the same spot; a fragment that does not fit the page is passed over.

import { Axis } from "./axis.js";
import { Lanes } from "./lanes.js";
import { pastOf, futureOf } from "./causes.js";

export const PAST = 1, FUTURE = 2, CHOSEN = 4, PATH = 8;
const NARROWEST = { order: 4, time: 1e-6 };

export class View {
  constructor(page) {
    this.page = page;
    this.lanes = new Lanes(page.processes);
    this.axes = new Map();
    this.by = "order";
    this.runs = this.firstRuns();
    this.cursor = null;
    this.chosen = null;
    this.finding = -1;
    this.question = "";
    this.lit = null;
    this.fit();
  }

  /** The runs shown at first: all if they are few, else the first with a finding; hops only if there is nothing else. */
  firstRuns() {
    const runs = this.page.runs.filter((run) => !run.name.endsWith("/hops"));
    const those = runs.length ? runs : this.page.runs;
    if (those.length <= 2) return those.map((run) => run.number);
    return [(those.find((run) => run.findings.length) ?? those[0]).number];
  }

  shown() {
    return this.runs.map((number) => this.page.runs[number]);
  }

  get timed() {
    return this.shown().every((run) => run.timed) && this.runs.length > 0;
  }

  axis(run) {
    const key = `${run.number} ${this.by}`;
    if (!this.axes.has(key)) this.axes.set(key, new Axis(run, this.by));
    return this.axes.get(key);
  }

  bounds() {
    const axes = this.shown().map((run) => this.axis(run));
    const left = Math.min(...axes.map((axis) => axis.left)), right = Math.max(...axes.map((axis) => axis.right));
    const margin = Math.max((right - left) * 0.02, this.by === "order" ? 0.7 : 1e-6);
    return axes.length ? [left - margin, right + margin] : [0, 1];
  }

  fit() {
    [this.from, this.to] = this.bounds();
  }

  /** Show a window, kept within the run. */
  window(from, to) {
    const [left, right] = this.bounds();
    const least = Math.min(NARROWEST[this.by] ?? 4, right - left);
    const width = Math.min(Math.max(to - from, least), right - left);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - width / 2, left), right - width);
    this.to = this.from + width;
  }

  pan(by) {
    this.window(this.from + by, this.to + by);
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.window(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  /** Bring places into the window, with room around them; `tight` also narrows a window that is far too wide. */
  reveal(places, tight = false) {
    if (!places.length) return;
    const low = Math.min(...places), high = Math.max(...places);
    const room = Math.max((high - low) * 0.35, this.by === "order" ? 6 : (this.to - this.from) * 0.02);
    const inside = low >= this.from && high <= this.to;
    if (tight && (!inside || this.to - this.from > 2 * (high - low + 2 * room))) this.window(low - room, high + room);
    else if (!inside) this.window((low + high - this.to + this.from) / 2, (low + high + this.to - this.from) / 2);
  }

  /** Change between order and time; the same events stay in the window. */
  arrange(by) {
    if (by === this.by || (by === "time" && !this.timed)) return;
    const run = this.shown()[0];
    const inside = run ? this.axis(run).within(this.from, this.to) : [];
    const at = this.cursor === null || !run ? null : this.axis(run).within(-Infinity, this.cursor).at(-1);
    this.by = by;
    this.fit();
    if (!run) return;
    const axis = this.axis(run);
    let low = Infinity, high = -Infinity;
    for (const event of inside) [low, high] = [Math.min(low, axis.place[event]), Math.max(high, axis.place[event])];
    if (low < high && inside.length < run.count) this.window(low, high);
    if (this.cursor !== null) this.cursor = at === undefined ? axis.left : axis.place[at];
  }

  /** Choose an event: its causal past and future light up. */
  choose(run, event) {
    this.chosen = { run, event };
    const found = this.page.findings[this.finding];
    if (found && !(found.run === run && eventsOf(found).includes(event))) this.finding = -1; // a proof stays while its events are looked at
    const of = this.page.runs[run];
    const past = pastOf(of, event), future = futureOf(of, event);
    const lit = new Uint8Array(of.count);
    for (let i = 0; i < of.count; i++) lit[i] = (past[i] && PAST) | (future[i] && FUTURE);
    lit[event] |= CHOSEN;
    if (of.pair[event] >= 0) lit[of.pair[event]] |= PATH;
    if (of.cause[event] >= 0) lit[of.cause[event]] |= PAST;
    this.lit = { run, mark: lit };
  }

  /** Choose a finding: the events it speaks of light up, and come into the window. */
  chooseFinding(number) {
    const found = this.page.findings[number];
    if (!found) return;
    if (!this.runs.includes(found.run)) this.runs = [...this.runs, found.run].sort((one, two) => one - two);
    this.chosen = null;
    this.finding = number;
    const run = this.page.runs[found.run];
    const mark = new Uint8Array(run.count);
    const events = eventsOf(found);
    for (const event of events) mark[event] |= PATH;
    if (found.early >= 0) mark[found.early] |= CHOSEN;
    this.lit = { run: found.run, mark };
    const axis = this.axis(run);
    for (const event of events) this.lanes.show(run.lane[event], true);
    if (found.lane >= 0) this.lanes.show(found.lane, true);
    this.reveal(events.map((event) => axis.place[event]), true);
  }

  clear() {
    this.chosen = null;
    this.finding = -1;
    this.lit = null;
    this.cursor = null;
  }

  /** The fragment that shows another reader the same. */
  text() {
    const fragment = new URLSearchParams();
    const [left, right] = this.bounds();
    if (this.by !== "order") fragment.set("by", this.by);
    if (this.from > left || this.to < right) fragment.set("window", `${round(this.from)}~${round(this.to)}`);
    if (this.runs.join() !== this.firstRuns().join()) fragment.set("runs", this.runs.join("."));
    if (this.finding >= 0) fragment.set("finding", this.finding + 1);
    if (this.chosen) fragment.set("event", `${this.chosen.run}.${this.chosen.event}`);
    if (this.cursor !== null) fragment.set("cursor", round(this.cursor));
    if (this.question) fragment.set("search", this.question);
    if (this.lanes.text()) fragment.set("lanes", this.lanes.text());
    return fragment.toString();
  }

  take(text) {
    const fragment = new URLSearchParams(text);
    this.clear();
    const runs = (fragment.get("runs") ?? "").split(".").filter(Boolean).map(Number);
    this.runs = runs.length && runs.every((run) => run in this.page.runs) ? runs : this.firstRuns();
    this.by = fragment.get("by") === "time" && this.timed ? "time" : "order";
    this.lanes.take(fragment.get("lanes"));
    this.question = fragment.get("search") ?? "";
    this.fit();
    const finding = Number(fragment.get("finding") ?? 0) - 1;
    if (finding >= 0 && finding < this.page.findings.length) this.chooseFinding(finding);
    const [run, event] = (fragment.get("event") ?? "").split(".").map(Number);
    if (event < this.page.runs[run]?.count && event >= 0) this.choose(run, event);
    const [from, to] = (fragment.get("window") ?? "").split("~").map(Number);
    if (from < to) this.window(from, to);
    const cursor = Number(fragment.get("cursor") ?? NaN);
    if (!Number.isNaN(cursor)) this.cursor = cursor;
  }
}

/** All events that a finding speaks of, each once. */
export function eventsOf(found) {
  const named = [found.missingSend, ...found.path, found.earlySend, found.early, found.late, ...found.rows];
  return [...new Set(named.filter((event) => event >= 0))];
}

function round(value) {
  return Number(value.toFixed(6)); // seconds since 1970 have ten places before the point
}
