// Says while a race is typed whether the lanes that are ticked can take it.
const WAIT_MS = 300;
const CHARS_MAX = 6000; // of a question; a longer one is answered by the button
const MARKS = { GOOD: "✓", RISK: "⚠", FAIL: "✗" };
let timer = 0;
let asked = new AbortController();

function tell(form, found) {
  form.querySelector("#race-problem").textContent = found.problem;
  for (const machine of form.querySelectorAll(".machine")) {
    const lane = found.lanes[machine.dataset.pod];
    if (!lane || !(lane.grade in MARKS)) continue;
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
  const typed = [...new FormData(form)].filter(([name, value]) => typeof value === "string" && value && name !== "form_token");
  const query = new URLSearchParams(typed).toString();
  if (query.length > CHARS_MAX) return;
  const answer = await fetch(`${form.dataset.raceForm}?${query}`, { signal: asked.signal });
  if (answer.ok) tell(form, await answer.json());
}

document.addEventListener("input", ({ target }) => {
  const form = target.closest("form[data-race-form]");
  if (!form || !form.querySelector(".machine input:checked")) return;
  clearTimeout(timer);
  // An older question that was given up, or a server away for a moment: the next letter asks again.
  timer = setTimeout(() => ask(form).catch(() => undefined), WAIT_MS);
});
