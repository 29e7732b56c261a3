// Fetches a page again and swaps what it shows, without moving what a person works with.
const main = document.querySelector("main");

function relative(element) {
  const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
  if (Number.isNaN(seconds)) return; // a leap second is a moment, and no browser can read it
  const size = Math.abs(seconds);
  const steps = [[60, 1, "second"], [3600, 60, "minute"], [86400, 3600, "hour"], [Infinity, 86400, "day"]];
  const [, unit, name] = steps.find(([below]) => size < below);
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
  element.textContent = words.format(-Math.round(seconds / unit), name);
}

export function tellTimes(root) {
  root.querySelectorAll("time[datetime]").forEach(relative);
}

function isBusy() {
  const active = document.activeElement;
  const selected = String(window.getSelection());
  return document.hidden || selected !== "" || (active && active.closest("form, summary") !== null);
}

function isTouched(form) {
  return [...form.elements].some((each) => {
    if (each instanceof HTMLSelectElement) return each.selectedIndex !== Math.max(0, [...each.options].findIndex((option) => option.defaultSelected));
    if (each.type === "radio" || each.type === "checkbox") return each.checked !== each.defaultChecked;
    return "defaultValue" in each && each.value !== each.defaultValue;
  });
}

// What somebody has typed or chosen stays, however often the page is fetched.
function keepForms(fresh) {
  const touched = new Map([...main.querySelectorAll("form[data-keep]")].filter(isTouched).map((each) => [each.getAttribute("action"), each]));
  fresh.querySelectorAll("form[data-keep]").forEach((each) => touched.has(each.getAttribute("action")) && each.replaceWith(touched.get(each.getAttribute("action"))));
}

// By id, since what comes above may be new.
function keepOpen(fresh) {
  const open = new Map([...main.querySelectorAll("details")].map((each, index) => [each.id || index, each.open]));
  fresh.querySelectorAll("details").forEach((each, index) => { each.open = open.get(each.id || index) ?? each.open; });
}

// What is ticked stays ticked.
function keepTicks(fresh) {
  const ticked = new Set([...main.querySelectorAll(".pick input:checked")].map((each) => each.value));
  fresh.querySelectorAll(".pick input").forEach((each) => { each.checked = ticked.has(each.value); });
}

// A paper that somebody reads keeps its place: a frame that is moved, even for a moment, begins anew.
function swap(fresh) {
  const framed = new Map([...main.children].filter((each) => each.querySelector("iframe")).map((each) => [each.outerHTML, each]));
  const staying = new Map();
  for (const each of [...fresh.children]) {
    const there = framed.get(each.outerHTML);
    if (!there || staying.has(there)) continue;
    staying.set(there, document.createComment("stays"));
    each.replaceWith(staying.get(there));
  }
  keepForms(fresh);
  [...main.childNodes].forEach((each) => staying.has(each) || each.remove());
  let place = main.firstChild;
  for (const each of [...fresh.childNodes]) {
    if (place && staying.get(place) === each) place = place.nextSibling;
    else main.insertBefore([...staying.keys()].find((kept) => staying.get(kept) === each) ?? each, place);
  }
}

// The signs of running runs stand in the header, which is not swapped.
function tellRunning(whole) {
  document.querySelectorAll("header .running").forEach((each) => each.remove());
  const before = document.querySelector("header nav a[href='/runs']");
  whole.querySelectorAll("header .running").forEach((each) => before.before(each, "\n"));
}

// Says whether it looked: not while somebody works with what would be swapped.
export async function refresh() {
  if (isBusy()) return false;
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return true;
  const whole = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = whole.querySelector("main");
  if (!fresh || isBusy()) return !fresh;
  tellRunning(whole);
  keepOpen(fresh);
  keepTicks(fresh);
  const known = new Map([...main.querySelectorAll("img")].map((each) => [each.getAttribute("src"), each]));
  fresh.querySelectorAll("img").forEach((each) => known.has(each.getAttribute("src")) && each.replaceWith(known.get(each.getAttribute("src"))));
  tellTimes(fresh);
  tellTimes(main);
  if (fresh.innerHTML !== main.innerHTML) swap(fresh);
  main.dataset.refresh = fresh.dataset.refresh;
  main.dataset.topics = fresh.dataset.topics;
  return true;
}
