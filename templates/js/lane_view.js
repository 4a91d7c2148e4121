// The picture: what is in view, what is chosen, and how hand and keys change it.

const CLOSEST = 160, WHOLE = 40, REACH = 6;

class LaneView {
  constructor(lanes, place, on) {
    this.lanes = lanes;
    this.place = place;
    this.on = on; // select(column), show(finding)
    this.left = 0;
    this.scale = 1;
    this.width = 0;
    this.column = -1;
    this.finding = null;
    this.matches = null;
    this.height = HEAD + lanes.streams.length * LANE + 6;
    this.picture = h("canvas", {
      class: "picture", tabindex: "0", role: "application", "aria-label": this.summary(),
      onpointerdown: (event) => this.grab(event), onpointermove: (event) => this.move(event),
      onpointerup: (event) => this.release(event), onpointerleave: () => { this.tip.hidden = true; },
      onkeydown: (event) => this.key(event),
    });
    this.picture.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.whole = h("canvas", {
      class: "whole", "aria-hidden": "true",
      onpointerdown: (event) => { this.whole.setPointerCapture(event.pointerId); this.jump(event); },
      onpointermove: (event) => { if (event.buttons) this.jump(event); },
    });
    this.tip = h("div", { class: "tip", hidden: true });
    this.count = h("span", { class: "count", role: "status" });
    this.chosen = h("div", { class: "chosen", id: "chosen" });
    const names = h("ol", { "aria-label": "Streams" }, lanes.streams.map((one, lane) => h("li", { title: `${one.name}, ${plural(one.operators, "operator")}` },
      h("span", { class: `dot g${lane % FILLS.length}`, "aria-hidden": "true" }), one.name)));
    this.stage = h("div", { class: "stage" }, names, this.picture);
    place.replaceChildren(h("div", { class: "lanes" }, this.tools(), this.stage, this.whole, this.tip, this.chosen));
    new ResizeObserver(() => this.resize()).observe(this.picture);
    document.addEventListener("theme", () => this.recolour());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    this.recolour();
  }

  summary() {
    const { lanes } = this;
    return `Picture of ${plural(lanes.length, "operator")} on ${plural(lanes.streams.length, "stream")}, ${plural(lanes.ends.length, "wait")}, ${plural(lanes.findings.length, "finding")}. Arrow keys move from operator to operator, plus and minus zoom.`;
  }

  tools() {
    const button = (label, text, act) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    this.searchField = h("input", {
      type: "search", placeholder: "Search operator, node, line, parameter", "aria-label": "Search operators",
      oninput: () => this.search(), onkeydown: (event) => { if (event.key === "Enter") this.nextMatch(event.shiftKey ? -1 : 1); },
    });
    const findings = this.lanes.findings.length
      ? [button("Previous finding", "↑", () => this.nextFinding(-1)), button("Next finding", "↓", () => this.nextFinding(1))] : [];
    return h("div", { class: "tools" }, this.searchField, button("Closer", "+", () => this.zoom(1.6)), button("Farther", "−", () => this.zoom(1 / 1.6)),
      button("The whole log", "All", () => this.showAll()), findings, this.count);
  }

  // ---- what is in view

  get inView() { return this.width / this.scale; }
  get farthest() { return this.width / Math.max(this.lanes.length, 1); }

  resize() {
    const { clientWidth } = this.picture;
    if (!clientWidth || clientWidth === this.width) return;
    const isFirst = !this.width;
    this.width = clientWidth;
    if (isFirst) this.frame(0, this.lanes.length);
    this.set(this.left, this.scale);
    if (isFirst) this.on.ready();
  }

  set(left, scale) {
    this.scale = Math.min(CLOSEST, Math.max(Math.min(this.farthest, CLOSEST), scale));
    this.left = Math.max(0, Math.min(left, this.lanes.length - this.inView));
    this.draw();
  }

  frame(from, to) {
    const margin = Math.max(2, (to - from) * 0.12), scale = this.width / (to - from + 2 * margin);
    const limited = Math.min(64, Math.max(this.farthest, scale));
    this.set((from + to) / 2 - this.width / limited / 2, limited);
  }

  showAll() { this.set(0, this.farthest); }

  zoom(by, at = this.width / 2) {
    const place = this.left + at / this.scale;
    const scale = Math.min(CLOSEST, Math.max(this.farthest, this.scale * by));
    this.set(place - at / scale, scale);
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
    });
  }

  paint() {
    if (!this.width) return;
    paint(sheet(this.picture, this.width, this.height), this, this.inks);
    const { clientWidth } = this.whole;
    if (this.overviewWidth !== clientWidth) {
      this.overviewWidth = clientWidth;
      this.overview = overview(this.lanes, clientWidth, WHOLE);
    }
    paintWhole(sheet(this.whole, clientWidth, WHOLE), this, this.inks, clientWidth, WHOLE);
  }

  recolour() {
    this.inks = inks(this.place);
    this.draw();
  }

  // ---- what is chosen

  select(column) {
    this.column = column;
    const at = (column + 0.5 - this.left) * this.scale;
    if (at < 20 || at > this.width - 20) this.set(column + 0.5 - this.inView / 2, Math.max(this.scale, 6));
    const y = laneY(this.lanes.stream[column]), { stage } = this;
    if (y < stage.scrollTop + LANE || y > stage.scrollTop + stage.clientHeight - LANE) stage.scrollTop = y - stage.clientHeight / 2;
    this.describe(column);
    announce(this.lanes.title(column));
    this.draw();
  }

  show(finding) {
    this.finding = finding;
    this.column = -1;
    const { freed, taken, backward } = finding;
    const marks = [freed, taken, backward].filter(Boolean).map((mark) => mark[1]);
    const places = [...finding.earlier, ...finding.edges.map((edge) => edge[3]), ...marks, ...(finding.later < 0 ? [] : [finding.later])];
    this.frame(Math.min(...places), Math.max(...places) + 1);
    this.chosen.replaceChildren(
      h("h3", {}, `Finding ${finding.number}: `, said(finding.title)),
      h("dl", {}, field("missing", finding.edges.map((edge) => edge[4]).join("; ")),
        finding.freed ? field("◆", finding.taken ? "freed, and handed out again" : "freed") : finding.backward ? field("◆", "backward is called") : null,
        h("div", {}, h("dd", {}, h("a", { href: `#finding-${finding.number}` }, "to its card")))));
    announce(`Finding ${finding.number}: ${inWords(finding.title)}`);
  }

  describe(column) {
    const { lanes } = this, { data } = lanes;
    const link = (to, text) => h("a", { href: `#/op/${lanes.lines[to]}` }, text);
    const text = (key) => lanes.text(key, column);
    const waits = lanes.waitsOf(column).map((arrow) => {
      const from = lanes.source(arrow), name = lanes.laneName(data.sources[arrow]);
      return h("span", {}, from < 0 ? name : [`${name} up to `, link(from, lanes.text("operator", from))], " ");
    });
    const findings = lanes.findingsOf(column).map((one) => h("a", { href: `#/finding/${one.number}` }, `${one.number} `));
    this.chosen.replaceChildren(h("h3", {}, lanes.title(column)), h("dl", {},
      field("called at", text("site")), field("in", text("node")), field("forward at", text("forward")), field("for", text("parameter")),
      field("reads", data.read[column] ? bytes(data.read[column]) : ""), field("writes", data.written[column] ? bytes(data.written[column]) : ""),
      field("waited for", waits), field("finding", findings), field("step", lanes.step(column)),
      field("host thread", data.thread[column]), field("line of the log", lanes.lines[column].toLocaleString("en"))));
  }

  nextFinding(by) {
    const { findings } = this.lanes;
    if (!findings.length) return;
    const now = findings.indexOf(this.finding);
    this.on.show(findings[(now + by + findings.length + (now < 0 && by < 0 ? 1 : 0)) % findings.length]);
  }

  search() {
    this.matches = this.lanes.search(this.searchField.value);
    const count = this.matches?.reduce((sum, one) => sum + one, 0);
    this.count.textContent = this.matches ? plural(count, "match", "matches") : "";
    this.draw();
  }

  nextMatch(by) {
    if (!this.matches) return;
    const n = this.lanes.length;
    for (let k = 1; k <= n; k++) {
      const column = (((this.column < 0 ? (by > 0 ? -1 : 0) : this.column) + by * k) % n + n) % n;
      if (this.matches[column]) { this.on.select(column); return; }
    }
  }

  clear() {
    const had = this.searchField.value !== "";
    this.searchField.value = "";
    this.search();
    return had;
  }

  // ---- hand and keys

  at(event) {
    const box = this.picture.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  // The operator under the pointer, or -1; where blocks are thin the nearest one.
  under({ x, y }) {
    const lane = Math.floor((y - HEAD) / LANE);
    if (lane < 0 || lane >= this.lanes.streams.length || Math.abs(y - laneY(lane)) > BLOCK / 2 + 2) return -1;
    const place = this.left + x / this.scale, column = this.lanes.nearest(lane, Math.floor(place));
    const off = Math.abs((column + 0.5 - place) * this.scale);
    return column >= 0 && off <= Math.max(this.scale / 2, REACH) ? column : -1;
  }

  // The finding whose missing edge is under the pointer.
  edgeUnder({ x, y }) {
    const { finding } = this;
    if (!finding) return null;
    const at = (place) => (place - this.left) * this.scale;
    const near = missingLines(this, finding).some((one) => {
      const x1 = at(one.from), y1 = edgeOf(one.source, one.target), x2 = at(one.to), y2 = edgeOf(one.target, one.source);
      const length = (x2 - x1) ** 2 + (y2 - y1) ** 2 || 1;
      const share = Math.max(0, Math.min(1, ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length));
      return Math.hypot(x - x1 - share * (x2 - x1), y - y1 - share * (y2 - y1)) <= REACH;
    });
    return near ? finding : null;
  }

  grab(event) {
    this.picture.setPointerCapture(event.pointerId);
    this.held = { x: event.clientX, left: this.left, isDrag: false };
  }

  move(event) {
    if (this.held && event.buttons) {
      const by = event.clientX - this.held.x;
      this.held.isDrag ||= Math.abs(by) > 3;
      if (this.held.isDrag) this.set(this.held.left - by / this.scale, this.scale);
    }
    this.point(event);
  }

  point(event) {
    const where = this.at(event), column = this.under(where), edge = column < 0 ? this.edgeUnder(where) : null;
    this.picture.classList.toggle("over", column >= 0 || edge !== null);
    this.tip.hidden = column < 0 && !edge;
    if (this.tip.hidden) return;
    const site = edge ? "" : this.lanes.text("site", column) || this.lanes.text("node", column);
    this.tip.textContent = edge ? `missing: ${edge.edges.map((one) => one[4]).join("; ")}` : this.lanes.title(column) + (site ? `, ${site}` : "");
    const box = this.place.getBoundingClientRect();
    this.tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, box.width - 350))}px`;
    this.tip.style.top = `${event.clientY - box.top + 16}px`;
  }

  release(event) {
    const { held } = this;
    this.held = null;
    if (!held || held.isDrag) return;
    const where = this.at(event), column = this.under(where), edge = column < 0 ? this.edgeUnder(where) : null;
    if (column >= 0) this.on.select(column);
    else if (edge) location.hash = `#finding-${edge.number}`;
  }

  // A wheel alone scrolls the page; with Ctrl it zooms, sideways or with Shift it moves.
  wheel(event) {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.ctrlKey) this.zoom(Math.exp(-event.deltaY / 300), this.at(event).x);
    else if (sideways && Math.abs(sideways) >= Math.abs(event.shiftKey ? 0 : event.deltaY)) this.set(this.left + sideways / this.scale, this.scale);
    else return;
    event.preventDefault();
  }

  jump(event) {
    const box = this.whole.getBoundingClientRect();
    this.set(((event.clientX - box.left) / box.width) * this.lanes.length - this.inView / 2, this.scale);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { lanes } = this, column = this.column < 0 ? lanes.nearest(this.busiest(), Math.floor(this.left + this.inView / 2)) : this.column;
    const lane = lanes.stream[column], list = lanes.ofLane[lane], k = lanes.firstFrom(lane, column);
    const other = (by) => {
      for (let next = lane + by; next >= 0 && next < lanes.streams.length; next += by) {
        if (lanes.ofLane[next].length) return lanes.nearest(next, column);
      }
      return column;
    };
    const goal = {
      ArrowRight: () => list[Math.min(k + 1, list.length - 1)], ArrowLeft: () => list[Math.max(k - 1, 0)],
      ArrowDown: () => other(1), ArrowUp: () => other(-1), Home: () => list[0], End: () => list[list.length - 1],
    }[event.key];
    if (event.key === "Enter" && this.finding) location.hash = `#finding-${this.finding.number}`;
    else if (goal && column >= 0) this.on.select(this.column < 0 ? column : goal());
    else return;
    event.preventDefault();
  }

  // The lane to begin with: that of the finding in view, or the one with the most operators.
  busiest() {
    if (this.finding && this.finding.later >= 0) return this.lanes.stream[Math.min(this.finding.later, this.lanes.length - 1)];
    return this.lanes.ofLane.reduce((best, list, lane, all) => (list.length > all[best].length ? lane : best), 0);
  }
}

function field(label, value) {
  const isEmpty = value === "" || value === null || value === undefined || value.length === 0;
  return isEmpty ? null : h("div", {}, h("dt", {}, label), h("dd", {}, value));
}
