// Addresses to views: #/ overview, #/pair/G/i/a12 instruction 12 of A, io, collectives, causes.

const app = {
  view: null,
  pairs: new Map(),
  title: document.title,
  turn: 0,

  async pair(id) {
    if (!this.pairs.has(id)) {
      const packed = hasBlob(`pair-${id}`) ? await blob(`pair-${id}`) : null;
      const letters = packed?.modules ?? id.split("~");
      const [a, b] = await Promise.all(letters.map((key) => module(key)));
      this.pairs.set(id, new PairView(new Pair(packed ?? comparedData(id, letters, a, b), a, b)));
    }
    return this.pairs.get(id);
  },

  // An address that comes while an earlier one's graphs are unpacked is the one that is shown.
  async route() {
    const turn = ++this.turn;
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const [kind, id = "", tab = "i", rest = ""] = path.split("/");
    const isPair = kind === "pair" && isShown(id);
    const view = isPair ? await this.pair(id) : null;
    if (turn !== this.turn) return;
    byId("overview").hidden = isPair;
    byId("pair").hidden = !isPair;
    for (const link of document.querySelectorAll(".views a")) {
      if ((link.dataset.view === "pair") === isPair) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (this.view !== view) {
      window.scrollTo(0, 0);
      announce(view ? `Comparing ${view.pair.data.title}` : "Overview");
    }
    this.view = view;
    if (view && byId("pair").firstChild !== view.element) byId("pair").replaceChildren(view.element);
    const found = view ? view.show(tab, rest, Object.fromEntries(new URLSearchParams(query))) : showPlace(kind) && !id;
    tellLost(found);
    document.title = view ? `${view.pair.data.title} · ${this.title}` : this.title;
    document.body.dataset.ready = location.hash;
  },
};

// A comparison that the report packed, or of two graphs that are on the page.
function isShown(id) {
  const letters = id.split("~");
  return hasBlob(`pair-${id}`) || (letters.length === 2 && letters.every((letter) => hasBlob(`module-${letter}`)));
}

const modules = new Map();

function module(key) {
  if (!modules.has(key)) modules.set(key, blob(`module-${key}`).then((data) => new Module(data)));
  return modules.get(key);
}

async function start() {
  installShell();
  installPicker();
  if (byId("timeline")) await Promise.all([drawTimeline(byId("timeline")), installLongTables()]);
  installKeys(actions, () => app.view?.clear());
  installPrint(
    () => {
      if (app.view?.tab === "i") app.view.list.drawForPrint();
      for (const table of longTables) table.draw(true);
    },
    () => {
      app.view?.list.printed();
      for (const table of longTables) table.draw();
    },
  );
  window.addEventListener("hashchange", () => app.route());
  app.route();
}

start();
