// A theme that somebody chose holds from the first paint on: this is no module, and so comes before it.
(() => {
  const known = ["light", "dark"];
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // A browser that keeps nothing follows the system.
  }
  if (known.includes(chosen)) document.documentElement.dataset.theme = chosen;
})();
