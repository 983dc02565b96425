// Which spans touch a window, without looking at all of them.
//
// Invariant. A span is filed once or twice: on the level whose buckets are at least as long as it is, in the buckets its two
// ends lie in. A query looks at the buckets that touch the window and yields each span that touches it exactly once.

export class Spans {
  /** Take the starts and ends of spans; either may be the larger. */
  constructor(starts, ends) {
    this.starts = starts;
    this.ends = ends;
    this.levels = new Map();
    for (let span = 0; span < starts.length; span++) this.file(span);
  }

  file(span) {
    const low = Math.min(this.starts[span], this.ends[span]);
    const high = Math.max(this.starts[span], this.ends[span]);
    const size = 2 ** Math.ceil(Math.log2(Math.max(high - low, 1e-9)));
    let buckets = this.levels.get(size);
    if (!buckets) this.levels.set(size, (buckets = new Map()));
    for (const key of new Set([Math.floor(low / size), Math.floor(high / size)])) {
      const list = buckets.get(key);
      if (list) list.push(span);
      else buckets.set(key, [span]);
    }
  }

  /** Call `take` with each span that touches the window until it returns false. */
  each(from, to, take) {
    for (const [size, buckets] of this.levels) {
      const first = Math.floor(from / size), last = Math.floor(to / size);
      if (last - first > buckets.size) {
        for (const key of buckets.keys()) {
          if (key >= first && key <= last && !this.bucket(buckets, key, size, first, from, to, take)) return;
        }
        continue;
      }
      for (let key = first; key <= last; key++) if (!this.bucket(buckets, key, size, first, from, to, take)) return;
    }
  }

  bucket(buckets, key, size, first, from, to, take) {
    for (const span of buckets.get(key) ?? []) {
      const low = Math.min(this.starts[span], this.ends[span]);
      const high = Math.max(this.starts[span], this.ends[span]);
      if (high < from || low > to) continue;
      const home = Math.floor(low / size);
      if (key !== home && home >= first) continue; // it was met in the bucket of its lower end
      if (take(span) === false) return false;
    }
    return true;
  }

  /** Count the spans that touch the window, at most up to `limit`. */
  count(from, to, limit) {
    let found = 0;
    this.each(from, to, () => ++found < limit);
    return found;
  }
}
