// Says while a race is typed whether the lanes that are ticked can take it.
const WAIT_MS = 300;
const MARKS = { GOOD: "✓", RISK: "⚠", FAIL: "✗" };
const NOT_CHECKED = { problem: "The lanes could not be checked just now.", lanes: {} };
let timer = 0;
let asked = new AbortController();

function tell(form, found) {
  form.querySelector("#race-problem").textContent = found.problem;
  for (const machine of form.querySelectorAll(".machine")) {
    const lane = found.lanes[machine.dataset.pod];
    const isKnown = lane && lane.grade in MARKS;
    if (!isKnown && !machine.querySelector("input:checked") && !machine.dataset.told) continue;
    machine.dataset.told = "1"; // what was said of other fields, or of a lane, is not true any more
    if (!isKnown) {
      for (const place of machine.querySelectorAll(".graded, .checks")) place.replaceChildren();
      continue;
    }
    const badge = document.createElement("span");
    badge.className = `badge g-${lane.grade}`;
    badge.textContent = `${MARKS[lane.grade]} ${lane.grade}`;
    machine.querySelector(".graded").replaceChildren(badge);
    machine.querySelector(".checks").replaceChildren(...lane.says.map((words) => {
      const line = document.createElement("li");
      line.textContent = words;
      return line;
    }));
  }
}

async function ask(form) {
  asked.abort();
  asked = new AbortController();
  const typed = [...new FormData(form)].filter(([, value]) => typeof value === "string" && value);
  const question = { method: "POST", body: new URLSearchParams(typed), signal: asked.signal };
  try {
    const answer = await fetch(form.dataset.raceForm, question);
    tell(form, answer.ok ? await answer.json() : NOT_CHECKED);
  } catch (error) {
    if (error.name !== "AbortError") tell(form, NOT_CHECKED); // another question has come behind an aborted one
  }
}

document.addEventListener("input", ({ target }) => {
  const form = target.closest("form[data-race-form]");
  if (!form || !form.querySelector(".machine input:checked")) return;
  clearTimeout(timer);
  timer = setTimeout(() => ask(form), WAIT_MS); // after a failure the next letter asks again
});
