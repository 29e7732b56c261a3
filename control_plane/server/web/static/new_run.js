// Says while a run is typed what is wrong with a field, where the run may start, what it takes, and its command.
const WAIT_MS = 300;
const CHARS_MAX = 4000; // of a question; a longer one is asked about the field and the options alone
let timer = 0;
let asked = new AbortController();

function question(form, target) {
  const typed = [...new FormData(form)].filter(([, value]) => typeof value === "string" && value);
  const about = (fields) => new URLSearchParams([["at", target.name], ...fields]);
  const own = new Set(["kind", target.name]);
  const whole = about(typed.filter(([name]) => name === "kind" || form.querySelector(`.field [name="${CSS.escape(name)}"]`)));
  if (whole.toString().length <= CHARS_MAX) return whole;
  const part = about([["part", "1"], ...typed.filter(([name]) => own.has(name) || name.startsWith("requires."))]);
  return part.toString().length <= CHARS_MAX ? part : null;
}

function tell(target, found) {
  const id = `${target.id}-problem`;
  let place = document.getElementById(id);
  if (!place && found.problem) {
    place = document.createElement("p");
    place.id = id;
    place.className = "bad";
    place.setAttribute("aria-live", "polite");
    target.closest(".field").append(place);
  }
  if (place) place.textContent = found.problem;
  target.setAttribute("aria-invalid", String(found.problem !== ""));
  const words = [target.getAttribute("aria-describedby") || "", id].join(" ").trim().split(/\s+/);
  target.setAttribute("aria-describedby", [...new Set(words)].filter((each) => document.getElementById(each)).join(" "));
  document.getElementById("outlook-where").textContent = found.where || "not known while its requirements are not valid";
  if (found.cost !== null) document.getElementById("outlook-cost").textContent = found.cost;
  document.getElementById("commands").hidden = !found.commands;
  for (const name of ["cli", "curl"]) document.getElementById(`commands-${name}`).textContent = found.commands ? found.commands[name] : "";
}

async function ask(form, target) {
  asked.abort();
  asked = new AbortController();
  const query = question(form, target);
  if (!query) return;
  const answer = await fetch(`${form.dataset.look}?${query}`, { signal: asked.signal });
  if (answer.ok) tell(target, await answer.json());
}

document.addEventListener("input", ({ target }) => {
  const form = target.closest("form[data-look]");
  if (!form || !target.closest(".field")) return;
  clearTimeout(timer);
  // An older question that was given up, or a server away for a moment: the next letter asks again.
  timer = setTimeout(() => ask(form, target).catch(() => undefined), WAIT_MS);
});
