// The dependency log of a member, from the stamps that were recorded.
//
// Invariant (KS98). After a send, the log is the stamp of that message without the facts about its destinations, and the message
// itself. A delivery merges the stamp of the copy and the message itself, both without this process: an entry that one side
// lacks is redundant if that side knows a newer message of its sender; of an entry both have, the destinations both have
// remain. An empty entry is kept only as the newest of its sender. For `ks` this is the member's log, fact for fact.

import { SEND, DELIVER, destinationsOf, entriesOf } from "./data.js";
import { chainsOf } from "./causes.js";

/** Number the messages of each sender within a label, as a member counts them. */
function numbersOf(run) {
  if (run.numbers) return run.numbers;
  run.numbers = new Map();
  for (const lanes of chainsOf(run).values()) {
    for (const rows of lanes) {
      let count = 0;
      for (const row of rows) if (run.kind[row] === SEND) run.numbers.set(run.message[row], ++count);
    }
  }
  return run.numbers;
}

/** The stamp that the message of a send carried, from any of its copies; -1 if none was recorded. */
function stampOf(run, send) {
  const end = (run.ends.get(send) ?? []).find((each) => run.stamp[each] >= 0);
  return end === undefined ? -1 : run.stamp[end];
}

function groupsOf(run, stamp) {
  const log = new Map();
  for (const { message, lanes } of entriesOf(run, stamp)) append(log, run, message, lanes);
  return log;
}

function append(log, run, message, lanes) {
  const send = run.sendOf.get(message);
  const sender = send === undefined ? `message ${message}` : run.lane[send];
  const group = log.get(sender) ?? [];
  const kept = group.filter((entry, place) => entry.lanes.length || place < group.length - 1);
  kept.push({ message, number: numbersOf(run).get(message) ?? 0, lanes });
  log.set(sender, kept);
}

function without(group, gone) {
  const rest = group.map((entry) => ({ ...entry, lanes: entry.lanes.filter((lane) => !gone.includes(lane)) }));
  return rest.filter((entry, place) => entry.lanes.length || place === rest.length - 1);
}

function merged(ours, theirs) {
  const newest = theirs[theirs.length - 1].number, known = ours[ours.length - 1].number;
  const other = new Map(theirs.map((entry) => [entry.number, entry]));
  const result = [];
  for (const entry of ours) {
    const same = other.get(entry.number);
    if (same) result.push({ ...entry, lanes: entry.lanes.filter((lane) => same.lanes.includes(lane)) });
    else if (entry.number > newest) result.push(entry);
  }
  const numbers = new Set(ours.map((entry) => entry.number));
  for (const entry of theirs) if (!numbers.has(entry.number) && entry.number > known) result.push(entry);
  result.sort((one, two) => one.number - two.number);
  return result.filter((entry, place) => entry.lanes.length || place === result.length - 1);
}

function mergeInto(log, groups, me) {
  for (const [sender, group] of groups) {
    const theirs = without(group, [me]);
    const ours = log.get(sender);
    log.set(sender, ours ? merged(ours, theirs) : theirs);
  }
}

/** The log of a member after its last event that is not later than `until`: entries of message and lanes. */
export function logOf(run, lane, label, until) {
  if (!run.stamped) return null;
  const rows = (chainsOf(run).get(label)?.[lane] ?? []).filter((row) => row <= until);
  let log = new Map();
  for (const row of rows) {
    if (run.kind[row] === SEND) {
      const to = destinationsOf(run, row);
      const stamp = stampOf(run, row);
      const before = stamp < 0 ? log : groupsOf(run, stamp);
      log = new Map([...before].map(([sender, group]) => [sender, without(group, to)]));
      append(log, run, run.message[row], to);
    } else if (run.kind[row] === DELIVER && run.stamp[row] >= 0) {
      const groups = groupsOf(run, run.stamp[row]);
      const own = new Map(groups);
      append(own, run, run.message[row], destinationsOf(run, run.cause[row]));
      mergeInto(log, own, lane);
    }
  }
  return [...log.values()].flat().map(({ message, lanes }) => ({ message, lanes }));
}
