// What all pages have: the theme, the help, keys, addresses of parts, printing.

function switchTheme() {
  const root = document.documentElement;
  const now = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  document.dispatchEvent(new Event("theme"));
}

// A card or a row of the overview, as #cause-1 or #graph-E; says whether it is there.
function showAnchor(id) {
  return showPart(byId("overview"), id) || !id;
}

function showPart(within, id) {
  within.querySelector(".hit")?.classList.remove("hit");
  const found = id && within.querySelector(`#${CSS.escape(id)}`);
  if (!found) return false;
  const goal = found.closest("tr") ?? found;
  for (let fold = goal.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  goal.classList.add("hit");
  goal.scrollIntoView({ block: "center" });
  if (goal.hasAttribute("tabindex")) goal.focus({ preventScroll: true });
  return true;
}

// Keys by what `actions` gives. None of them acts while a field has the focus, but Escape.
function installKeys(actions, clear) {
  const shared = { "?": () => byId("help").showModal(), t: switchTheme };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.closest("input, select, textarea");
    if (event.key === "Escape") {
      if (clear()) event.preventDefault();
      if (field) field.blur();
      return;
    }
    if (field || byId("help").open) return;
    const action = actions()[event.key] ?? shared[event.key];
    if (action && action(event) !== false) event.preventDefault();
  });
}

// Paper has no use for closed details, and room for more rows than a screen.
function installPrint(before, after) {
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
    before();
  });
  window.addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
    after();
  });
}

// Says of an address that nothing is there; the overview is shown instead.
function tellLost(found) {
  byId("lost").hidden = found;
  byId("lost-address").textContent = location.hash;
}

function installShell() {
  byId("theme").addEventListener("click", switchTheme);
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
}
