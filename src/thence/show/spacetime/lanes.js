// Which processes are shown, in which rows, from top to bottom.
//
// Invariant. Every process is in exactly one row or hidden. A row of several processes is a group. What is done here is done
// for all runs of the page: a process keeps its row from run to run.

export class Lanes {
  constructor(names) {
    this.names = names;
    this.reset();
  }

  /** One row for each process, in order of first appearance. */
  reset() {
    this.rows = this.names.map((_, lane) => [lane]);
    this.hidden = new Set();
  }

  /** The rows that have something to show of a run, and the row of each of its lanes (-1: hidden). */
  of(run) {
    const rows = this.rows
      .map((lanes) => lanes.filter((lane) => run.hasLane[lane] && !this.hidden.has(lane)))
      .filter((lanes) => lanes.length);
    const rowOf = new Int32Array(this.names.length).fill(-1);
    rows.forEach((lanes, row) => lanes.forEach((lane) => (rowOf[lane] = row)));
    return { rows, rowOf };
  }

  /** What stands beside a row. */
  title(lanes) {
    return lanes.length === 1 ? this.names[lanes[0]] : `${lanes.length}: ${lanes.map((lane) => this.names[lane]).join(", ")}`;
  }

  show(lane, shown) {
    if (shown) this.hidden.delete(lane);
    else this.hidden.add(lane);
  }

  /** Show these lanes and hide all others. */
  only(lanes) {
    this.hidden = new Set(this.names.map((_, lane) => lane).filter((lane) => !lanes.includes(lane)));
  }

  /** Move the row of a lane up (-1) or down (1). */
  move(lane, by) {
    const at = this.rows.findIndex((lanes) => lanes.includes(lane));
    const to = at + by;
    if (to < 0 || to >= this.rows.length) return;
    [this.rows[at], this.rows[to]] = [this.rows[to], this.rows[at]];
  }

  /** Put several lanes into one row, where the first of them is. */
  group(lanes) {
    if (lanes.length < 2) return;
    const at = this.rows.findIndex((row) => row.includes(lanes[0]));
    const rest = this.rows.map((row) => row.filter((lane) => !lanes.includes(lane)));
    rest[at] = [...lanes, ...rest[at]];
    this.rows = rest.filter((row) => row.length);
  }

  /** Take the row of a lane apart. */
  ungroup(lane) {
    const at = this.rows.findIndex((row) => row.includes(lane));
    this.rows.splice(at, 1, ...this.rows[at].map((each) => [each]));
  }

  /** Everything that is not as it was at first, as text for the address; "" if all is. */
  text() {
    const plain = this.rows.every((row, at) => row.length === 1 && row[0] === at);
    const rows = plain ? "" : this.rows.map((row) => row.join("+")).join(".");
    const hidden = [...this.hidden].sort((one, two) => one - two).join(".");
    return rows || hidden ? `${rows}~${hidden}` : "";
  }

  /** Take what `text` gave; what does not fit this page is passed over. */
  take(text) {
    this.reset();
    const [rows = "", hidden = ""] = (text ?? "").split("~");
    const given = rows ? rows.split(".").map((row) => row.split("+").map(Number)) : [];
    const flat = given.flat();
    const fits = flat.length === this.names.length && new Set(flat).size === flat.length;
    if (fits && flat.every((lane) => lane >= 0 && lane < flat.length && Number.isInteger(lane))) this.rows = given;
    for (const lane of hidden ? hidden.split(".").map(Number) : []) if (lane in this.names) this.hidden.add(lane);
  }
}
