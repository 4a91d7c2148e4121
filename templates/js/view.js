// The pair view: head, tabs, tools, the list and the details, and the state that ties them.

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
    this.detail = new Detail(pair);
    this.panels = new Map();
    this.tabBar = h("nav", { class: "tabs", "aria-label": "Views of the pair" }, TABS.map(([key, title]) =>
      h("a", { href: address(pair, key), "data-tab": key }, title, " ", h("small", {}, this.tabCount(key)))));
    this.body = h("div", { class: "body", style: "display: contents" });
    const { a, b } = pair.labels;
    const proof = pair.data.proved && pair.causes.length ? h("span", { class: "proved" }, "  ✓ Proved: all of it undone, both are equal.") : "";
    this.element = h("div", { style: "display: contents" },
      h("div", { class: "pair-head" }, h("div", { class: "verdict" }, h("h1", {}, h("b", {}, `${a} → ${b}  `), said(pair.data.verdict), proof)), this.tabBar), this.body);
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
    this.searchField = h("input", { type: "search", placeholder: "Search name, opcode, shape, source", "aria-label": "Search instructions", oninput: () => this.filter() });
    this.kind = h("select", { "aria-label": "Kind of row", onchange: () => this.filter() },
      option("", "All rows"), option("differing", `Differing (${pair.differing.toLocaleString("en")})`),
      ...[CHANGED, REMOVED, ADDED, ASIDE].map((s) => option(STATUS[s], `${[, "Changed", `Only in ${pair.labels.a}`, `Only in ${pair.labels.b}`, "Set aside"][s]} (${counts[s].toLocaleString("en")})`)));
    this.cause = h("select", { "aria-label": "Cause", onchange: () => this.filter() },
      option("", "Any cause"), ...pair.causes.map((cause, k) => option(k, `${k + 1} ${cut(inWords(cause.title), 60)}`)), option("none", "Unexplained"));
    this.computation = h("select", { "aria-label": "Computation", onchange: () => this.filter() },
      option("", "All computations"), ...pair.sections.map((section, s) => option(s, cut(section.name, 60))));
    this.foldButton = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.foldAll() }, "Unfold");
    this.rawButton = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.toggleRaw() }, "Raw");
    this.count = h("span", { class: "count", role: "status" });
    return h("div", { class: "tools" }, this.searchField, this.kind, this.cause, this.computation, this.foldButton, this.rawButton,
      h("button", { type: "button", onclick: () => this.jump(-1), "aria-label": "Previous difference" }, "↑"),
      h("button", { type: "button", onclick: () => this.jump(1), "aria-label": "Next difference" }, "↓"), this.count);
  }

  show(tab, rest) {
    const known = TABS.some(([key]) => key === tab) ? tab : "i";
    if (known !== this.tab) {
      this.tab = known;
      for (const link of this.tabBar.children) {
        if (link.dataset.tab === known) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      }
      this.body.replaceChildren(...this.content(known));
    }
    if (known === "i") this.showInstruction(rest);
    else if (rest) byId(rest)?.focus();
  }

  content(tab) {
    if (tab === "i") return [this.tools, h("div", { class: "split" }, this.list.element, this.detail.element)];
    if (!this.panels.has(tab)) this.panels.set(tab, { io: slotsPanel, collectives: collectivesPanel, causes: causesPanel }[tab](this.pair));
    return [this.panels.get(tab)];
  }

  showInstruction(rest) {
    const cause = /^cause(\d+)$/.exec(rest);
    if (cause) {
      this.clear();
      this.cause.value = cause[1] === "0" ? "none" : String(Number(cause[1]) - 1);
      this.filter();
      return;
    }
    const found = /^([ab])(\d+)$/.exec(rest);
    const row = found ? this.pair.rowOf[found[1]][Number(found[2])] ?? -1 : -1;
    this.refresh();
    if (row < 0) return;
    if (!this.rows.place.has(row) && !this.rows.reveal(row)) {
      this.clear();
      this.rows.reveal(row);
    }
    this.refresh();
    this.list.moveTo(this.rows.place.get(row), true);
    if (this.detail.row !== row) this.detail.show(row);
  }

  // Selecting is a change of address, so that it can be linked to and undone by the back button.
  select(row, isNew) {
    const { pair } = this;
    const where = address(pair, "i", pair.b[row] >= 0 ? `b${pair.b[row]}` : `a${pair.a[row]}`);
    if (isNew) location.hash = where;
    else history.replaceState(null, "", where);
    this.detail.show(row);
    announce(pair.describe(row));
  }

  filter() {
    const { rows } = this;
    rows.kind = this.kind.value;
    rows.causeFilter = this.cause.value;
    rows.computation = this.computation.value;
    rows.search(this.searchField.value);
    this.list.at = -1;
    this.list.element.scrollTop = 0;
    this.refresh();
  }

  // Takes all filters away; says whether there were any.
  clear() {
    const had = this.rows.filtered || this.rows.computation !== "";
    for (const field of [this.searchField, this.kind, this.cause, this.computation]) field.value = "";
    if (had) {
      this.filter();
      if (this.detail.row >= 0 && this.rows.reveal(this.detail.row)) {
        this.refresh();
        this.list.moveTo(this.rows.place.get(this.detail.row), true);
      }
    }
    return had;
  }

  refresh() {
    this.count.textContent = this.rows.filtered ? plural(this.rows.matches, "match", "matches") : plural(this.pair.differing, "difference");
    this.list.refresh();
  }

  foldAll() {
    this.rows.all = !this.rows.all;
    this.rows.opened.clear();
    this.rows.lay();
    this.foldButton.setAttribute("aria-pressed", this.rows.all);
    const place = this.rows.place.get(this.detail.row);
    this.list.at = place ?? -1;
    this.refresh();
    if (place !== undefined) this.list.moveTo(place, true);
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
