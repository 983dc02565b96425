// The picture of one run.
//
// Invariant. Only what touches the window is drawn. If more copies touch it than `MOST_ARROWS`, events are drawn as density
// per lane instead; the chosen event, the path of a finding and the deliveries that came too early are always drawn.
// `thinned` says so. While the window moves, at most `MOVING_ARROWS` arrows are drawn; the rest follow when it rests.
// Arrows are stroked one by one: many lines in one path take a software raster a hundred times as long.

import { RECEIVE, DELIVER, INTERNAL, CRASH } from "./data.js";
import { tick, timeAt } from "./axis.js";
import { PAST, FUTURE, CHOSEN, PATH } from "./view.js";

export const MOST_ARROWS = 2000, MOVING_ARROWS = 1500, MARGIN = 12;
const GLYPHS = 1500, HEADS = 600, LEAST_ROW = 9, FOOT = 20, TOP = 8, BIN = 5;
const LABELLED = 600, LABEL_ROW = 34; // events in the window, and pixels of a lane, that leave room for labels
export const COLOURS = ["--ink", "--soft", "--line", "--back", "--early", "--missing", "--path", "--past", "--future", "--hold",
  "--label0", "--label1", "--label2", "--label3", "--label4", "--label5", "--label6", "--label7"];

/** The colours of the page as they are now, light or dark. */
export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(COLOURS.map((name) => [name.slice(2), style.getPropertyValue(name).trim()]));
}

/** The room at the left of a panel, for the names of its lanes. */
export function gutterOf(width) {
  return Math.min(130, Math.max(56, width * 0.14));
}

export class Panel {
  constructor(canvas, run, view) {
    Object.assign(this, { canvas, run, view, scroll: 0, thinned: 0, drawn: 0 });
    this.context = canvas.getContext("2d", { alpha: false });
  }

  /** Take the size of the element; the picture is drawn in its pixels. */
  measure() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const { clientWidth, clientHeight } = this.canvas;
    this.width = clientWidth;
    this.height = clientHeight;
    if (this.canvas.width !== Math.round(clientWidth * ratio) || this.canvas.height !== Math.round(clientHeight * ratio)) {
      this.canvas.width = Math.round(clientWidth * ratio);
      this.canvas.height = Math.round(clientHeight * ratio);
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.gutter = gutterOf(this.width);
  }

  layout() {
    this.measure();
    const { rows, rowOf } = this.view.lanes.of(this.run);
    this.rows = rows;
    this.rowOf = rowOf;
    const room = this.height - FOOT - TOP;
    this.step = Math.max(LEAST_ROW, room / Math.max(rows.length, 1));
    this.scroll = Math.max(0, Math.min(this.scroll, this.step * rows.length - room));
    this.axis = this.view.axis(this.run);
    this.scale = (this.width - this.gutter - MARGIN) / (this.view.to - this.view.from);
    this.lit = this.view.lit?.run === this.run.number ? this.view.lit.mark : null;
    this.found = this.view.finding >= 0 ? this.view.page.findings[this.view.finding] : null;
    if (this.found?.run !== this.run.number) this.found = null;
  }

  x(event) {
    return this.at(this.axis.place[event]);
  }

  at(place) {
    return this.gutter + (place - this.view.from) * this.scale;
  }

  placeAt(x) {
    return this.view.from + (x - this.gutter) / this.scale;
  }

  y(lane) {
    return TOP + (this.rowOf[lane] + 0.5) * this.step - this.scroll;
  }

  hidden(event) {
    return this.rowOf[this.run.lane[event]] < 0;
  }

  colour(label) {
    return this.theme[`label${label < 0 ? 0 : (label + 1) % 8}`];
  }

  /** How strongly an event is drawn: all of it, or faded because something else is chosen or it is yet to come. */
  strength(event) {
    if (this.view.cursor !== null && this.axis.place[event] > this.view.cursor) return 0.12;
    return this.lit && !this.lit[event] ? 0.16 : 1;
  }

  paint(theme, mostArrows = MOST_ARROWS, moving = false) {
    this.theme = theme;
    this.moving = moving;
    this.layout();
    const { context } = this;
    context.globalAlpha = 1;
    context.fillStyle = theme.back;
    context.fillRect(0, 0, this.width, this.height);
    this.paintLanes();
    const { from, to } = this.view;
    const copies = this.axis.arrows.spans.count(from, to, mostArrows + 1);
    this.events = this.axis.within(from, to);
    this.thinned = copies > mostArrows || this.events.length > 4 * mostArrows ? this.events.length : 0;
    this.drawn = this.flights = this.labels = 0;
    context.save();
    context.beginPath();
    context.rect(this.gutter, 0, this.width - this.gutter, this.height - FOOT + 4);
    context.clip();
    if (this.thinned) this.paintDensity();
    else this.paintAll();
    this.paintEarly();
    this.paintLit();
    this.paintFinding();
    context.restore();
    this.paintCursor();
    this.paintAxis();
    this.paintNames();
  }

  paintLanes() {
    const { context } = this;
    context.fillStyle = this.theme.line;
    for (let row = 0; row < this.rows.length; row++) {
      const y = TOP + (row + 0.5) * this.step - this.scroll;
      if (y > -1 && y < this.height - FOOT) context.fillRect(this.gutter, Math.round(y), this.width - this.gutter, 1);
    }
  }

  paintNames() {
    const { context } = this;
    context.globalAlpha = 1;
    context.fillStyle = this.theme.back;
    context.fillRect(0, 0, this.gutter - 4, this.height);
    context.fillStyle = this.theme.ink;
    context.font = `${Math.min(13, this.step)}px system-ui, sans-serif`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    this.rows.forEach((lanes, row) => {
      const y = TOP + (row + 0.5) * this.step - this.scroll;
      if (y < -6 || y > this.height - FOOT + 4) return;
      context.fillText(shortened(context, this.view.lanes.title(lanes), this.gutter - 14), this.gutter - 9, y);
    });
  }

  /** Events per lane as bars around the lane's line: too many arrows would only be a grey veil. */
  paintDensity() {
    const { context, run, events } = this;
    const bins = Math.max(1, Math.ceil((this.width - this.gutter) / BIN));
    const counts = new Float32Array(bins * this.rows.length), early = new Float32Array(counts.length);
    const cellOf = (event) => {
      const row = this.rowOf[run.lane[event]];
      const bin = Math.floor(((this.axis.place[event] - this.view.from) * this.scale) / BIN);
      return row < 0 || bin < 0 || bin >= bins ? -1 : row * bins + bin;
    };
    let most = 1;
    for (const event of events) {
      const cell = cellOf(event);
      if (cell >= 0) most = Math.max(most, ++counts[cell]);
    }
    const tooEarly = new Set(run.findings.filter((found) => found.early >= 0).map((found) => found.early));
    for (const event of tooEarly) if (cellOf(event) >= 0) early[cellOf(event)]++;
    context.globalAlpha = this.lit ? 0.35 : 0.8;
    this.paintBars(counts, bins, most, this.theme.label0, 1.5);
    this.paintBars(early, bins, most, this.theme.early, 5);
  }

  /** Bars of counts, one for each lane and bin; a bar is at least `least` high, so that a single event is seen. */
  paintBars(counts, bins, most, colour, least) {
    const { context } = this;
    context.fillStyle = colour;
    const band = Math.max(2, this.step * 0.8);
    for (let cell = 0; cell < counts.length; cell++) {
      if (!counts[cell]) continue;
      const y = TOP + (Math.floor(cell / bins) + 0.5) * this.step - this.scroll;
      const tall = Math.max(Math.min(least, band), (band * counts[cell]) / most);
      if (y > -band && y < this.height - FOOT) context.fillRect(this.gutter + (cell % bins) * BIN, y - tall / 2, BIN - 1, tall);
    }
  }

  paintAll() {
    const { axis, run, view } = this;
    axis.holds.spans.each(view.from, view.to, (span) => this.paintHold(axis.holds.arrival[span]));
    const arrows = [];
    axis.arrows.spans.each(view.from, view.to, (span) => void arrows.push(axis.arrows.end[span]));
    this.heads = arrows.length <= HEADS;
    const strong = [];
    const every = this.moving ? Math.ceil(arrows.length / MOVING_ARROWS) : 1;
    for (const end of arrows) {
      if (this.lit && this.lit[end] && this.lit[run.cause[end]]) strong.push(end);
      else if (end % every === 0) this.paintArrow(end);
    }
    for (const end of strong) this.paintArrow(end);
    this.small = this.events.length > GLYPHS || this.step < 12;
    for (const event of this.events) this.paintEvent(event);
    if (this.view.cursor !== null) for (const end of arrows) this.paintFlight(end);
    this.paintMessageNames();
    this.drawn = arrows.length;
  }

  paintHold(arrival) {
    if (this.hidden(arrival)) return;
    const { context, run } = this;
    const left = this.x(arrival), right = this.x(run.pair[arrival]);
    const thick = Math.max(3, Math.min(9, this.step * 0.4));
    context.globalAlpha = 0.75 * this.strength(arrival);
    context.fillStyle = this.theme.hold;
    context.fillRect(left, this.y(run.lane[arrival]) - thick / 2, Math.max(right - left, 1), thick);
  }

  paintArrow(end) {
    const { run } = this;
    const send = run.cause[end];
    if (this.hidden(end) || this.hidden(send)) return;
    const strength = Math.min(this.strength(end), this.strength(send));
    const lit = this.lit && this.lit[end] && this.lit[send];
    this.line(this.x(send), this.y(run.lane[send]), this.x(end), this.y(run.lane[end]), {
      colour: this.colour(run.label[send]), alpha: strength * (lit ? 1 : 0.6), width: lit ? 1.6 : 1, head: this.heads,
    });
  }

  /** While stepping: how far a copy has come that was sent and has not arrived yet. */
  paintFlight(end) {
    const { run, axis, context } = this;
    const send = run.cause[end], { cursor } = this.view;
    const sent = axis.place[send], arrives = axis.place[end];
    if (!(sent <= cursor && cursor < arrives) || this.hidden(end) || this.hidden(send)) return;
    const share = (cursor - sent) / (arrives - sent);
    const [x1, y1] = [this.x(send), this.y(run.lane[send])];
    const [x2, y2] = [x1 + share * (this.x(end) - x1), y1 + share * (this.y(run.lane[end]) - y1)];
    const colour = this.colour(run.label[send]);
    this.line(x1, y1, x2, y2, { colour, width: 1.6 });
    context.fillStyle = colour;
    context.beginPath();
    context.arc(x2, y2, 4, 0, 7);
    context.fill();
    this.flights++;
  }

  /** Names of messages beside their events, sends above the line and the rest below, wherever one fits. */
  paintMessageNames() {
    const { context, run } = this;
    this.labels = 0;
    if (this.events.length > LABELLED || this.step < LABEL_ROW) return;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    const taken = new Map(); // lane and side -> right edge of the last name
    for (const event of this.events) {
      if (run.message[event] < 0 || run.kind[event] === RECEIVE || this.hidden(event)) continue;
      if (this.found && this.lit?.[event]) continue; // the proof names these itself
      const side = run.kind[event] === DELIVER ? 1 : -1, spot = run.lane[event] * side + (side < 0 ? -0.5 : 0);
      const text = shortened(context, this.view.page.messages[run.message[event]], 90);
      const half = context.measureText(text).width / 2, x = this.x(event);
      if (x - half < (taken.get(spot) ?? this.gutter) || x + half > this.width) continue;
      taken.set(spot, x + half + 4);
      context.globalAlpha = this.strength(event);
      context.fillStyle = this.theme.soft;
      context.fillText(text, x, this.y(run.lane[event]) + side * 13);
      this.labels++;
    }
  }

  line(x1, y1, x2, y2, { colour, alpha = 1, width = 1, head = false, dash = null }) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = width;
    if (dash) context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
    if (dash) context.setLineDash([]);
    if (!head) return;
    const turn = Math.atan2(y2 - y1, x2 - x1), size = 4 + 2 * width;
    context.fillStyle = colour;
    context.beginPath();
    context.moveTo(x2, y2);
    context.lineTo(x2 - size * Math.cos(turn - 0.4), y2 - size * Math.sin(turn - 0.4));
    context.lineTo(x2 - size * Math.cos(turn + 0.4), y2 - size * Math.sin(turn + 0.4));
    context.fill();
  }

  paintEvent(event, accent = null, size = this.small ? 2 : 3.6) {
    if (this.hidden(event)) return;
    const { context, run } = this;
    const x = this.x(event), y = this.y(run.lane[event]), kind = run.kind[event];
    context.globalAlpha = accent ? 1 : this.strength(event);
    context.fillStyle = context.strokeStyle = accent ?? this.glyphColour(event);
    context.lineWidth = 1.6;
    if (kind === CRASH) return cross(context, x, y, size + 1.5);
    if (run.aside[event]) return context.strokeRect(x - size, y - size, 2 * size, 2 * size);
    if (kind === RECEIVE) return context.fillRect(x - 1, y - size - 1, 2, 2 * size + 2);
    if (this.small && !accent) return context.fillRect(x - size / 2 - 0.5, y - size / 2 - 0.5, size + 1, size + 1);
    context.beginPath();
    if (kind === DELIVER) diamond(context, x, y, size + 1);
    else context.arc(x, y, kind === INTERNAL ? size - 1 : size, 0, 7);
    if (kind === INTERNAL) context.stroke();
    else context.fill();
  }

  glyphColour(event) {
    if (this.run.aside[event] || this.run.kind[event] === CRASH) return this.theme.early;
    if (this.run.kind[event] === INTERNAL) return this.theme.soft;
    return this.colour(this.run.label[event]);
  }

  /** The deliveries of this run that came too early; the density has bars for them. */
  paintEarly() {
    if (this.thinned) return;
    const { context } = this;
    context.strokeStyle = this.theme.early;
    context.lineWidth = 1.6;
    const { from, to, cursor } = this.view;
    let last = "";
    for (const found of this.run.findings) {
      const place = found.early >= 0 ? this.axis.place[found.early] : NaN;
      if (!(place >= from && place <= to) || this.hidden(found.early)) continue;
      const x = this.x(found.early), y = this.y(found.lane);
      const spot = `${Math.round(x)} ${found.lane}`;
      if (spot === last) continue;
      last = spot;
      context.globalAlpha = cursor !== null && place > cursor ? 0.2 : this.lit ? 0.45 : 1;
      context.strokeRect(x - 4, y - 4, 8, 8);
    }
  }

  /** What the chosen event lit, drawn over the density that stands for the rest. */
  paintLit() {
    const { lit, run, view } = this;
    if (!lit) return;
    const colours = { [PAST]: this.theme.past, [FUTURE]: this.theme.future };
    let drawn = 0;
    for (const event of this.events) {
      if (!lit[event] || drawn > 6000) continue;
      drawn++;
      if (lit[event] & CHOSEN) this.ring(event);
      else if (colours[lit[event]]) this.paintEvent(event, colours[lit[event]]);
    }
    if (view.chosen && run.cause[view.chosen.event] >= 0) this.strong(run.cause[view.chosen.event], view.chosen.event);
    for (const end of view.chosen ? (run.ends.get(view.chosen.event) ?? []) : []) this.strong(view.chosen.event, end);
  }

  ring(event) {
    if (this.hidden(event)) return;
    const { context } = this;
    this.paintEvent(event, this.theme.ink, 4);
    context.strokeStyle = this.theme.ink;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(this.x(event), this.y(this.run.lane[event]), 8, 0, 7);
    context.stroke();
  }

  strong(send, end, colour = this.theme.ink, more = {}) {
    if (this.hidden(send) || this.hidden(end)) return;
    const [a, b] = [this.run.lane[send], this.run.lane[end]];
    this.line(this.x(send), this.y(a), this.x(end), this.y(b), { colour, width: 2, head: true, ...more });
  }

  /** The proof of a finding: its path, the copy that came early in red, the one that was missing dashed. */
  paintFinding() {
    const { found, run, theme } = this;
    if (!found) return;
    for (let step = 1; step < found.path.length; step++) {
      const [one, two] = [found.path[step - 1], found.path[step]];
      const alongLane = run.lane[one] === run.lane[two];
      this.strong(one, two, theme.path, { width: 3, head: !alongLane });
    }
    if (found.early >= 0 && found.earlySend >= 0) this.strong(found.earlySend, this.arrivalOf(found.early), theme.early, { width: 2.4 });
    if (found.missingSend >= 0) this.paintMissing(found);
    for (const event of found.path) this.paintEvent(event, theme.path, 4.2);
    for (const event of found.rows) this.paintEvent(event, theme.early, 4.2);
    if (found.missingSend >= 0) this.paintEvent(found.missingSend, theme.missing, 4.6);
    if (found.late >= 0) this.paintEvent(found.late, theme.missing, 4.6);
    if (found.early >= 0) this.paintEvent(found.early, theme.early, 4.8);
    this.paintLabels(found);
  }

  arrivalOf(delivery) {
    return this.run.pair[delivery] >= 0 ? this.run.pair[delivery] : delivery;
  }

  paintMissing(found) {
    const dashed = { dash: [7, 5], width: 2.2 };
    if (found.what === "duplicate" || found.what === "misdelivered") {
      for (const row of found.rows) this.strong(found.missingSend, row, this.theme.early, { width: 2 });
    } else if (found.late >= 0) {
      this.strong(found.missingSend, found.late, this.theme.missing, dashed);
    } else if (found.lane >= 0 && this.rowOf[found.lane] >= 0 && !this.hidden(found.missingSend)) {
      const end = found.early >= 0 ? this.x(found.early) + 30 : this.x(found.missingSend) + 60;
      const [x, y] = [this.x(found.missingSend), this.y(this.run.lane[found.missingSend])];
      this.line(x, y, end, this.y(found.lane), { colour: this.theme.missing, head: false, ...dashed });
      cross(this.context, end, this.y(found.lane), 5);
    }
  }

  paintLabels(found) {
    const { context, run, theme } = this;
    context.font = "600 12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    const remarks = [[found.early, theme.early, "too early", -1], [found.late, theme.missing, "too late", 1], [found.missingSend, theme.missing, "", -1]];
    for (const event of found.path) if (event !== found.missingSend) remarks.push([event, theme.path, "", run.kind[event] === DELIVER ? 1 : -1]);
    for (const [event, colour, remark, side] of remarks) {
      if (!(event >= 0) || this.hidden(event)) continue;
      const name = this.view.page.messages[run.message[event]];
      const text = shortened(context, remark ? `${name} ${remark}` : name, 180);
      const wide = context.measureText(text).width;
      const x = Math.min(this.x(event) + 9, this.width - wide - 6), y = this.y(run.lane[event]) + side * Math.min(14, this.step * 0.6);
      context.globalAlpha = 0.85;
      context.fillStyle = theme.back;
      context.fillRect(x - 2, y - 8, wide + 4, 16);
      context.globalAlpha = 1;
      context.fillStyle = colour;
      context.fillText(text, x, y);
    }
  }

  paintCursor() {
    const { view, context } = this;
    if (view.cursor === null) return;
    const x = this.at(view.cursor);
    if (x < this.gutter || x > this.width) return;
    context.globalAlpha = 1;
    context.fillStyle = this.theme.path;
    context.fillRect(x - 1, 0, 2, this.height - FOOT + 4);
  }

  paintAxis() {
    const { context, view } = this;
    context.globalAlpha = 1;
    context.fillStyle = this.theme.back;
    context.fillRect(this.gutter, this.height - FOOT + 4, this.width - this.gutter, FOOT);
    context.fillStyle = this.theme.soft;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "bottom";
    const step = tick((view.to - view.from) / Math.max(2, (this.width - this.gutter) / 110), view.by);
    const shift = view.by === "order" ? 1 : 0; // events count from 1
    this.ticks = [];
    for (let place = Math.ceil((view.from + shift) / step) * step - shift; place <= view.to; place += step) {
      if (view.by === "order" && place < 0) continue;
      const x = this.at(place), text = view.by === "time" ? timeAt(place, step) : String(Math.round(place) + 1);
      const half = context.measureText(text).width / 2;
      this.ticks.push(text);
      context.fillRect(x, this.height - FOOT + 4, 1, 4);
      context.fillText(text, Math.min(Math.max(x, this.gutter + half), this.width - half), this.height);
    }
  }

  /** The event nearest to a point, if there is one near enough. */
  eventAt(x, y) {
    const near = 14 / this.scale;
    let best = -1, least = 14 * 14;
    for (const event of this.axis.within(this.placeAt(x) - near, this.placeAt(x) + near)) {
      if (this.hidden(event)) continue;
      const apart = (this.x(event) - x) ** 2 + (this.y(this.run.lane[event]) - y) ** 2;
      if (apart < least) [best, least] = [event, apart];
    }
    return best;
  }
}

function cross(context, x, y, size) {
  context.globalAlpha = Math.max(context.globalAlpha, 0.2);
  context.beginPath();
  context.moveTo(x - size, y - size);
  context.lineTo(x + size, y + size);
  context.moveTo(x + size, y - size);
  context.lineTo(x - size, y + size);
  context.stroke();
}

function diamond(context, x, y, size) {
  context.moveTo(x, y - size);
  context.lineTo(x + size, y);
  context.lineTo(x, y + size);
  context.lineTo(x - size, y);
  context.closePath();
}

/** A text without its middle, so that it fits a width: names of processes often differ at their ends only. */
export function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const cut = (length) => `${text.slice(0, Math.floor(length / 2))}…${text.slice(text.length - Math.ceil(length / 2))}`;
  let length = Math.floor((text.length * width) / context.measureText(text).width);
  while (length > 1 && context.measureText(cut(length)).width > width) length--;
  return cut(length);
}

/** Red, green and blue of a colour written as #rrggbb. */
export function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}
