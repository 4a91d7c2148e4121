// Where the differences are in the whole list, as a strip beside it; the box is what is in view.

class Minimap {
  constructor(list) {
    this.list = list;
    this.canvas = h("canvas", { class: "minimap", "aria-hidden": "true", onpointerdown: (event) => this.drag(event), onpointermove: (event) => event.buttons && this.drag(event) });
    this.frame = h("div", { class: "minimap-frame" }, this.canvas);
    this.asked = false;
    list.element.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.frame);
    document.addEventListener("theme", () => this.draw());
  }

  // Once a frame, however often it is asked for.
  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.paint();
    });
  }

  // One mark for all rows that fall on one pixel, origins over what follows from them.
  paint() {
    const { canvas, list } = this;
    const { rows, pair } = list;
    const width = this.frame.clientWidth, height = this.frame.clientHeight;
    if (!width || !height) return;
    const pen = sheet(canvas, width, height);
    const ink = inks(this.frame);
    const colours = ["", ink["mod-ink"], ink["del-ink"], ink["add-ink"], ink.dim];
    const marks = new Map();
    const scale = Math.min(height / Math.max(rows.length, 1), list.rowHeight);
    for (let k = 0; k < rows.length; k++) {
      const [row, origin] = rows.type[k] === ROW ? [rows.from[k], pair.isOrigin(rows.from[k])] : [this.folded(k), false];
      const y = Math.floor(k * scale);
      if (row >= 0 && pair.differs(row) && (origin || !marks.has(y))) marks.set(y, [pair.status[row], origin]);
    }
    for (const [y, [status, origin]] of marks) {
      pen.fillStyle = colours[status];
      pen.globalAlpha = origin ? 1 : 0.45;
      pen.fillRect(origin ? 1 : 4, y, origin ? width - 2 : width - 8, Math.max(2, Math.ceil(scale)));
    }
    pen.globalAlpha = 0.18;
    pen.fillStyle = ink.dim;
    const top = (list.element.scrollTop / list.rowHeight) * scale;
    pen.fillRect(0, top, width, Math.max(6, (list.element.clientHeight / list.rowHeight) * scale));
    this.scale = scale;
  }

  // The first row of a fold that differs, -1 for none.
  folded(k) {
    const { rows, pair } = this.list;
    if (rows.type[k] !== FOLD) return -1;
    for (let r = rows.from[k]; r < rows.to[k]; r++) if (pair.differs(r)) return r;
    return -1;
  }

  drag(event) {
    const { element, rowHeight } = this.list;
    const y = event.clientY - this.canvas.getBoundingClientRect().top;
    element.scrollTop = (y / this.scale) * rowHeight - element.clientHeight / 2;
  }
}
