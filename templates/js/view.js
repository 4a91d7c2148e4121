// The pair view: head, tabs, tools, the list and the details, and the state that ties them.

const FILTERS = ["q", "rows", "cause", "in"];
const TABS = [["i", "Instructions"], ["io", "Inputs and outputs"], ["collectives", "Collectives"], ["causes", "Causes"]];

class PairView {
  constructor(pair) {
    this.pair = pair;
    this.tab = "";
    this.rows = new Rows(pair);
    this.list = new List(pair, this.rows, {
      select: (row, isNew) => this.select(row, isNew),
      open: (k) => { this.rows.toggle(k); this.refresh(); },
    });
    this.map = new Minimap(this.list);
    this.detail = new Detail(pair, () => this.close());
    this.split = h("div", { class: "split" });
    this.split.append(this.list.element, this.map.frame, splitter(this.split), this.detail.element);
    this.panels = new Map();
    this.tabBar = h("nav", { class: "tabs", "aria-label": "Views of the pair" }, TABS.map(([key, title]) =>
      h("a", { href: address(pair, key), "data-tab": key }, title, " ", h("small", {}, this.tabCount(key)))));
    this.body = h("div", { class: "body", style: "display: contents" });
    this.element = h("div", { style: "display: contents" },
      pairHead(pair, this.tabBar), this.body);
    this.tools = this.makeTools();
  }

  tabCount(key) {
    const { data } = this.pair;
    const moved = [...data.parameters, ...data.outputs].filter((slot) => slotState(slot) !== "same").length;
    return { i: this.pair.differing.toLocaleString("en"), io: moved || "", collectives: data.bucketsA.length + data.bucketsB.length || "", causes: data.causes.length || "" }[key];
  }

  makeTools() {
    const { pair } = this;
    const option = (value, text) => h("option", { value }, text);
    const counts = STATUS.map((_, s) => pair.status.reduce((n, x) => n + (x === s), 0));
    this.searchField = h("input", {
      type: "search", placeholder: "Search tensor, name, shape, source, /regex/", "aria-label": "Search instructions",
      oninput: () => this.filter(), onkeydown: (event) => event.key === "Enter" && this.nextHit(event.shiftKey ? -1 : 1),
    });
    this.kind = h("select", { "aria-label": "Kind of row", onchange: () => this.filter() },
      option("", "All rows"), option("differing", `Differing (${pair.differing.toLocaleString("en")})`),
      option("origins", `Origins (${(pair.differing - pair.data.origins.length).toLocaleString("en")})`),
      ...[CHANGED, REMOVED, ADDED, ASIDE].map((s) => option(STATUS[s], `${[, "Changed", `Only in ${pair.labels.a}`, `Only in ${pair.labels.b}`, "Set aside"][s]} (${counts[s].toLocaleString("en")})`)));
    this.cause = h("select", { "aria-label": "Cause", onchange: () => this.filter() },
      option("", "Any cause"), ...pair.causes.map((cause, k) => option(k + 1, `${k + 1} ${cut(inWords(cause.title), 60)}`)), option("none", "Unexplained"));
    this.computation = h("select", { "aria-label": "Computation", onchange: () => this.filter() },
      option("", "All computations"), ...pair.sections.map((section, s) => option(s, cut(section.name, 60))));
    this.foldButton = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.foldAll() }, "Unfold");
    this.rawButton = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.toggleRaw() }, "Raw");
    this.count = h("span", { class: "count", role: "status" });
    return h("div", { class: "tools" }, this.searchField, filterButton(), h("div", { class: "filters" }, this.kind, this.cause, this.computation), this.foldButton, this.rawButton,
      h("button", { type: "button", onclick: () => this.jump(-1), "aria-label": "Previous difference" }, "↑"),
      h("button", { type: "button", onclick: () => this.jump(1), "aria-label": "Next difference" }, "↓"), this.count);
  }

  show(tab, rest, filters) {
    const known = TABS.some(([key]) => key === tab) ? tab : "i";
    if (known !== this.tab) {
      this.tab = known;
      for (const link of this.tabBar.children) {
        if (link.dataset.tab === known) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      }
      this.body.replaceChildren(...this.content(known));
    }
    if (known === "i") return this.showInstruction(rest, filters);
    showPart(this.body, rest);
    return !rest || byId(rest) !== null;
  }

  content(tab) {
    if (tab === "i") return [this.tools, this.split];
    if (!this.panels.has(tab)) this.panels.set(tab, { io: slotsPanel, collectives: collectivesPanel, causes: causesPanel }[tab](this.pair));
    return [this.panels.get(tab)];
  }

  // Shows a row under the filters of the address, or without any where they would hide it.
  showInstruction(rest, filters) {
    const found = /^([ab])(\d+)$/.exec(rest);
    const row = found ? this.pair.rowOf[found[1]][Number(found[2])] ?? -1 : rest ? -1 : this.first(filters);
    if (FILTERS.some((key) => this.field(key).value !== (filters[key] ?? ""))) {
      for (const key of FILTERS) this.field(key).value = filters[key] ?? "";
      this.rows.filter(this.filters());
    }
    this.detail.show(row);
    if (row >= 0 && !this.rows.reveal(row)) this.clear();
    this.list.at = -1;
    this.refresh(this.rows.place.get(row));
    return row >= 0 || !rest;
  }

  // The first origin, for an address that asks for nothing.
  first(filters) {
    return Object.keys(filters).length ? -1 : this.pair.status.findIndex((_, row) => this.pair.isOrigin(row));
  }

  // Selecting is a change of address, so that it can be linked to and undone by the back button.
  select(row, isNew) {
    const { pair } = this;
    const where = this.address(row);
    if (isNew) location.hash = where;
    else history.replaceState(null, "", where);
    this.detail.show(row);
    announce(pair.describe(row));
  }

  address(row) {
    const { pair } = this;
    const set = Object.entries(this.filters()).filter(([, value]) => value);
    const query = set.length ? `?${new URLSearchParams(set)}` : "";
    return address(pair, "i", row < 0 ? "" : pair.b[row] >= 0 ? `b${pair.b[row]}` : `a${pair.a[row]}`) + query;
  }

  field(key) { return { q: this.searchField, rows: this.kind, cause: this.cause, in: this.computation }[key]; }

  filters() { return Object.fromEntries(FILTERS.map((key) => [key, this.field(key).value])); }

  filter() {
    this.rows.filter(this.filters());
    this.list.at = -1;
    this.list.element.scrollTop = 0;
    history.replaceState(null, "", this.address(this.detail.row));
    this.refresh();
  }

  close() {
    this.detail.show(-1);
    this.list.at = -1;
    history.replaceState(null, "", this.address(-1));
    this.refresh();
    this.list.element.focus();
  }

  // The next row of the list, from the field of the search.
  nextHit(by) {
    const { rows } = this;
    let k = this.list.at + by;
    while (k >= 0 && k < rows.length && rows.type[k] !== ROW) k += by;
    if (rows.type[k] !== ROW) return announce(by > 0 ? "No further match" : "No earlier match");
    this.list.moveTo(k, true);
    this.select(rows.from[k], false);
  }

  // Takes all filters away; says whether there were any.
  clear() {
    const had = this.rows.filtered || this.rows.computation !== "";
    if (!had) return false;
    for (const key of FILTERS) this.field(key).value = "";
    this.filter();
    if (this.detail.row >= 0 && this.rows.reveal(this.detail.row)) this.refresh(this.rows.place.get(this.detail.row));
    return true;
  }

  // Draws anew; an item of the list that is given gets the cursor and comes into view.
  refresh(item = -1) {
    const wrong = this.rows.query.find((term) => term.wrong);
    this.searchField.setAttribute("aria-invalid", Boolean(wrong));
    this.count.textContent = wrong ? `not a regular expression: ${wrong.wrong}`
      : this.rows.filtered ? plural(this.rows.matches, "match", "matches") : plural(this.pair.differing, "difference");
    this.list.refresh(item);
    this.map.draw();
  }

  foldAll() {
    this.rows.all = !this.rows.all;
    this.rows.opened.clear();
    this.rows.lay();
    this.foldButton.setAttribute("aria-pressed", this.rows.all);
    this.list.at = -1;
    this.refresh(this.rows.place.get(this.detail.row));
  }

  toggleRaw() {
    this.list.raw = this.detail.raw = !this.list.raw;
    this.rawButton.setAttribute("aria-pressed", this.list.raw);
    this.list.refresh();
    this.detail.show(this.detail.row);
  }

  step(by) {
    const k = Math.max(0, Math.min(this.rows.length - 1, this.list.at + by));
    this.list.moveTo(k);
    if (this.rows.type[k] === ROW) this.select(this.rows.from[k], false);
  }

  jump(by) {
    const { rows, pair } = this;
    for (let k = this.list.at + by; k >= 0 && k < rows.length; k += by) {
      if (rows.type[k] === ROW && pair.differs(rows.from[k])) {
        this.list.moveTo(k, true);
        this.select(rows.from[k], false);
        return;
      }
    }
    announce(by > 0 ? "No further difference" : "No earlier difference");
  }

  enter() {
    const k = this.list.at;
    if (k < 0) return;
    if (this.rows.type[k] === ROW) this.detail.element.querySelector("a, button, summary")?.focus();
    else { this.rows.toggle(k); this.refresh(); }
  }
}

// On a narrow screen the filters are out of the way until they are asked for.
function filterButton() {
  const button = h("button", { type: "button", class: "filter-button", "aria-expanded": "false", onclick: () => {
    button.setAttribute("aria-expanded", button.getAttribute("aria-expanded") !== "true");
  } }, "Filters");
  return button;
}
