// An address from when a run had one page: what its anchor names stands on a tab of its own now.
const wanted = decodeURIComponent(location.hash.slice(1));
if (wanted && !document.getElementById(wanted)) {
  const has = (each) => each.dataset.anchors.split(" ").some((name) => (name.endsWith("-") ? wanted.startsWith(name) : wanted === name));
  const tab = [...document.querySelectorAll("nav.tabs a[data-anchors]:not([aria-current])")].find(has);
  if (tab) location.replace(tab.href + location.hash);
}
