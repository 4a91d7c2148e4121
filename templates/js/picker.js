// Where a comparison of the run is best opened.
function openingOf(id) {
  return byId("picker")?.querySelector(`a[href^="#/pair/${id}/"]`)?.hash ?? `#/pair/${id}`;
}

// The dialog that leads to any comparison: those of the run, searched, or any two graphs.

function installPicker() {
  const dialog = byId("picker");
  if (!dialog) return;
  const items = [...dialog.querySelectorAll("li")];
  const search = byId("pick-search");
  byId("pick").addEventListener("click", () => dialog.showModal());
  search.addEventListener("input", () => {
    const text = search.value.trim().toLowerCase();
    for (const item of items) item.hidden = !item.textContent.toLowerCase().includes(text);
  });
  search.addEventListener("keydown", (event) => {
    const first = items.find((item) => !item.hidden);
    if (event.key !== "Enter" || !first) return;
    event.preventDefault();
    first.querySelector("a").click();
  });
  const [before, after] = dialog.querySelectorAll("select");
  byId("pick-any").addEventListener("click", () => {
    const explained = items.find((item) => item.querySelector("b").textContent === `${before.value} → ${after.value}`);
    location.hash = explained?.querySelector("a").hash ?? `#/pair/${before.value}~${after.value}`;
    dialog.close();
  });
  dialog.addEventListener("click", (event) => { if (event.target.closest("a")) dialog.close(); });
}
