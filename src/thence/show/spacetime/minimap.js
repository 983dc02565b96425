// The whole run in one line: how many copies are held at each place, where something came too early, and the window.
//
// Invariant. It shows all of the shown runs from end to end, whatever the window is, and lies under the lanes: both
// leave the same gutter at the left. Dragging on it moves the window.

import { channels, gutterOf, MARGIN } from "./paint.js";

export class Minimap {
  constructor(canvas, view) {
    Object.assign(this, { canvas, view, key: "" });
    this.context = canvas.getContext("2d", { alpha: false });
    this.buffer = document.createElement("canvas");
  }

  paint(theme) {
    const { canvas, context, view } = this;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const width = canvas.clientWidth, height = canvas.clientHeight;
    const key = [width, height, ratio, view.by, view.runs.join(), theme.back, theme.early].join(" ");
    if (key !== this.key) {
      Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
      this.redraw(theme, this.inner(width), height);
      this.key = key;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const gutter = gutterOf(width), inner = this.inner(width);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, width, height);
    context.drawImage(this.buffer, gutter, 0, inner, height);
    const [left, right] = view.bounds();
    const at = (place) => gutter + ((place - left) / (right - left)) * inner;
    context.globalAlpha = 0.14;
    context.fillStyle = theme.path;
    context.fillRect(at(view.from), 0, at(view.to) - at(view.from), height);
    context.globalAlpha = 1;
    context.strokeStyle = theme.path;
    context.lineWidth = 1.5;
    context.strokeRect(at(view.from) + 0.75, 0.75, Math.max(at(view.to) - at(view.from) - 1.5, 2), height - 1.5);
    if (view.cursor !== null) {
      context.fillStyle = theme.ink;
      context.fillRect(at(view.cursor) - 0.5, 0, 1.5, height);
    }
  }

  inner(width) {
    return Math.max(1, width - gutterOf(width) - MARGIN);
  }

  /** Draw what does not change with the window. */
  redraw(theme, width, height) {
    const columns = Math.max(1, Math.floor(width));
    Object.assign(this.buffer, { width: columns, height: Math.max(1, Math.floor(height)) });
    const context = this.buffer.getContext("2d");
    context.fillStyle = theme.back;
    context.fillRect(0, 0, columns, height);
    const held = this.density(columns);
    const most = Math.max(1, ...held);
    const [red, green, blue] = channels(theme.hold);
    for (let column = 0; column < columns; column++) {
      const tall = (held[column] / most) * (height - 8);
      context.fillStyle = `rgb(${red} ${green} ${blue})`;
      if (tall > 0) context.fillRect(column, height - tall, 1, tall);
    }
    context.fillStyle = theme.early;
    for (const column of this.early(columns)) context.fillRect(column - 1, 0, 2, height * 0.45);
  }

  column(place, columns) {
    const [left, right] = this.view.bounds();
    return Math.max(0, Math.min(columns - 1, Math.floor(((place - left) / (right - left)) * columns)));
  }

  /** The number of copies held at each column. */
  density(columns) {
    const change = new Float64Array(columns + 1);
    for (const run of this.view.shown()) {
      const axis = this.view.axis(run);
      for (const arrival of axis.holds.arrival) {
        change[this.column(axis.place[arrival], columns)]++;
        change[this.column(axis.place[run.pair[arrival]], columns) + 1]--;
      }
    }
    let now = 0;
    return Array.from(change.subarray(0, columns), (each) => (now += each));
  }

  /** The columns where something came too early. */
  early(columns) {
    const found = new Set();
    for (const run of this.view.shown()) {
      const axis = this.view.axis(run);
      for (const each of run.findings) if (each.early >= 0) found.add(this.column(axis.place[each.early], columns));
    }
    return found;
  }

  placeAt(x) {
    const [left, right] = this.view.bounds();
    const width = this.canvas.clientWidth;
    return left + ((x - gutterOf(width)) / this.inner(width)) * (right - left);
  }
}
