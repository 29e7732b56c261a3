// Tells the numbers of a chart under the pointer, from the table that stands below it.
const LINE = "http://www.w3.org/2000/svg";
const NAME_CHARS_MAX = 40;
let shown = null;

function brief(name) {
  return name.length > NAME_CHARS_MAX ? `${name.slice(0, NAME_CHARS_MAX)}…` : name;
}

function leave() {
  if (!shown) return;
  shown.mark.remove();
  shown.readout.textContent = "";
  shown = null;
}

// Where on the x axis the pointer is: the picture has units of its own.
function placeOf(svg, clientX) {
  const { left, width } = svg.getBoundingClientRect();
  const { low, high, start, end, log } = svg.dataset;
  const at = ((clientX - left) / width) * svg.viewBox.baseVal.width;
  const share = (at - start) / (end - start);
  if (!log) return Number(low) + share * (high - low);
  return 10 ** (Math.log10(low) + share * (Math.log10(high) - Math.log10(low)));
}

function xOf(svg, value) {
  const { low, high, start, end, log } = svg.dataset;
  const scale = log ? Math.log10 : Number;
  return Number(start) + ((scale(value) - scale(low)) / (scale(high) - scale(low))) * (end - start);
}

function tell(svg, clientX) {
  const figure = svg.closest("figure");
  const rows = [...(figure?.querySelectorAll("tr[data-x]") ?? [])];
  if (!rows.length) return;
  const wanted = placeOf(svg, clientX);
  const far = (row) => Math.abs(Number(row.dataset.x) - wanted);
  const row = rows.reduce((best, each) => (far(each) < far(best) ? each : best));
  if (shown?.svg !== svg) {
    leave();
    const mark = document.createElementNS(LINE, "path");
    mark.setAttribute("class", "mark");
    svg.append(mark);
    shown = { svg, mark, readout: figure.querySelector(".readout") };
  }
  shown.mark.setAttribute("d", `M${xOf(svg, Number(row.dataset.x)).toFixed(1)} ${svg.dataset.top}V${svg.dataset.base}`);
  const names = [...figure.querySelectorAll("thead th")].map((each) => each.textContent);
  const values = [...row.cells].map((each) => each.textContent);
  const told = names.slice(1).map((name, index) => [name, values[index + 1]]).filter(([, value]) => value);
  const text = told.map(([name, value]) => (told.length > 1 ? `${brief(name)}: ${value}` : value)).join(" · ");
  shown.readout.textContent = `${names[0]} ${values[0]}: ${text}`;
}

document.addEventListener("pointermove", ({ target, clientX }) => {
  const svg = target.closest?.("svg.chart");
  if (svg) tell(svg, clientX);
  else leave();
}, { passive: true });
document.addEventListener("pointerleave", leave);
