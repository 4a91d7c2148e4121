// What each key does.

function actions() {
  const { view } = app;
  const shared = { o: () => { location.hash = "#/"; } };
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
