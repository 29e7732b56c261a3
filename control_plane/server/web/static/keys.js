// The keyboard: / searches, j and k go through the rows, Enter opens, Esc leaves, ? shows the keys. And the theme's switch.
const THEMES = ["system", "light", "dark"];
const SIGNS = { system: "◐", light: "☀", dark: "☾" };
const KEYS = [["/", "search"], ["j, k", "next and previous row"], ["Enter", "open the row"], ["x", "tick the row"], ["Esc", "leave a field or the rows"], ["?", "show these keys"]];
const main = document.querySelector("main");
let current = null; // the id of the row, which outlives the row itself: rows are swapped for new ones

function rows() {
  return [...main.querySelectorAll("tbody tr")].filter((each) => each.querySelector("a[href]"));
}

function mark(row) {
  main.querySelectorAll("tr.current").forEach((each) => each.classList.remove("current"));
  current = row ? { id: row.id, place: rows().indexOf(row) } : null;
  if (!row) return;
  row.classList.add("current");
  const link = row.querySelector("a[href]");
  link.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

function marked() {
  const active = document.activeElement?.closest("main tbody tr");
  if (active) return active;
  if (!current) return null;
  return (current.id && document.getElementById(current.id)) || rows()[current.place] || null;
}

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(marked());
  mark(all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + by))]);
}

function help() {
  let dialog = document.querySelector("dialog.keys");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.className = "keys";
    dialog.setAttribute("aria-labelledby", "keys-title");
    const title = Object.assign(document.createElement("h2"), { id: "keys-title", textContent: "Keys" });
    const list = document.createElement("dl");
    for (const [key, does] of KEYS) {
      const name = document.createElement("dt");
      name.append(Object.assign(document.createElement("kbd"), { textContent: key }));
      list.append(name, Object.assign(document.createElement("dd"), { textContent: does }));
    }
    const form = Object.assign(document.createElement("form"), { method: "dialog" });
    form.append(Object.assign(document.createElement("button"), { textContent: "Close" }));
    dialog.append(title, list, form);
    document.body.append(dialog);
  }
  if (!dialog.open) dialog.showModal();
}

function search() {
  const field = main.querySelector("input[type=search]");
  if (field) {
    field.focus();
    field.select();
  } else location.href = "/runs#search";
}

function leave(target) {
  if (target.closest("input, select, textarea")) target.blur();
  else mark(null);
  if (document.activeElement?.closest("main tbody tr")) document.activeElement.blur();
}

const DOES = {
  "/": search,
  j: () => step(1),
  k: () => step(-1),
  x: () => marked()?.querySelector("input[type=checkbox]")?.click(),
  "?": help,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") return leave(event.target);
  if (event.target.closest("input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]")) return;
  // A row that was swapped for a new one took the focus with it.
  if (event.key === "Enter" && current && !event.target.closest("a, button, summary, input")) marked()?.querySelector("a[href]").click();
  const act = DOES[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

function show(button, theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.replaceChildren(Object.assign(document.createElement("span"), { ariaHidden: "true", textContent: SIGNS[theme] }), ` ${theme}`);
  button.setAttribute("aria-label", `Theme: ${theme}`);
}

// A row that was swapped for a new one is still the one that is marked.
new MutationObserver(() => current && marked()?.classList.add("current")).observe(main, { childList: true, subtree: true });

const button = document.querySelector("button.theme");
if (button) {
  show(button, document.documentElement.dataset.theme || "system");
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "system") + 1) % THEMES.length];
    show(button, next);
    try {
      localStorage.setItem("theme", next);
    } catch {
      // It holds for this page, where the browser keeps nothing.
    }
  });
}
if (location.hash === "#search") search();
