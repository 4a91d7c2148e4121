// Addresses to views: #/ overview, #/pair/G/i/a12 instruction 12 of A, io, collectives, causes.

const app = {
  view: null,
  pairs: new Map(),
  title: document.title,

  async pair(id) {
    if (!this.pairs.has(id)) {
      const data = await blob(`pair-${id}`);
      const [a, b] = await Promise.all(data.modules.map((key) => module(key)));
      this.pairs.set(id, new PairView(new Pair(data, a, b)));
    }
    return this.pairs.get(id);
  },

  switchTheme() {
    const root = document.documentElement;
    const now = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  },

  // A cause or a graph of the overview, as #cause-1 or #graph-E.
  showAnchor(id) {
    document.querySelector("#overview .hit")?.classList.remove("hit");
    const goal = id && byId("overview").querySelector(`#${CSS.escape(id)}`);
    if (!goal) return;
    goal.classList.add("hit");
    goal.scrollIntoView({ block: "center" });
  },

  async route() {
    const [kind, id, tab = "i", rest = ""] = location.hash.replace(/^#\/?/, "").split("/");
    const isPair = kind === "pair" && hasBlob(`pair-${id}`);
    const view = isPair ? await this.pair(id) : null;
    byId("overview").hidden = isPair;
    byId("pair").hidden = !isPair;
    for (const link of document.querySelectorAll(".views a")) {
      if ((link.dataset.view === "pair") === isPair) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (byId("pick-pair")) byId("pick-pair").value = isPair ? id : "";
    if (this.view !== view) {
      window.scrollTo(0, 0);
      announce(view ? `Comparing ${view.pair.data.title}` : "Overview");
    }
    this.view = view;
    if (!view) this.showAnchor(kind);
    if (view) {
      if (byId("pair").firstChild !== view.element) byId("pair").replaceChildren(view.element);
      view.show(tab, rest);
    }
    document.title = view ? `${view.pair.data.title} · ${this.title}` : this.title;
    document.body.dataset.ready = location.hash;
  },
};

const modules = new Map();

function module(key) {
  if (!modules.has(key)) modules.set(key, blob(`module-${key}`).then((data) => new Module(data)));
  return modules.get(key);
}

// Paper has no use for closed details, and room for more rows than a screen.
function installPrint() {
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
    if (app.view?.tab === "i") app.view.list.drawForPrint();
  });
  window.addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
    app.view?.list.refresh();
  });
}

function start() {
  byId("theme").addEventListener("click", () => app.switchTheme());
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  byId("pick-pair")?.addEventListener("change", (event) => { location.hash = event.target.value ? `#/pair/${event.target.value}` : "#/"; });
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
  if (byId("timeline")) drawTimeline(byId("timeline"));
  installKeys(app);
  installPrint();
  window.addEventListener("hashchange", () => app.route());
  app.route();
}

start();
