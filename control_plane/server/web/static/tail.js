// The end of a log: new lines are added below, and followed only by whoever is at the bottom.
const LINES_MAX = 2000;
const NEAR_PX = 80;

function isAtBottom() {
  const page = document.documentElement;
  return page.scrollHeight - page.scrollTop - page.clientHeight < NEAR_PX;
}

export function follow(log, message, fits, parsed) {
  if (document.getElementById(message.id) || !fits(log, message)) return;
  log.querySelector(".empty")?.closest("tr").remove();
  const wasAtBottom = isAtBottom();
  log.append(parsed(message.html));
  if (!wasAtBottom) {
    document.querySelector("[data-more]").hidden = false;
    return;
  }
  while (log.rows.length > LINES_MAX) log.firstElementChild.remove();
  scrollTo({ top: document.documentElement.scrollHeight });
}

const more = document.querySelector("[data-more]");
addEventListener("scroll", () => more && isAtBottom() && (more.hidden = true), { passive: true });
if (more && !location.hash) scrollTo({ top: document.documentElement.scrollHeight });
