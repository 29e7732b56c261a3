// Shows what the lanes of a race say while they run: text, numbers, what their machines have in use, and growing bars.
const VALUES_MAX = 12; // numbers of a lane that are shown besides its headline
const CHARS_MAX = 200000; // of a text that are kept; the artifact has all of it
const SAMPLES_MS = 1000;
const TRACK = 1000;
const SPARK = { width: 120, height: 28, points: 120 };
const main = document.querySelector("main");
const said = new Map(); // run -> { attempt, lap, text, end, values }
let source = null;
let followed = "";
let axis = null; // the bars that are shown, how long the race went on when they came, and when that was
let came = performance.getEntriesByType("navigation")[0]?.responseStart || performance.now(); // of what is shown

function lanes() {
  return main.querySelector(".lanes[data-race]");
}

// A piece that follows what is not there leaves a gap, which is told; one that was heard before changes nothing.
function hear(piece) {
  const known = said.get(piece.run);
  const isNew = !known || piece.attempt > known.attempt || (piece.attempt === known.attempt && piece.lap > known.lap);
  const lane = isNew ? { attempt: piece.attempt, lap: piece.lap, text: "", end: 0, values: known ? known.values : {} } : known;
  if (piece.attempt < lane.attempt || piece.lap < lane.lap) return;
  said.set(piece.run, lane);
  Object.assign(lane.values, piece.values);
  if (!piece.text) return;
  const letters = [...piece.text]; // offsets count characters, not halves of them
  const fresh = letters.slice(Math.max(0, lane.end - piece.offset));
  if (!fresh.length) return;
  if (piece.offset > lane.end) lane.text += "…";
  lane.text = (lane.text + fresh.join("")).slice(-CHARS_MAX);
  lane.end = piece.offset + letters.length;
}

function shown(value) {
  return Number.isInteger(value) ? String(value) : Number(value).toPrecision(4);
}

function tell(card) {
  const lane = said.get(card.dataset.run);
  const place = card.querySelector(".said");
  if (!lane || place.dataset.final !== undefined) return;
  if (place.textContent !== lane.text) {
    const isAtEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
    place.textContent = lane.text;
    if (isAtEnd) place.scrollTop = place.scrollHeight;
  }
  const list = card.querySelector(".values");
  for (const [name, value] of Object.entries(lane.values)) {
    if (typeof value !== "number" || !Number.isFinite(value)) continue;
    let cell = list.querySelector(`[data-value="${CSS.escape(name)}"]`);
    if (!cell) {
      if (list.children.length >= VALUES_MAX) continue;
      const pair = document.createElement("div");
      const term = pair.appendChild(document.createElement("dt"));
      term.textContent = name;
      cell = pair.appendChild(document.createElement("dd"));
      cell.dataset.value = name;
      list.append(pair);
    }
    cell.textContent = shown(value);
  }
}

function tellAll() {
  main.querySelectorAll(".lane").forEach(tell);
}

function follow() {
  const list = lanes();
  const wanted = list && list.dataset.active !== undefined ? list.dataset.race : "";
  if (wanted === followed) return;
  source?.close();
  source = null;
  followed = wanted;
  if (!wanted) return;
  source = new EventSource(`/api/groups/${encodeURIComponent(wanted)}/live`);
  source.addEventListener("text", ({ data }) => {
    JSON.parse(data).forEach(hear);
    requestAnimationFrame(tellAll);
  });
}

function drawn(values) {
  const latest = values.slice(-SPARK.points);
  const first = SPARK.points - latest.length;
  let pen = "M";
  let path = "";
  latest.forEach((value, place) => {
    if (typeof value !== "number") { pen = "M"; return; }
    const x = ((first + place) * SPARK.width) / (SPARK.points - 1);
    const y = SPARK.height - 1 - (SPARK.height - 2) * Math.min(1, Math.max(0, value));
    path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
  });
  return path;
}

function spark(picture, values) {
  let line = picture.querySelector("path");
  if (!line) {
    line = picture.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "path"));
    line.setAttribute("class", "line c0");
  }
  line.setAttribute("d", drawn(values));
  const last = values.findLast((each) => typeof each === "number");
  picture.parentElement.querySelector("[data-last]").textContent = last === undefined ? "–" : `${Math.round(100 * last)} %`;
}

async function look() {
  const list = lanes();
  if (!list || list.dataset.active === undefined || document.hidden) return;
  const answer = await fetch(`/api/races/${encodeURIComponent(list.dataset.race)}/samples`);
  if (!answer.ok) return;
  for (const each of (await answer.json()).lanes) {
    const card = main.querySelector(`.lane[data-pod="${CSS.escape(each.pod)}"]`);
    if (!card) continue;
    for (const picture of card.querySelectorAll("[data-spark]")) {
      const { field, whole } = picture.parentElement.dataset;
      spark(picture, each.samples.map((sample) => (typeof sample[field] === "number" && Number(whole) > 0 ? sample[field] / Number(whole) : null)));
    }
  }
}

// The bars of lanes that run grow, all on one axis, by the time of the server: the browser's clock may be wrong.
function grow() {
  const list = main.querySelector(".tracks[data-so-far]");
  if (!list || lanes()?.dataset.active === undefined) return;
  if (axis?.list !== list) axis = { list, shown: Number(list.dataset.soFar), came };
  const so_far = Math.max(0, axis.shown + (performance.now() - axis.came) / 1000);
  const bars = [...list.querySelectorAll("rect")].map((bar) => ({ bar, from: Number(bar.dataset.from), to: bar.dataset.to ? Number(bar.dataset.to) : so_far }));
  const whole = Math.max(0.001, ...bars.map((each) => each.to));
  for (const { bar, from, to } of bars) {
    bar.setAttribute("x", ((TRACK * from) / whole).toFixed(1));
    bar.setAttribute("width", Math.max(4, (TRACK * (to - from)) / whole).toFixed(1));
    if (!bar.dataset.to) bar.closest("li").querySelector("[data-took]").textContent = `${so_far.toFixed(1)} s`;
  }
}

function again() {
  // A server that is away for a moment changes nothing; the next look asks again.
  setTimeout(() => look().catch(() => undefined).finally(again), SAMPLES_MS);
}

new MutationObserver(() => { came = performance.now(); follow(); tellAll(); grow(); }).observe(main, { childList: true });
addEventListener("pagehide", () => { source?.close(); followed = ""; });
addEventListener("pageshow", follow);
setInterval(grow, 250);
follow();
again();
