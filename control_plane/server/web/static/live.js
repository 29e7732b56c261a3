// Keeps a page current: rows come ready from the server, all else is fetched again when something changed.
import { refresh, tellTimes } from "./refresh.js";
import { follow } from "./tail.js";
import { Stream } from "./stream.js";

const main = document.querySelector("main");
const ROWS_MAX = 500;
const QUIET_FACTOR = 10; // a page that hears of changes looks by itself as much more rarely
const FETCH_FACTOR = 4; // a page that takes long to make is asked for more rarely
let isOpen = false;
let asked = 0;
let restUntil = 0;
let source = null;
let joined = "";
let isStale = false;

async function look() {
  asked = 0;
  const begun = performance.now();
  const gap = Number(main.dataset.gap || 1) * 1000;
  const wasQuiet = begun - restUntil > gap; // what follows soon, as at the start of a run, is shown soon
  // A server that is away for a moment changes nothing; the next look asks again.
  const hasLooked = await refresh().catch(() => true);
  const took = performance.now() - begun;
  restUntil = performance.now() + Math.max(wasQuiet ? 0 : gap, FETCH_FACTOR * took);
  if (!hasLooked) lookSoon();
  else if (main.dataset.topics !== joined) join(); // as when a hypothesis has one more run
}

// A tab that nobody sees asks for nothing, and looks once when it is seen again.
function lookSoon() {
  if (document.hidden) {
    isStale = true;
    return;
  }
  asked ||= setTimeout(look, Math.max(0, restUntil - performance.now()));
}

function fits(rows, { facts, html }) {
  const { q, ...wanted } = JSON.parse(rows.dataset.only || "{}");
  if (Object.entries(wanted).some(([name, value]) => value && ![facts[name]].flat().includes(value))) return false;
  return !q || q.toLowerCase().split(/\s+/).every((word) => html.toLowerCase().includes(word));
}

function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  tellTimes(template.content);
  return template.content.firstElementChild;
}

// A run that a page shows is replaced in its place; a new one comes first, on the first page only.
function put(rows, message) {
  const known = document.getElementById(message.id);
  if (!fits(rows, message)) return known?.remove();
  const row = parsed(message.html);
  if (known) {
    if (known.matches(":focus-within")) return lookSoon();
    const box = known.querySelector("input[type=checkbox]");
    if (box) row.querySelector("input[type=checkbox]").checked = box.checked;
    return known.replaceWith(row);
  }
  if (rows.dataset.first === undefined) return;
  rows.querySelector(".empty")?.closest("tr").remove();
  // Ids sort by time: a change of an older run that this page has no room for is not new.
  const after = [...rows.rows].find((each) => each.id < message.id);
  if (!after && rows.rows.length >= Number(rows.dataset.first)) return;
  rows.insertBefore(row, after || null);
  while (rows.rows.length > ROWS_MAX) rows.lastElementChild.remove();
}

function hear(message) {
  if (message.name === "open" || message.name === "lost") {
    isOpen = message.name === "open";
    document.documentElement.dataset.live = message.name;
    if (isOpen && !main.dataset.since) lookSoon(); // made before the server knew where it was
    return;
  }
  const rows = main.querySelector("tbody[data-rows]");
  const log = main.querySelector("tbody[data-tail]");
  if (message.name === "run" && rows && message.html) put(rows, message);
  else if (message.name === "event" && log) follow(log, message, fits, parsed);
  else return lookSoon();
  const isCounted = message.facts && document.querySelector(`header [data-counts="${CSS.escape(message.facts.kind)}"]`);
  if (main.dataset.gap || isCounted) lookSoon(); // there is more on this page than rows
}

// Whatever shares the stream with the other tabs, where the browser has that.
function connected() {
  if (!window.SharedWorker) {
    const stream = new Stream();
    return { join: (topics, since) => stream.join(main, topics, since, hear), leave: () => stream.leave(main) };
  }
  const { port } = new SharedWorker("/static/live-worker.js", { type: "module", name: "podfleet live" });
  port.onmessage = ({ data }) => hear(data);
  return { join: (topics, since) => port.postMessage({ topics, since }), leave: () => port.postMessage({ leave: true }) };
}

function join() {
  joined = main.dataset.topics;
  source.join(joined.split(" ").filter(Boolean), main.dataset.since);
}

let turns = 0;
function turn() {
  const seconds = Number(main.dataset.refresh);
  if (!(seconds > 0)) return;
  turns += 1;
  if (!isOpen || turns % QUIET_FACTOR === 0) lookSoon();
  setTimeout(turn, seconds * 1000);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden || !isStale) return;
  isStale = false;
  lookSoon();
});
tellTimes(document);
setInterval(() => tellTimes(document), 10000);
setTimeout(turn, Number(main.dataset.refresh) * 1000);
if (main.dataset.topics) {
  source = connected();
  join();
  addEventListener("pagehide", source.leave);
  addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    join();
    lookSoon();
  });
}
