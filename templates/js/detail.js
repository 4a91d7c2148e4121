// The panel beside the list: all there is to say about one row, with links in both modules.

const LINKS_SHOWN = 30;
const TEXT_SHOWN = 2000;

class Detail {
  constructor(pair, close) {
    this.pair = pair;
    this.raw = false;
    this.close = h("button", { type: "button", class: "close", "aria-label": "Close the details", onclick: close }, "×");
    this.element = h("section", { class: "detail", tabindex: "-1", "aria-label": "Details of the selected row" });
    this.show(-1);
  }

  show(row) {
    this.row = row;
    this.element.scrollTop = 0; // of what is shown so far: no new layout is asked for
    this.element.classList.toggle("blank", row < 0);
    if (row < 0) {
      this.element.replaceChildren(h("p", { class: "hint" }, "Select a row to see its attributes, operands, users and source. Press n for the next difference."));
      return;
    }
    const { pair } = this;
    const sides = ["a", "b"].filter((side) => pair[side][row] >= 0);
    const beside = (part) => h("div", { class: `sides of${sides.length}` }, sides.map((side) => h("div", { class: "half" }, part(side, pair[side][row], pair.modules[side]))));
    this.element.replaceChildren(this.close, this.status(row),
      this.raw ? beside((side, i, module) => [h("p", { class: "meta" }, `in ${pair.labels[side]}`), h("pre", {}, ...long(module.raw(i)))]) : this.table(row, sides),
      beside((side, i, module) => [this.source(module, i),
        this.links("Operands", side, module.operands(i), pair.differingOperands(row), true),
        this.links("Users", side, module.users(i), new Set(), false), this.calls(side, i)]),
      ...this.pictures(row));
  }

  // What is to be said of the row: its state, its cause, what it follows from or leads to.
  status(row) {
    const { pair } = this;
    const cause = pair.differs(row) ? pair.cause[row] : -1;
    const leads = pair.followers.get(row) ?? 0;
    return h("div", { class: "status" },
      h("strong", {}, sentenceCase(pair.describe(row))),
      cause >= 0 ? h("p", {}, h("a", { href: address(pair, "causes", `c${cause + 1}`) }, `Cause ${cause + 1}: ${cut(inWords(pair.causes[cause].title), 140)}`)) : "",
      cause < 0 && pair.differs(row) ? h("p", { class: "hint" }, "No cause accounts for it.") : "",
      pair.follows[row] >= 0 ? h("p", {}, "Follows from ", rowLink(pair, pair.follows[row]), ".") : "",
      leads ? h("p", { class: "leads" }, h("b", {}, "◆ Origin"), ` of ${plural(leads, "other difference")}.`) : "",
      pair.a[row] >= 0 && pair.b[row] >= 0 ? h("p", { class: "hint" }, `Paired, since they ${pair.data.meanings[pair.data.passes[pair.a[row]]]}.`) : "");
  }

  pictures(row) {
    const { pair } = this;
    const sides = ["b", "a"].filter((side) => pair[side][row] >= 0 && (side === "b" || pair.status[row] !== SAME));
    return sides.map((side, k) => h("details", { open: k === 0 }, h("summary", {}, `Neighbourhood in ${pair.labels[side]}`), picture(pair, side, pair[side][row])));
  }

  // Properties of both sides in columns; one cell for what they share.
  table(row, sides) {
    const { pair } = this;
    const each = sides.map((side) => properties(pair, side, pair[side][row]));
    const keys = [...new Set(each.flatMap((one) => [...one.keys()]))];
    return h("table", { class: "ab" },
      h("thead", {}, h("tr", {}, h("th", {}, h("span", { class: "sr" }, "Property")), sides.map((side) => h("th", { scope: "col" }, `in ${pair.labels[side]}`)))),
      h("tbody", {}, keys.map((key) => h("tr", {}, h("th", { scope: "row" }, key), cells(key, each.map((one) => one.get(key)))))));
  }

  links(title, side, list, differing, ordered) {
    if (!list.length) return "";
    const { pair } = this;
    const module = pair.modules[side];
    const item = (i, k) => h("li", { class: differing.has(k) ? "differs" : null },
      instructionLink(pair, side, i), ` ${knownAs(pair, side, i)} `, h("span", { class: "meta" }, soft(cut(module.shape(i), 60))));
    const items = h(ordered ? "ol" : "ul", { start: ordered ? "0" : null }, list.slice(0, LINKS_SHOWN).map(item));
    const rest = list.length - LINKS_SHOWN;
    const more = rest > 0 ? h("button", { type: "button", onclick: (event) => {
      items.append(...list.slice(LINKS_SHOWN).map((i, k) => item(i, k + LINKS_SHOWN)));
      event.target.remove();
    } }, `Show ${rest} more`) : "";
    return h("div", {}, h("h2", {}, `${title} (${list.length})`), items, more);
  }

  calls(side, i) {
    const module = this.pair.modules[side];
    const list = module.callees(i);
    if (!list.length) return "";
    return h("div", {}, h("h2", {}, "Calls"), h("ul", {}, list.map((c) =>
      h("li", {}, h("a", { href: address(this.pair, "i", side + module.computations[c].start) }, module.computations[c].name)))));
  }

  source(module, i) {
    const origin = module.origin(i);
    if (!origin) return "";
    return h("div", {}, h("h2", {}, "Source"), h("ul", {}, origin.frames.map((frame) =>
      h("li", {}, soft(`${frame.file}:${frame.line}`), frame.fn ? ` (${frame.fn})` : ""))),
    origin.name || origin.type ? h("p", { class: "code" }, soft(cut([origin.type, origin.name].filter(Boolean).join(" · "), 400))) : "");
  }
}

// Of one property: a cell a side, with what differs marked, or one for both.
function cells(key, values) {
  const [x, y] = values.map((value) => value ?? "");
  if (values.length === 1 || x === y) return [h("td", { class: "both", colspan: values.length }, long(x))];
  if (key === "name" || key === "in" || x.length > TEXT_SHOWN || y.length > TEXT_SHOWN) return [x, y].map((value) => h("td", {}, long(value)));
  return differingParts(x, y).map((parts) => h("td", {}, parts.flatMap(([text, differs]) => (differs ? [h("mark", {}, text)] : soft(text)))));
}

function properties(pair, side, i) {
  const module = pair.modules[side];
  const payload = module.payload(i);
  const out = new Map([["name", module.name(i)]]);
  for (const { place, name } of pair.tensors[side].get(i) ?? []) out.set(place, name || "not captured");
  out.set("opcode", module.opcode(i)).set("shape", module.shape(i));
  if (payload !== null) out.set(module.opcode(i) === "parameter" ? "number" : "value", payload);
  for (const [key, value] of splitAttributes(module.attributes(i))) out.set(key, value);
  return out.set("in", module.computations[module.computationOf(i)].name);
}

// The tensor that an instruction is known to be, else its opcode.
function knownAs(pair, side, i) {
  return (pair.tensors[side].get(i) ?? []).find(({ name }) => name)?.name ?? pair.modules[side].opcode(i);
}

// A value, with a button for what is too long to read.
function long(text) {
  if (text.length <= TEXT_SHOWN) return soft(text);
  const rest = document.createTextNode(text.slice(0, TEXT_SHOWN) + "… ");
  return [rest, h("button", { type: "button", onclick: (event) => {
    rest.data = text;
    event.target.remove();
  } }, `Show all ${text.length.toLocaleString("en")} characters`)];
}

function sentenceCase(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function instructionLink(pair, side, i) {
  return h("a", { href: address(pair, "i", side + i) }, cut(pair.modules[side].name(i), 120));
}

function rowLink(pair, row) {
  return pair.b[row] >= 0 ? instructionLink(pair, "b", pair.b[row]) : instructionLink(pair, "a", pair.a[row]);
}

function address(pair, view, rest = "") {
  return `#/pair/${pair.data.id}/${view}${rest ? "/" + rest : ""}`;
}
