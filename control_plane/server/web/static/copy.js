// Copies the text beside a button. Where scripts do not run there is no button, and the text can be selected.
const TOLD_MS = 1500;

function show(root) {
  root.querySelectorAll("button.copy[hidden]").forEach((each) => { each.hidden = false; });
}

function told(button, text) {
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  button.textContent = text;
  setTimeout(() => { button.textContent = before; }, TOLD_MS);
}

document.addEventListener("click", async ({ target }) => {
  const button = target.closest?.("button.copy");
  if (!button) return;
  const text = button.closest(".copied").querySelector("[data-copied]");
  try {
    await navigator.clipboard.writeText(text.textContent);
    told(button, "✓");
  } catch {
    // A page without a clipboard, as over plain HTTP: the text is selected, and the keyboard copies it.
    getSelection().selectAllChildren(text);
    told(button, "Selected");
  }
});

show(document);
// The page is swapped for a new one when something changed.
new MutationObserver(() => show(document)).observe(document.querySelector("main"), { childList: true, subtree: true });
