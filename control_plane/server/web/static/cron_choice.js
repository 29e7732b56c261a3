// Writes the cron text that is chosen: every few minutes, each hour, day, week or month.
const WRITTEN = {
  minutes: ({ step }) => `*/${step} * * * *`,
  hourly: ({ minute }) => `${minute} * * * *`,
  daily: ({ time }) => `${time} * * *`,
  weekly: ({ time, weekday }) => `${time} * * ${weekday}`,
  monthly: ({ time, day }) => `${time} ${day} * *`,
};

// What a field of the choice gives to the text: "minute hour" of a time, else a number; null where it is not filled in.
function part(field) {
  if (field.value === "" || !field.validity.valid) return null;
  if (field.type !== "time") return String(Number(field.value));
  const [hour, minute] = field.value.split(":").map(Number);
  return `${minute} ${hour}`;
}

function show(choice, often) {
  choice.querySelectorAll("[data-for]").forEach((each) => { each.hidden = !each.dataset.for.split(" ").includes(often); });
}

document.addEventListener("input", ({ target }) => {
  const form = target.closest("form[data-cron]");
  const choice = form && form.querySelector(".cron-choice");
  if (!choice) return;
  const often = choice.querySelector("[data-part=often]");
  if (target.name === "cron") {
    often.value = ""; // it is typed by hand
    return show(choice, "");
  }
  if (!choice.contains(target)) return;
  show(choice, often.value);
  const shown = [...choice.querySelectorAll("[data-for]:not([hidden]) [data-part]")];
  const parts = Object.fromEntries(shown.map((each) => [each.dataset.part, part(each)]));
  if (!Object.hasOwn(WRITTEN, often.value) || Object.values(parts).includes(null)) return;
  const cron = form.elements.cron;
  cron.value = WRITTEN[often.value](parts);
  cron.dispatchEvent(new CustomEvent("cron-written", { bubbles: true }));
});
