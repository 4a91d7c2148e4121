// Addresses: #/op/123 the operator in line 123 of the log, #/finding/2 in the picture, #finding-2 its card.

const app = {
  view: null,

  show(finding) { location.hash = `#/finding/${finding.number}`; },

  // Selecting is a change of address, so that it can be linked to and undone by the back button.
  select(column) { location.hash = `#/op/${this.view.lanes.lines[column]}`; },

  route() {
    const { view } = this, { lanes } = view;
    const [kind, id] = location.hash.replace(/^#\/?/, "").split("/");
    document.querySelector("#overview .hit")?.classList.remove("hit");
    if (kind === "op") {
      const column = lanes.columnOf(Number(id));
      if (column >= 0) view.select(column);
      tellLost(column >= 0);
      this.toPicture();
    } else if (kind === "finding") {
      const finding = lanes.findings.find((one) => one.number === Number(id));
      if (finding) view.show(finding);
      tellLost(Boolean(finding));
      this.mark(finding);
      this.toPicture();
    } else {
      this.showCard(kind);
    }
    document.body.dataset.ready = location.hash;
  },

  // A card that is linked to is shown in the picture too.
  showCard(id) {
    const finding = this.view.lanes.findings.find((one) => `finding-${one.number}` === id);
    if (finding) this.view.show(finding);
    tellLost(showAnchor(id));
  },

  mark(finding) {
    const card = finding && byId(`finding-${finding.number}`);
    if (card) card.classList.add("hit");
  },

  toPicture() {
    const box = this.view.place.getBoundingClientRect();
    if (box.top < 50 || box.bottom > innerHeight) this.view.place.scrollIntoView({ block: box.height > innerHeight - 60 ? "start" : "center" });
  },
};

function actions() {
  const { view } = app;
  if (!view) return {};
  return {
    n: () => view.nextFinding(1), p: () => view.nextFinding(-1), "+": () => view.zoom(1.6), "=": () => view.zoom(1.6), "-": () => view.zoom(1 / 1.6),
    0: () => view.showAll(), "/": () => view.searchField.focus(),
  };
}

async function start() {
  installShell();
  installKeys(actions, () => app.view?.clear());
  installPrint(() => {}, () => {});
  const lanes = new Lanes(await blob("lanes"));
  app.view = new LaneView(lanes, byId("lanes"), {
    select: (column) => app.select(column), show: (finding) => app.show(finding),
    ready() {
      if (lanes.findings.length) app.view.show(lanes.findings[0]);
      window.addEventListener("hashchange", () => app.route());
      app.route();
    },
  });
}

start();
