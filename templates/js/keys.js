// Keys. None of them acts while a field has the focus, but Escape.

function installKeys(app) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.closest("input, select, textarea");
    if (event.key === "Escape") {
      if (app.view?.clear()) event.preventDefault();
      if (field) field.blur();
      return;
    }
    if (field || byId("help").open) return;
    const action = actions(app)[event.key];
    if (action && action(event) !== false) event.preventDefault();
  });
}

function actions(app) {
  const { view } = app;
  const shared = {
    "?": () => byId("help").showModal(),
    o: () => { location.hash = "#/"; },
    t: () => app.switchTheme(),
  };
  if (!view) return shared;
  const tab = (name) => () => { location.hash = address(view.pair, name); };
  const tabs = { 1: tab("i"), 2: tab("io"), 3: tab("collectives"), 4: tab("causes") };
  if (view.tab !== "i") return { ...shared, ...tabs };
  const inDetail = () => view.detail.element.contains(document.activeElement) && document.activeElement !== view.detail.element;
  return {
    ...shared, ...tabs,
    n: () => view.jump(1), p: () => view.jump(-1),
    ArrowDown: () => view.step(1), ArrowUp: () => view.step(-1), j: () => view.step(1), k: () => view.step(-1),
    Enter: () => !inDetail() && document.activeElement === view.list.element && view.enter(),
    f: () => view.foldAll(), r: () => view.toggleRaw(),
    "/": () => view.searchField.focus(),
  };
}
