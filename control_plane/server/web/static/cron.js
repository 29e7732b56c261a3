// Says while it is typed what a cron text means, when it fires next, and whether a specification is JSON.
const WAIT_MS = 250;
let timer = 0;
let asked = new AbortController();

function element(name, text, ...children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

// The server's own words for a moment stand where scripts do not run; these are the same.
function clock(text) {
  const [date, time] = text.split("T");
  const day = new Date(`${date}T00:00:00Z`);
  const words = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
  const distance = time.slice(8).replace(/^\.\d+/, "");
  return `${words.format(day).replace(",", "")}, ${time.slice(0, 5)} UTC${["Z", "+00:00"].includes(distance) ? "" : distance}`;
}

function tell(place, found) {
  if (found.problem) {
    const said = element("p", found.problem.message);
    said.className = "bad";
    place.replaceChildren(said);
    return;
  }
  const times = found.next.map((each) => {
    const line = element("li", clock(each.local));
    if (!each.local.endsWith("+00:00")) line.append(" ", element("small", clock(each.at)));
    return line;
  });
  const meaning = element("p", "", element("strong", found.meaning), " ", element("small", found.timeZone));
  place.replaceChildren(meaning, element("ol", "", ...times));
}

async function ask(form) {
  const place = form.querySelector(".preview");
  const cron = form.elements.cron.value.trim();
  asked.abort();
  asked = new AbortController();
  if (!cron) return place.replaceChildren();
  const query = new URLSearchParams({ cron, time_zone: form.elements.time_zone.value.trim() });
  const answer = await fetch(`/api/schedules/preview?${query}`, { signal: asked.signal });
  if (answer.ok) tell(place, await answer.json());
}

function checkSpec(area) {
  let problem = "";
  try {
    const found = JSON.parse(area.value.trim() || "{}");
    if (found === null || Array.isArray(found) || typeof found !== "object") problem = "A JSON object is wanted, as in {\"time_limit_s\": 600}.";
  } catch (error) {
    problem = `No JSON yet: ${error.message}.`;
  }
  area.setAttribute("aria-invalid", String(problem !== ""));
  document.getElementById("spec-problem").textContent = problem;
}

function hear({ target }) {
  const form = target.closest("form[data-cron]");
  if (!form) return;
  if (target.name === "spec") checkSpec(target);
  if (!["cron", "time_zone"].includes(target.name)) return;
  clearTimeout(timer);
  // An older question that was given up, or a server away for a moment: the next letter asks again.
  timer = setTimeout(() => ask(form).catch(() => undefined), WAIT_MS);
}

document.addEventListener("input", hear);
document.addEventListener("cron-written", hear); // by cron_choice.js
