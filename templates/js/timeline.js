// Every sync of the run: a column a step, a row the ranks that did the same. Painted on a canvas, a
// column or a pixel at a time, whichever is wider.

const LABEL_WIDTH = 110, BARS = 46, AXIS = 20, WIDEST = 34;
const COMPILED = "cwd";

async function drawTimeline(place) {
  const data = await blob("timeline");
  const time = {
    columns: undelta(data.steps), letters: data.letters,
    ranks: data.ranks.map((rank) => ({ ...rank, columns: undelta(rank.columns) })),
  };
  for (const rank of time.ranks) {
    rank.at = new Int32Array(time.columns.length).fill(-1); // column -> position of its sync
    rank.columns.forEach((column, k) => { rank.at[column] = k; });
  }
  return new TimelineView(time, place);
}

class TimelineView {
  constructor(time, place) {
    this.time = time;
    this.place = place;
    this.span = new Span(time.columns.length);
    this.line = time.ranks.length <= 8 ? 22 : time.ranks.length <= 16 ? 14 : 9;
    this.height = BARS + 4 + time.ranks.length * this.line + AXIS;
    this.at = { column: -1, rank: 0 };
    this.tip = h("div", { class: "tip", hidden: true });
    this.canvas = h("canvas", {
      role: "img", tabindex: "0", "aria-label": this.summary(), style: `height: ${this.height}px`,
      onpointermove: (event) => this.hover(event), onpointerleave: () => { this.tip.hidden = true; },
      onpointerdown: (event) => { this.grip = { x: event.clientX, left: this.span.left }; this.dragged = false; },
      onclick: (event) => this.open(event), onkeydown: (event) => this.key(event),
      onwheel: (event) => this.wheel(event),
    });
    const button = (text, label, action) => h("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
    this.tools = h("div", { class: "zooms" },
      button("+", "Closer", () => this.zoom(0.5)), button("−", "Farther", () => this.zoom(2)), button("All", "Whole run", () => this.zoom(Infinity)));
    place.replaceChildren(this.tools, this.canvas, this.tip);
    this.costs = this.columnCosts();
    document.addEventListener("theme", () => this.paint());
    window.addEventListener("pointerup", () => { this.grip = null; });
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  summary() {
    const compiles = this.time.ranks.reduce((sum, rank) => sum + [...rank.outcomes].filter((o) => COMPILED.includes(o)).length, 0);
    return `Timeline: ${plural(this.time.columns.length, "column")}, ${plural(this.time.ranks.length, "row")}, ${plural(compiles, "compile")}. Arrow keys move, plus and minus zoom, Enter opens the graph's comparison.`;
  }

  // For each column the longest compile, and the longest that is a problem.
  columnCosts() {
    const all = new Float64Array(this.time.columns.length), lost = new Float64Array(all.length);
    for (const rank of this.time.ranks) {
      rank.columns.forEach((column, k) => {
        const outcome = rank.outcomes[k];
        if (COMPILED.includes(outcome)) all[column] = Math.max(all[column], rank.ms[k]);
        if (outcome === "c") lost[column] = Math.max(lost[column], rank.ms[k]);
      });
    }
    return { all, lost, top: all.reduce((a, b) => Math.max(a, b), 1) };
  }

  get cell() { return Math.min(WIDEST, (this.width - LABEL_WIDTH - 4) / this.span.width); }

  x(column) { return LABEL_WIDTH + (column - this.span.left) * this.cell; }

  y(rank) { return BARS + 4 + rank * this.line; }

  paint() {
    this.width = this.canvas.clientWidth;
    if (!this.width) return;
    this.tools.hidden = this.span.total * 6 < this.width && this.span.width === this.span.total;
    const pen = sheet(this.canvas, this.width, this.height);
    const ink = inks(this.place);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    paintCosts(pen, this, ink);
    this.time.ranks.forEach((rank, r) => paintRank(pen, this, ink, rank, r));
    paintAxis(pen, this, ink);
    if (this.at.column >= 0) {
      pen.strokeStyle = ink.focus;
      pen.lineWidth = 2;
      pen.strokeRect(this.x(this.at.column), this.y(this.at.rank), Math.max(this.cell, 3), this.line);
    }
  }

  zoom(factor, around = this.at.column >= 0 ? this.at.column : this.span.left + this.span.width / 2) {
    this.span.zoom(factor, around);
    this.paint();
  }

  wheel(event) {
    if (event.ctrlKey) this.zoom(Math.exp(event.deltaY / 300), this.span.left + (event.offsetX - LABEL_WIDTH) / this.cell);
    else if (event.shiftKey || event.deltaX) {
      this.span.move((event.deltaX || event.deltaY) / this.cell);
      this.paint();
    } else return;
    event.preventDefault();
  }

  find(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor(this.span.left + (event.clientX - box.left - LABEL_WIDTH) / this.cell);
    const rank = Math.floor((event.clientY - box.top - this.y(0)) / this.line);
    const inside = event.clientX - box.left >= LABEL_WIDTH && column >= 0 && column < this.time.columns.length && rank >= 0 && rank < this.time.ranks.length;
    return inside ? this.nearest(column, rank) : null;
  }

  // Where a pixel is several columns, the first of them that compiled.
  nearest(column, rank) {
    const row = this.time.ranks[rank];
    for (let k = column; k < Math.min(column + Math.ceil(1 / this.cell), row.at.length); k++) {
      if (row.at[k] >= 0 && COMPILED.includes(row.outcomes[row.at[k]])) return { column: k, rank };
    }
    return { column, rank };
  }

  describe({ column, rank }) {
    const row = this.time.ranks[rank], k = row.at[column];
    const where = `Step ${this.time.columns[column]}, ${row.label}`;
    if (k < 0) return `${where}: no sync`;
    const graph = row.graphs[k] < 0 ? "unknown graph" : `graph ${this.time.letters[row.graphs[k]]}`;
    const outcome = { c: "compiled", w: "compiled, as warm-up,", d: "compiled, by design,", h: "reused", e: "nothing pending for", u: "unknown outcome for" }[row.outcomes[k]];
    const site = COMPILED.includes(row.outcomes[k]) ? row.sites[[...row.outcomes.slice(0, k)].filter((o) => COMPILED.includes(o)).length] : "";
    return `${where}: ${outcome} ${graph}, ${duration(row.ms[k])}${site ? `, at ${site}` : ""}`;
  }

  hover(event) {
    if (this.grip && event.buttons) {
      this.dragged ||= Math.abs(event.clientX - this.grip.x) > 4;
      this.span.left = this.grip.left - (event.clientX - this.grip.x) / this.cell;
      this.span.clamp();
      this.paint();
    }
    const cell = this.find(event);
    this.tip.hidden = !cell;
    if (!cell) return;
    this.tip.textContent = this.describe(cell);
    const box = this.place.getBoundingClientRect();
    this.tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, this.place.clientWidth - 350))}px`;
    this.tip.style.top = `${event.clientY - box.top + 14}px`;
  }

  open(event) {
    const cell = this.find(event);
    if (cell && !this.dragged) this.go(cell);
  }

  go({ column, rank }) {
    const row = this.time.ranks[rank], k = row.at[column];
    const letter = k < 0 ? undefined : this.time.letters[row.graphs[k]];
    if (letter) location.hash = hasBlob(`pair-${letter}`) ? openingOf(letter) : `#graph-${letter}`;
  }

  key(event) {
    const zooms = { "+": 0.5, "=": 0.5, "-": 2, 0: Infinity };
    const moves = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    if (event.key === "Enter" && this.at.column >= 0) this.go(this.at);
    if (zooms[event.key]) { event.preventDefault(); this.zoom(zooms[event.key]); }
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const clamp = (value, end) => Math.max(0, Math.min(end - 1, value));
    this.at = { column: clamp(this.at.column + move[0], this.time.columns.length), rank: clamp(this.at.rank + move[1], this.time.ranks.length) };
    this.span.show(this.at.column);
    this.paint();
    announce(this.describe(this.at));
  }
}
