// Keeps a page current: fetches it again and swaps what it shows, without moving what a person works with.
const main = document.querySelector("main");

function relative(element) {
  const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
  const size = Math.abs(seconds);
  const steps = [[60, 1, "second"], [3600, 60, "minute"], [86400, 3600, "hour"], [Infinity, 86400, "day"]];
  const [, unit, name] = steps.find(([below]) => size < below);
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
  element.textContent = words.format(-Math.round(seconds / unit), name);
}

function tellTimes() {
  document.querySelectorAll("time[datetime]").forEach(relative);
}

function isBusy() {
  const active = document.activeElement;
  const selected = String(window.getSelection());
  return document.hidden || selected !== "" || (active && active.closest("form, summary") !== null);
}

async function refresh() {
  if (isBusy()) return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  if (!fresh || isBusy()) return;
  const open = [...main.querySelectorAll("details")].map((each) => each.open);
  fresh.querySelectorAll("details").forEach((each, index) => { each.open = open[index] ?? each.open; });
  const known = new Map([...main.querySelectorAll("img")].map((each) => [each.getAttribute("src"), each]));
  fresh.querySelectorAll("img").forEach((each) => known.has(each.getAttribute("src")) && each.replaceWith(known.get(each.getAttribute("src"))));
  fresh.querySelectorAll("time[datetime]").forEach(relative);
  if (fresh.innerHTML !== main.innerHTML) main.replaceChildren(...fresh.childNodes);
  main.dataset.refresh = fresh.dataset.refresh;
}

async function turn() {
  const seconds = Number(main.dataset.refresh);
  if (!(seconds > 0)) return;
  // A server that is away for a moment changes nothing; the next turn asks again.
  await refresh().catch(() => undefined);
  setTimeout(turn, seconds * 1000);
}

tellTimes();
setInterval(tellTimes, 10000);
setTimeout(turn, Number(main.dataset.refresh) * 1000);
