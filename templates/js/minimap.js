// Where the differences are in the whole list, as a strip beside it; the box is what is in view.

class Minimap {
  constructor(list) {
    this.list = list;
    this.canvas = h("canvas", { class: "minimap", "aria-hidden": "true", onpointerdown: (event) => this.drag(event), onpointermove: (event) => event.buttons && this.drag(event) });
    list.element.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    document.addEventListener("theme", () => this.draw());
  }

  // One mark for all rows that fall on one pixel, origins over what follows from them.
  draw() {
    const { canvas, list } = this;
    const { rows, pair } = list;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    const pen = sized(canvas, width, height);
    const inks = ["", "mod-ink", "del-ink", "add-ink", "dim"].map((name) => inkOf(canvas, name));
    const marks = new Map();
    const scale = Math.min(height / Math.max(rows.length, 1), list.rowHeight);
    for (let k = 0; k < rows.length; k++) {
      const [row, origin] = rows.type[k] === ROW ? [rows.from[k], pair.isOrigin(rows.from[k])] : [this.folded(k), false];
      const y = Math.floor(k * scale);
      if (row >= 0 && pair.differs(row) && (origin || !marks.has(y))) marks.set(y, [pair.status[row], origin]);
    }
    for (const [y, [status, origin]] of marks) {
      pen.fillStyle = inks[status];
      pen.globalAlpha = origin ? 1 : 0.45;
      pen.fillRect(origin ? 1 : 4, y, origin ? width - 2 : width - 8, Math.max(2, Math.ceil(scale)));
    }
    pen.globalAlpha = 0.18;
    pen.fillStyle = inks[ASIDE];
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

function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return pen;
}

// Canvases do not know light-dark(): the browser is asked what a variable comes to.
function inkOf(canvas, name) {
  canvas.style.color = name && `var(--${name})`;
  return getComputedStyle(canvas).color;
}
