// Every sync of the run: a column a step, a row a rank. One path a graph, so that 16,000 syncs stay light.

const LABEL_WIDTH = 76, BAR_HEIGHT = 46, AXIS_HEIGHT = 20;

async function drawTimeline(place) {
  const data = await blob("timeline");
  const time = {
    columns: undelta(data.steps), letters: data.letters,
    ranks: data.ranks.map((rank) => ({ ...rank, columns: undelta(rank.columns) })),
  };
  time.cells = cellIndex(time);
  let width = 0;
  new ResizeObserver(() => {
    if (place.clientWidth !== width) {
      width = place.clientWidth;
      new TimelineView(time, place, width);
    }
  }).observe(place);
}

// For each rank: column -> position of its sync; and what stands there.
function cellIndex(time) {
  return time.ranks.map((rank) => {
    const at = new Int32Array(time.columns.length).fill(-1);
    rank.columns.forEach((column, k) => { at[column] = k; });
    return at;
  });
}

class TimelineView {
  constructor(time, place, width) {
    this.time = time;
    this.place = place;
    const n = time.columns.length, rows = time.ranks.length;
    this.cell = Math.max(2, Math.min(34, Math.floor(((width - LABEL_WIDTH - 4) / Math.max(n, 1)) * 100) / 100));
    this.line = rows <= 8 ? 22 : rows <= 16 ? 14 : 9;
    this.top = BAR_HEIGHT + 4;
    this.height = this.top + rows * this.line + AXIS_HEIGHT;
    this.cursor = svg("rect", { class: "cursor", hidden: true });
    this.at = { column: -1, rank: 0 };
    this.tip = h("div", { class: "tip", hidden: true });
    const total = Math.max(LABEL_WIDTH + n * this.cell + 4, 100);
    const picture = svg("svg", {
      width: total, height: this.height, role: "img", tabindex: "0", "aria-label": this.summary(),
      onpointermove: (event) => this.hover(event), onpointerleave: () => { this.tip.hidden = true; },
      onclick: (event) => this.open(event), onkeydown: (event) => this.key(event),
    }, this.bars(), this.marks(), this.names(), this.axis(), this.cursor);
    this.svg = picture;
    place.replaceChildren(picture, this.tip);
  }

  summary() {
    const compiles = this.time.ranks.reduce((sum, rank) => sum + [...rank.outcomes].filter((o) => o === "c").length, 0);
    return `Timeline: ${plural(this.time.columns.length, "column")}, ${plural(this.time.ranks.length, "rank")}, ${plural(compiles, "compile")}. Arrow keys move, Enter opens the graph's comparison.`;
  }

  x(column) { return LABEL_WIDTH + column * this.cell; }

  bars() {
    const most = new Map();
    for (const rank of this.time.ranks) {
      rank.columns.forEach((column, k) => {
        if (rank.outcomes[k] === "c") most.set(column, Math.max(most.get(column) ?? 0, rank.ms[k]));
      });
    }
    const top = Math.max(1, ...most.values());
    const gap = this.cell > 5 ? 1 : 0;
    const out = [...most].map(([column, ms]) => {
      const height = Math.max(1.5, (ms / top) * (BAR_HEIGHT - 8));
      return `M${this.x(column) + gap},${BAR_HEIGHT} v${-height} h${this.cell - 2 * gap} v${height} z`;
    });
    return [svg("path", { class: "bar", d: out.join("") || "M0,0" }), svg("text", { x: 0, y: 14 }, duration(top)),
      svg("line", { class: "axis", x1: LABEL_WIDTH, x2: this.x(this.time.columns.length), y1: BAR_HEIGHT + 0.5, y2: BAR_HEIGHT + 0.5 })];
  }

  // One path for all compiles of a graph, one for all its hits, and letters where they fit.
  marks() {
    const compiles = new Map(), hits = new Map(), letters = [];
    const gap = this.cell > 5 ? 1 : 0;
    this.time.ranks.forEach((rank, r) => {
      const y = this.top + r * this.line;
      rank.columns.forEach((column, k) => {
        const outcome = rank.outcomes[k], graph = rank.graphs[k];
        if (outcome === "e") return;
        const full = outcome === "c";
        const height = full ? this.line - 2 : Math.max(2, Math.round(this.line / 5));
        const from = y + (this.line - height) / 2;
        const path = `M${this.x(column) + gap},${from} h${this.cell - 2 * gap} v${height} h${-(this.cell - 2 * gap)} z`;
        const target = full ? compiles : hits;
        target.set(graph, (target.get(graph) ?? "") + path);
        if (full && this.cell >= 14 && this.line >= 14 && graph >= 0) {
          letters.push(svg("text", { class: "on", x: this.x(column) + this.cell / 2, y: y + this.line / 2 + 4, "text-anchor": "middle" }, this.time.letters[graph]));
        }
      });
    });
    const paths = (map, kind) => [...map].map(([graph, d]) => svg("path", { class: `${kind} ${graph < 0 ? "unknown" : "s" + (graph % 10)}`, d }));
    return [...paths(hits, "hits"), ...paths(compiles, "compiles"), ...letters];
  }

  names() {
    const every = Math.ceil(14 / this.line);
    return this.time.ranks.map((rank, r) => (r % every ? null
      : svg("text", { x: 0, y: this.top + r * this.line + this.line / 2 + 4 }, rank.label))).filter(Boolean);
  }

  axis() {
    const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000].find((n) => n * this.cell >= 44) ?? 10000;
    const out = [svg("text", { x: 0, y: this.height - 5 }, "step")];
    this.time.columns.forEach((step, column) => {
      if (step % every === 0 && this.time.columns[column - 1] !== step) {
        out.push(svg("text", { x: this.x(column) + this.cell / 2, y: this.height - 5, "text-anchor": "middle" }, step));
      }
    });
    return out;
  }

  find(event) {
    const box = this.svg.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - LABEL_WIDTH) / this.cell);
    const rank = Math.floor((event.clientY - box.top - this.top) / this.line);
    const inside = column >= 0 && column < this.time.columns.length && rank >= 0 && rank < this.time.ranks.length;
    return inside ? { column, rank } : null;
  }

  describe({ column, rank }) {
    const row = this.time.ranks[rank], k = this.time.cells[rank][column];
    const where = `Step ${this.time.columns[column]}, ${row.label}`;
    if (k < 0) return `${where}: no sync`;
    const graph = row.graphs[k] < 0 ? "unknown graph" : `graph ${this.time.letters[row.graphs[k]]}`;
    const outcome = { c: "compiled", h: "reused", e: "nothing pending for", u: "unknown outcome for" }[row.outcomes[k]];
    const site = row.outcomes[k] === "c" ? row.sites[[...row.outcomes.slice(0, k)].filter((o) => o === "c").length] : "";
    return `${where}: ${outcome} ${graph}, ${duration(row.ms[k])}${site ? `, at ${site}` : ""}`;
  }

  hover(event) {
    const cell = this.find(event);
    this.tip.hidden = !cell;
    if (!cell) return;
    this.tip.textContent = this.describe(cell);
    const box = this.place.getBoundingClientRect();
    const left = event.clientX - box.left + this.place.scrollLeft + 12;
    this.tip.style.left = `${Math.max(0, Math.min(left, this.place.scrollLeft + this.place.clientWidth - 350))}px`;
    this.tip.style.top = `${event.clientY - box.top + 14}px`;
  }

  open(event) {
    const cell = this.find(event);
    if (cell) this.go(cell);
  }

  go({ column, rank }) {
    const k = this.time.cells[rank][column];
    const letter = k < 0 ? undefined : this.time.letters[this.time.ranks[rank].graphs[k]];
    if (letter && hasBlob(`pair-${letter}`)) location.hash = `#/pair/${letter}`;
    else if (letter) byId(`graph-${letter}`)?.scrollIntoView({ block: "center" });
  }

  key(event) {
    const moves = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    if (event.key === "Enter" && this.at.column >= 0) this.go(this.at);
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const clamp = (value, end) => Math.max(0, Math.min(end - 1, value));
    this.at = { column: clamp(this.at.column + move[0], this.time.columns.length), rank: clamp(this.at.rank + move[1], this.time.ranks.length) };
    for (const [key, value] of Object.entries({ x: this.x(this.at.column), y: this.top + this.at.rank * this.line, width: this.cell, height: this.line })) this.cursor.setAttribute(key, value);
    this.cursor.removeAttribute("hidden");
    announce(this.describe(this.at));
  }
}
