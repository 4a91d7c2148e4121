// The list of rows, drawn on demand: only what is in view is in the document.

const OPERANDS_SHOWN = 6;
const OVERSCAN = 12;
const PRINTED = 5000; // rows on paper
const COMMON_SHOWN = 18; // characters of long common text kept on each side of a difference

class List {
  constructor(pair, rows, { select, open }) {
    this.pair = pair;
    this.rows = rows;
    this.onSelect = select;
    this.onOpen = open;
    this.raw = false;
    this.at = -1; // item with the cursor
    this.items = new Map(); // what is in the document
    this.pad = h("div", { class: "pad", role: "presentation" });
    this.element = h("div", {
      class: "list", role: "grid", tabindex: "0", "aria-label": "Instructions, side by side",
      "aria-colcount": "3", onscroll: () => this.draw(), onclick: (event) => this.click(event),
    }, this.pad);
    new ResizeObserver(() => { this.measure(); this.draw(true); }).observe(this.element);
    this.measure();
  }

  measure() {
    this.rowHeight = matchMedia("(max-width: 700px)").matches ? 44 : 22;
    this.pad.style.height = `${this.rows.length * this.rowHeight}px`;
  }

  refresh(item = -1) {
    this.element.setAttribute("aria-rowcount", this.rows.length);
    this.measure();
    if (item < 0) this.draw(true);
    else this.moveTo(item, true);
  }

  draw(force = false) {
    if (this.printing) return;
    const height = this.element.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.rowHeight) - OVERSCAN);
    const last = Math.min(this.rows.length, Math.ceil((this.element.scrollTop + height) / this.rowHeight) + OVERSCAN);
    if (!force && first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    const items = new Map();
    for (let k = first; k < last; k++) items.set(k, (!force && this.items.get(k)) || this.item(k));
    this.items = items;
    this.pad.replaceChildren(...items.values());
    if (this.at >= first && this.at < last) this.element.setAttribute("aria-activedescendant", `item-${this.at}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  // On paper everything that differs, whole, with nothing folded or cut between.
  drawForPrint() {
    const { pair } = this;
    const items = [];
    this.printing = true;
    for (let s = 0; s < pair.sections.length && items.length < PRINTED; s++) {
      if (pair.sections[s].differing === 0) continue;
      items.push(this.computation(s));
      for (let r = pair.sections[s].start; r < pair.sections[s].stop && items.length < PRINTED; r++) if (pair.differs(r)) items.push(this.row(r));
    }
    if (items.length >= PRINTED) items.push(h("p", {}, `Printed: the first ${PRINTED.toLocaleString("en")} of ${plural(pair.differing, "differing row")}.`));
    this.pad.replaceChildren(...items);
  }

  printed() {
    this.printing = false;
    this.refresh();
  }

  item(k) {
    const { rows } = this;
    const type = rows.type[k];
    const element = type === ROW ? this.row(rows.from[k]) : type === COMP ? this.computation(rows.from[k]) : this.fold(k, type);
    element.id = `item-${k}`;
    element.dataset.item = k;
    element.setAttribute("aria-rowindex", k + 1);
    element.setAttribute("aria-selected", k === this.at);
    element.style.top = `${k * this.rowHeight}px`;
    return element;
  }

  fold(k, type) {
    const { rows } = this;
    const text = type === REST ? `⋯ ${plural(rows.from[k], "computation")} without a difference` : this.foldText(rows.from[k], rows.to[k]);
    return h("div", { class: "fold", role: "row" }, h("div", { role: "gridcell", "aria-colspan": "3" }, text));
  }

  foldText(from, to) {
    const { pair } = this;
    const following = pair.follows.subarray(from, to).filter((origin) => origin >= 0);
    if (!following.length) return `⋯ ${plural(to - from, "row")} without a difference`;
    return `⋯ ${plural(following.length, "difference")} that ${following.length === 1 ? "follows" : "follow"} from ${cut(pair.title(following[0]), 60)}, in ${plural(to - from, "row")}`;
  }

  computation(s) {
    const section = this.pair.sections[s];
    const { a, b } = this.pair.modules;
    const name = (module, c) => (c < 0 ? "" : module.computations[c].name);
    const note = section.differing ? plural(section.differing, "difference") : "no difference";
    const kind = s === 0 ? "entry" : "computation";
    return h("div", { class: "comp", role: "row" },
      h("div", { class: "gut", role: "gridcell" }, s === 0 ? "▾" : "ƒ"),
      h("div", { class: "side a", role: "gridcell" }, name(a, section.a), h("small", {}, `  ${kind}, ${plural(section.stop - section.start, "row")}, ${note}`)),
      h("div", { class: "side b", role: "gridcell" }, name(b, section.b)));
  }

  row(row) {
    const { pair } = this;
    const status = pair.status[row];
    const [left, right] = this.raw || this.printing ? this.rawSides(row) : this.sides(row);
    const cause = pair.cause[row] >= 0 && pair.differs(row) ? h("small", { "aria-hidden": "true" }, pair.cause[row] + 1) : "";
    const origin = pair.isOrigin(row) ? " origin" : pair.follows[row] >= 0 ? " follows" : "";
    return h("div", { class: `row ${STATUS[status]}${origin}`, role: "row" },
      h("div", { class: "gut", role: "gridcell", title: pair.describe(row) }, GLYPH[status], cause, h("span", { class: "sr" }, pair.describe(row))),
      h("div", { class: `side a${pair.a[row] < 0 ? " gap" : ""}`, role: "gridcell" }, left),
      h("div", { class: `side b${pair.b[row] < 0 ? " gap" : ""}`, role: "gridcell" }, right));
  }

  rawSides(row) {
    const { pair } = this;
    const limit = this.printing ? Infinity : 2000;
    const x = pair.a[row] < 0 ? "" : cut(pair.modules.a.raw(pair.a[row]), limit);
    const y = pair.b[row] < 0 ? "" : cut(pair.modules.b.raw(pair.b[row]), limit);
    if (pair.status[row] !== CHANGED) return [[x], [y]];
    const [left, right] = differingParts(x, y);
    return [marked(left), marked(right)];
  }

  sides(row) {
    const { pair } = this;
    const fields = pair.fields.get(row);
    const left = pair.a[row] < 0 ? [] : pieces(pair, "a", pair.a[row]);
    const right = pair.b[row] < 0 ? [] : pieces(pair, "b", pair.b[row]);
    if (!fields) return [left.map(plain), right.map(plain)];
    const operands = pair.differingOperands(row);
    const out = [[], []];
    left.forEach((piece, k) => {
      const other = right[k];
      if (piece.cls === "p" && (piece.text === null || other.text === null)) {
        out[0].push(operandList(piece, operands));
        out[1].push(operandList(other, operands));
        return;
      }
      const [x, y] = piece.cls === "n" || piece.cls === "w" ? [[[piece.text, false]], [[other.text, false]]] : differingParts(piece.text, other.text);
      out[0].push(h("span", { class: piece.cls }, marked(squeezed(x))));
      out[1].push(h("span", { class: piece.cls }, marked(squeezed(y))));
    });
    return out;
  }

  click(event) {
    const operand = event.target.closest("[data-go]");
    const element = event.target.closest("[data-item]");
    if (operand) location.hash = address(this.pair, "i", operand.dataset.go);
    else if (element) this.choose(Number(element.dataset.item));
  }

  choose(k) {
    if (this.rows.type[k] === ROW) {
      this.moveTo(k);
      this.onSelect(this.rows.from[k], true);
    } else this.onOpen(k);
  }

  moveTo(k, centre = false) {
    this.at = k;
    const top = k * this.rowHeight;
    const { element } = this;
    const height = element.clientHeight;
    if (centre && (top < element.scrollTop || top > element.scrollTop + height - this.rowHeight)) element.scrollTop = top - height / 2;
    else if (top < element.scrollTop) element.scrollTop = top;
    else if (top + this.rowHeight > element.scrollTop + height) element.scrollTop = top + this.rowHeight - height;
    this.draw(true);
  }
}

// An instruction in pieces that the two sides of a row share: name, tensor, shape, opcode, operands, rest.
function pieces(pair, side, i) {
  const module = pair.modules[side];
  const known = (pair.tensors[side].get(i) ?? []).filter(({ name }) => name);
  const payload = module.payload(i);
  const operands = module.operands(i);
  const attributes = module.attributes(i);
  return [
    { cls: "n", text: module.name(i) },
    { cls: "w", text: known.length ? `  ${cut(known[0].name, 80)}${known.length > 1 ? ` +${known.length - 1}` : ""}` : "" },
    { cls: "s", text: "  " + cut(module.shape(i), 4000) },
    { cls: "o", text: "  " + module.opcode(i) },
    { cls: "p", text: payload === null ? null : `(${cut(payload, 200)})`, operands, module, side },
    { cls: "t", text: attributes ? "  " + cut(attributes, 4000) : "" },
  ];
}

// Long stretches that both sides share are cut, so that the difference itself is in view.
function squeezed(list) {
  if (!list.some(([, differs]) => differs)) return list;
  return list.map(([text, differs], k) => {
    if (differs || text.length < 3 * COMMON_SHOWN) return [text, differs];
    const head = k === 0 ? text.slice(0, 6) : text.slice(0, COMMON_SHOWN);
    const tail = k === list.length - 1 ? "" : text.slice(-COMMON_SHOWN);
    return [`${head}…${tail}`, false];
  });
}

function plain(piece) {
  return piece.cls === "p" ? operandList(piece, new Set()) : h("span", { class: piece.cls }, cut(piece.text, 300));
}

// The operands, or around the first that differs where there are too many.
function operandList(piece, differing) {
  if (piece.text !== null) return h("span", { class: "p" }, piece.text);
  const { operands, module, side } = piece;
  const total = operands.length;
  const first = total > OPERANDS_SHOWN && differing.size ? Math.max(0, Math.min(...differing) - 1) : 0;
  const last = Math.min(total, first + OPERANDS_SHOWN);
  const out = [first ? `(… ${first} more, ` : "("];
  for (let k = first; k < last; k++) {
    out.push(k > first ? ", " : "", h(differing.has(k) ? "mark" : "span", { "data-go": side + operands[k] }, cut(module.name(operands[k]), 120)));
  }
  if (last < total) out.push(`, … ${total - last} more`);
  return h("span", { class: "p" }, out, ")");
}
