// Lets the fields of a form follow another one until they are edited, and says while it is typed what a form asks for.
const WAIT_MS = 300;
const CHARS_MAX = 6000; // of a question; of a longer one only scenarios and model are told
let timer = 0;
let asked = new AbortController();

const parts = {
  whole: (text) => text.trim(),
  last: (text) => text.trim().replace(/\/+$/, "").split("/").pop(),
};

// What a person typed is never written over: the names of such fields go with the form.
function touched(form) {
  return new Set(form.elements.touched.value.split(" ").filter(Boolean));
}

function hear(form, target) {
  const names = touched(form);
  if (target.dataset.follows) {
    if (target.value.trim()) names.add(target.name);
    else names.delete(target.name);
    form.elements.touched.value = [...names].join(" ");
  }
  follow(form, target.name);
}

function follow(form, name) {
  const names = touched(form);
  for (const each of form.querySelectorAll("[data-follows]")) {
    if (each.dataset.follows !== name || names.has(each.name)) continue;
    each.value = parts[each.dataset.part](form.elements[name].value);
  }
}

function choose(form) {
  for (const each of form.querySelectorAll("[data-engine]")) {
    each.hidden = each.dataset.engine !== form.elements.base_runtime.value;
    if (!each.hidden) each.open = true;
  }
}

async function ask(form) {
  asked.abort();
  asked = new AbortController();
  const typed = [...new FormData(form)].filter(([, value]) => typeof value === "string" && value);
  let query = new URLSearchParams(typed.filter(([name]) => name !== "form_token"));
  if (query.toString().length > CHARS_MAX) query = new URLSearchParams(typed.filter(([name]) => ["traffic_scenarios", "model_id"].includes(name)));
  const answer = await fetch(`${form.dataset.task}?${query}`, { signal: asked.signal });
  if (!answer.ok) return;
  const found = await answer.json();
  for (const each of form.querySelectorAll("[data-told]")) each.textContent = found[each.dataset.told];
}

function soon(form) {
  clearTimeout(timer);
  // An older question that was given up, or a server away for a moment: the next letter asks again.
  timer = setTimeout(() => ask(form).catch(() => undefined), WAIT_MS);
}

document.addEventListener("input", ({ target }) => {
  const form = target.closest("form[data-task]");
  if (!form) return;
  hear(form, target);
  if (target.name === "base_runtime") choose(form);
  soon(form);
});

// A second click sends nothing: the first one is on its way.
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-once]")) return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "1";
});
window.addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach((each) => { delete each.dataset.sent; }));

for (const form of document.querySelectorAll("form[data-task]")) {
  choose(form);
  soon(form);
}
