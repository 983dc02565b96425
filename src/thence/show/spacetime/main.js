// The page as a whole: what the reader does changes the view, and the view is drawn.
//
// Invariant. Everything goes through `changed`: it draws once in the next frame, says in words what is shown, and writes the
// address. `window.thence` tells what the page shows without looking at pixels.

import { readPage, CRASH, KINDS } from "./data.js";
import { View, eventsOf, PAST, FUTURE, CHOSEN, PATH } from "./view.js";
import { MOST_ARROWS, Panel, readTheme } from "./paint.js";
import { Minimap } from "./minimap.js";
import { Player } from "./play.js";
import { search } from "./search.js";
import { pastOf, futureOf, waitsOf } from "./causes.js";
import { logOf } from "./log.js";
import { make, deed, factsOf, findingItems, showEvent, showLanes, showLog, showProof, showResults } from "./lists.js";

const LISTED = 500;
const RESTS = 150; // milliseconds without a move
const element = (id) => document.getElementById(id);
const page = readPage("data");
const view = new View(page);
const player = new Player(view, played);
const minimap = new Minimap(element("minimap"), view);
let panels = [], theme = readTheme(), waitingFrame = 0, results = [], at = null, moving = 0;
const frames = [];

function openPanels() {
  const stage = element("panels");
  stage.replaceChildren();
  panels = view.shown().map((run) => {
    const canvas = make("canvas", { tabindex: 0, role: "img", "data-run": run.number });
    const title = make("figcaption", {}, view.page.runs.length > 1 ? `${run.name}${run.verdict ? `: ${run.verdict}` : ""}` : "");
    stage.append(make("figure", {}, title, canvas));
    listen(canvas);
    return new Panel(canvas, run, view);
  });
}

function draw() {
  waitingFrame = 0;
  const start = performance.now();
  const share = Math.floor(MOST_ARROWS / Math.max(1, panels.length));
  for (const panel of panels) panel.paint(theme, share, moving !== 0);
  minimap.paint(theme);
  sayThinned();
  frames.push(performance.now() - start);
  if (frames.length > 1000) frames.shift();
}

function redraw() {
  if (!waitingFrame) waitingFrame = requestAnimationFrame(draw);
}

/** The window moves: draw quickly, and all of it once it rests. */
function move() {
  clearTimeout(moving);
  moving = setTimeout(() => ((moving = 0), redraw()), RESTS);
}

function sayThinned() {
  const thinned = panels.reduce((sum, panel) => sum + panel.thinned, 0);
  const text = thinned
    ? `${thinned.toLocaleString("en")} events are in the window: bars show how many each process has at each place. Zoom in to see every copy.`
    : "";
  const note = element("thinned");
  if (note.textContent !== text) note.textContent = text;
  note.hidden = !text;
}

function changed({ said = null, lists = true } = {}) {
  if (panels.map((panel) => panel.run.number).join() !== view.runs.join()) openPanels();
  if (lists) showWords();
  else move();
  if (said) element("said").textContent = said;
  redraw();
  writeAddress();
}

function writeAddress() {
  clearTimeout(writeAddress.timer);
  writeAddress.timer = setTimeout(() => {
    const text = view.text();
    if (text !== location.hash.slice(1)) history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  }, 150);
}

function showWords() {
  for (const button of document.querySelectorAll("#findings button")) {
    const chosen = Number(button.dataset.finding) === view.finding;
    button.setAttribute("aria-pressed", String(chosen));
  }
  element("by-order").setAttribute("aria-pressed", String(view.by === "order"));
  element("by-time").setAttribute("aria-pressed", String(view.by === "time"));
  element("by-time").disabled = !view.timed;
  element("play").textContent = player.playing ? "Pause" : "Play";
  for (const box of document.querySelectorAll("#runs input")) box.checked = view.runs.includes(Number(box.value));
  const shown = view.chosen ?? at;
  const found = page.findings[view.finding];
  element("proof").hidden = !found;
  if (found) showProof(element("proof"), page, found, view.finding, view.chosen, go);
  element("details-title").textContent = shown ? deed(page, page.runs[shown.run], shown.event) : found ? "" : "Nothing chosen";
  if (shown) {
    const run = page.runs[shown.run];
    showEvent(element("details"), page, run, shown.event, go);
    showLog(element("log"), page, run, run.lane[shown.event], run.label[shown.event], shown.event);
  } else {
    element("details").replaceChildren(...(found ? [] : [make("p", {}, "Choose an event or a finding, or step through the order.")]));
    element("log").replaceChildren();
  }
  element("log-part").hidden = !shown;
  for (const panel of panels) panel.canvas.setAttribute("aria-label", described(panel.run));
}

function described(run) {
  const { rows } = view.lanes.of(run);
  const events = view.axis(run).within(view.from, view.to).length;
  const late = run.findings.filter((found) => found.what === "violation").length;
  return `Space-time diagram of run ${run.name}: ${rows.length} lanes, ${events} of ${run.count} events in the window, ${late} violations in the run.`;
}

function go(run, event) {
  if (!view.runs.includes(run)) view.runs = [...view.runs, run].sort((one, two) => one - two);
  at = null;
  view.choose(run, event);
  view.lanes.show(page.runs[run].lane[event], true);
  view.reveal([view.axis(page.runs[run]).place[event]]);
  changed({ said: deed(page, page.runs[run], event) });
}

function goFinding(number) {
  at = null;
  view.chooseFinding(number);
  element("findings").querySelector(`[data-finding="${number}"]`)?.scrollIntoView({ block: "nearest" });
  changed({ said: page.findings[number]?.text });
}

function played(arrived) {
  if (!arrived) player.stop();
  else {
    view.chosen = null;
    view.finding = -1;
    view.lit = null;
    at = arrived;
  }
  changed({ said: arrived && !player.playing ? deed(page, page.runs[arrived.run], arrived.event) : null });
}

function clear() {
  player.stop();
  at = null;
  view.clear();
  changed({ said: "Nothing chosen" });
}

function ask(question, { first = false } = {}) {
  view.question = question;
  results = question.trim() ? search(page, question) : [];
  element("found").textContent = question.trim() ? `${results.length} event${results.length === 1 ? "" : "s"}` : "";
  showResults(element("results"), page, results, go);
  element("results-part").open = results.length > 0;
  if (first && results.length) goNext();
  writeAddress();
}

function goNext() {
  const now = view.chosen ? results.findIndex(({ run, event }) => run === view.chosen.run && event === view.chosen.event) : -1;
  const next = results[(now + 1) % results.length];
  go(next.run, next.event);
}

/** Go along the causes of the chosen event: to what it came from (-1) or to what came of it (1). */
function follow(by) {
  const shown = view.chosen ?? at;
  if (!shown) return;
  const run = page.runs[shown.run];
  const next = by < 0 ? run.cause[shown.event] : (run.ends.get(shown.event) ?? [])[0] ?? -1;
  if (next >= 0) go(shown.run, next);
}

function rearrange(by) {
  view.arrange(by);
  changed({ said: by === "order" ? "Ordered by cause" : "Ordered by recorded time" });
}

function lanesChanged() {
  showLanes(element("lanes"), page, view, lanesChanged);
  changed();
}

const width = () => view.to - view.from;
const moved = (what) => () => (what(), changed({ lists: false }));
const KEYS = {
  ArrowRight: () => played(player.step(1)),
  ArrowLeft: () => played(player.step(-1)),
  "shift ArrowRight": moved(() => view.pan(width() / 4)),
  "shift ArrowLeft": moved(() => view.pan(-width() / 4)),
  ArrowDown: () => scrolled(40),
  ArrowUp: () => scrolled(-40),
  "+": moved(() => view.zoom(0.6)),
  "=": moved(() => view.zoom(0.6)),
  "-": moved(() => view.zoom(1 / 0.6)),
  0: moved(() => view.fit()),
  n: () => page.findings.length && goFinding((view.finding + 1) % page.findings.length),
  p: () => page.findings.length && goFinding((Math.max(view.finding, 0) - 1 + page.findings.length) % page.findings.length),
  "[": () => follow(-1),
  "]": () => follow(1),
  t: () => rearrange(view.by === "order" ? "time" : "order"),
  "/": () => element("search").focus(),
  " ": () => (player.toggle(), changed()),
  Escape: clear,
};

function scrolled(by) {
  for (const panel of panels) panel.scroll += by;
  redraw();
}

function listen(canvas) {
  const panel = () => panels.find((each) => each.canvas === canvas);
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.offsetX, y: event.offsetY, from: view.from, to: view.to, scroll: panel().scroll, far: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y];
    drag.far ||= Math.abs(dx) + Math.abs(dy) > 4;
    if (!drag.far) return;
    view.window(drag.from - dx / panel().scale, drag.to - dx / panel().scale);
    panel().scroll = drag.scroll - dy;
    changed({ lists: false });
  });
  canvas.addEventListener("pointerup", (event) => {
    const near = drag && !drag.far ? panel().eventAt(event.offsetX, event.offsetY) : -1;
    if (drag && !drag.far) near >= 0 ? go(panel().run.number, near) : clear();
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan(((event.deltaX || event.deltaY) / 600) * width());
    else view.zoom(Math.exp(event.deltaY / 500), panel().placeAt(event.offsetX));
    changed({ lists: false });
  }, { passive: false });
}

function listenToMinimap() {
  const move = (event) => {
    if (!(event.buttons & 1)) return;
    const middle = minimap.placeAt(event.offsetX);
    view.window(middle - width() / 2, middle + width() / 2);
    changed({ lists: false });
  };
  element("minimap").addEventListener("pointerdown", move);
  element("minimap").addEventListener("pointermove", move);
}

function listenToTools() {
  const clicks = {
    "by-order": () => rearrange("order"), "by-time": () => rearrange("time"),
    back: KEYS.ArrowLeft, forward: KEYS.ArrowRight, play: KEYS[" "], clear,
    closer: KEYS["+"], farther: KEYS["-"], whole: KEYS["0"],
    "lanes-all": () => (view.lanes.reset(), lanesChanged()),
    "lanes-lit": () => (view.lanes.only(litLanes()), lanesChanged()),
    "lanes-group": () => (view.lanes.group(pickedLanes()), lanesChanged()),
  };
  for (const [id, act] of Object.entries(clicks)) element(id).addEventListener("click", act);
  element("search").addEventListener("input", () => ask(element("search").value));
  element("search-form").addEventListener("submit", (event) => (event.preventDefault(), results.length && goNext()));
  element("findings").addEventListener("click", (event) => {
    const button = event.target.closest("[data-finding]");
    if (button) goFinding(Number(button.dataset.finding));
  });
  element("more")?.addEventListener("click", () => {
    const listed = element("findings").children.length;
    element("findings").append(...findingItems(page, listed, listed + LISTED));
    element("more").hidden = listed + LISTED >= page.findings.length;
  });
  element("runs")?.addEventListener("change", () => {
    const boxes = [...document.querySelectorAll("#runs input:checked")];
    view.runs = boxes.map((box) => Number(box.value));
    if (view.by === "time" && !view.timed) view.by = "order";
    view.fit();
    changed();
  });
}

function litLanes() {
  const found = view.finding >= 0 ? page.findings[view.finding] : null;
  const events = found ? eventsOf(found) : view.chosen ? [view.chosen.event, ...(page.runs[view.chosen.run].ends.get(view.chosen.event) ?? [])] : [];
  const run = page.runs[found?.run ?? view.chosen?.run ?? 0];
  const lanes = [...new Set([...events.map((event) => run.lane[event]), ...(found?.lane >= 0 ? [found.lane] : [])])];
  return lanes.length ? lanes : page.processes.map((_, lane) => lane);
}

function pickedLanes() {
  return [...document.querySelectorAll("#lanes .pick:checked")].map((box) => Number(box.dataset.lane));
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input:not([type=checkbox])");
  if (typing && event.key !== "Escape") return;
  if (event.target.matches("button, summary, input") && (event.key === " " || event.key === "Enter")) return;
  if (typing) event.target.blur();
  const act = KEYS[(event.shiftKey && event.key.startsWith("Arrow") ? "shift " : "") + event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
window.addEventListener("resize", redraw);
window.addEventListener("hashchange", () => open(location.hash.slice(1)));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => ((theme = readTheme()), redraw()));

function open(text) {
  at = null;
  view.take(text);
  element("search").value = view.question;
  ask(view.question);
  lanesChanged();
}

const marked = (mark) => Array.from(mark.keys()).filter((event) => mark[event]);
const named = (run, event) => ({ process: page.processes[run.lane[event]], index: run.index[event], kind: KINDS[run.kind[event]] });
const drawnNow = () => (waitingFrame && (cancelAnimationFrame(waitingFrame), draw()), panels);
const eventsIn = (number, events) => events.map((event) => named(page.runs[number], event));

/** What tests and the curious may ask. Events are told by process, index and kind. */
window.thence = {
  query: {
    runs: () => page.runs.map((run) => ({ name: run.name, verdict: run.verdict, events: run.count })),
    find: (number, process, index) => page.runs[number].index.findIndex((each, event) => each === index && page.processes[page.runs[number].lane[event]] === process),
    past: (number, event) => eventsIn(number, marked(pastOf(page.runs[number], event))),
    future: (number, event) => eventsIn(number, marked(futureOf(page.runs[number], event))),
    waits: (number, event) => waitsOf(page.runs[number], event).map(({ message }) => page.messages[message]),
    log: (number, process, event) => {
      const run = page.runs[number], lane = page.processes.indexOf(process);
      return logOf(run, lane, run.label[event], event)?.map(({ message, lanes }) => [page.messages[message], lanes.map((each) => page.processes[each])]);
    },
    facts: (number, event) => Object.fromEntries(factsOf(page, page.runs[number], event)),
    search: (question) => search(page, question).map(({ run, event }) => ({ run, ...named(page.runs[run], event) })),
    lit: () => {
      if (!view.lit) return null;
      const events = (flag) => eventsIn(view.lit.run, marked(view.lit.mark.map((each) => each & flag)));
      return { run: view.lit.run, past: events(PAST), future: events(FUTURE), chosen: events(CHOSEN), path: events(PATH) };
    },
    finding: () => (view.finding < 0 ? null : { number: view.finding, ...page.findings[view.finding] }),
    view: () => ({ by: view.by, from: view.from, to: view.to, cursor: view.cursor, runs: [...view.runs], lanes: drawnNow().map((panel) => panel.rows.map((lanes) => view.lanes.title(lanes))) }),
    drawn: () => drawnNow().map((panel) => ({ thinned: panel.thinned, arrows: panel.drawn, flights: panel.flights, labels: panel.labels, step: panel.step, events: panel.events.length, ticks: panel.ticks })),
    frames: () => frames.splice(0),
    point: (number, event) => {
      const panel = drawnNow().find((each) => each.run.number === number), box = panel.canvas.getBoundingClientRect();
      return { x: box.x + panel.x(event), y: box.y + panel.y(panel.run.lane[event]) };
    },
  },
  choose: go,
  chooseFinding: goFinding,
  show: (from, to) => (view.window(from, to), changed({ lists: false })),
};

function listCrashes() {
  const crashes = page.runs.flatMap((run) => Array.from(run.kind.keys()).filter((event) => run.kind[event] === CRASH).map((event) => ({ run: run.number, event })));
  showResults(element("crashes"), page, crashes, go);
  element("crashes-part").hidden = !crashes.length;
  element("crashes-part").querySelector("summary").textContent = `Crashes (${crashes.length})`;
}

listenToTools();
listenToMinimap();
listCrashes();
open(location.hash.slice(1) || page.start);
draw();
document.documentElement.dataset.ready = "yes";
performance.mark("thence-first-picture");
