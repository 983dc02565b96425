// Stepping through the order, one event at a time, by hand or by the clock.
//
// Invariant. One cursor serves all shown runs: it stands at a place of the axis, and what is right of it is yet to come. A step
// moves it to the next place, or back to the one before, at which any shown run has an event that is not hidden.

export class Player {
  constructor(view, changed) {
    Object.assign(this, { view, changed, timer: 0, delay: 500 });
  }

  /** Move by one event; return the event arrived at, or null at the end. */
  step(by) {
    const { view } = this;
    const here = view.cursor ?? (by > 0 ? -Infinity : Infinity);
    let best = null;
    for (const run of view.shown()) {
      const axis = view.axis(run);
      const { rowOf } = view.lanes.of(run);
      let at = axis.first(here);
      if (by > 0) while (at < run.count && (axis.place[axis.sorted[at]] <= here || rowOf[run.lane[axis.sorted[at]]] < 0)) at++;
      else {
        at--;
        while (at >= 0 && rowOf[run.lane[axis.sorted[at]]] < 0) at--;
      }
      if (at < 0 || at >= run.count) continue;
      const event = axis.sorted[at], place = axis.place[event];
      if (!best || (place - best.place) * by < 0) best = { run: run.number, event, place };
    }
    if (!best) return null;
    view.cursor = best.place;
    view.reveal([best.place]);
    return best;
  }

  get playing() {
    return this.timer !== 0;
  }

  toggle() {
    if (this.playing) return this.stop();
    this.timer = setInterval(() => this.changed(this.step(1)), this.delay);
    this.changed(this.step(1));
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
  }
}
