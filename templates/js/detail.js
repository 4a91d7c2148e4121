// The panel beside the list: all there is to say about one row, with links in both modules.

const LINKS_SHOWN = 30;
const TEXT_SHOWN = 2000;

class Detail {
  constructor(pair) {
    this.pair = pair;
    this.raw = false;
    this.element = h("section", { class: "detail", tabindex: "-1", "aria-label": "Details of the selected row" });
    this.show(-1);
  }

  show(row) {
    this.row = row;
    if (row < 0) {
      this.element.replaceChildren(h("p", { class: "hint" }, "Select a row to see its attributes, operands, users and source. Press n for the next difference."));
      return;
    }
    const { pair } = this;
    const cause = pair.differs(row) ? pair.cause[row] : -1;
    this.element.replaceChildren(
      h("div", { class: "status" },
        h("strong", {}, sentenceCase(pair.describe(row))),
        cause >= 0 ? h("p", {}, h("a", { href: address(pair, "causes", `c${cause + 1}`) }, `Cause ${cause + 1}: ${cut(inWords(pair.causes[cause].title), 140)}`)) : "",
        cause < 0 && pair.differs(row) ? h("p", { class: "hint" }, "No cause accounts for it.") : "",
        pair.a[row] >= 0 && pair.b[row] >= 0 ? h("p", { class: "hint" }, `Paired, since they ${pair.data.meanings[pair.data.passes[pair.a[row]]]}.`) : ""),
      ...this.pictures(row),
      h("div", { class: "sides" }, ["a", "b"].map((side) => this.half(row, side))));
    this.element.scrollTop = 0;
  }

  pictures(row) {
    const { pair } = this;
    const sides = ["b", "a"].filter((side) => pair[side][row] >= 0 && (side === "b" || pair.status[row] !== SAME));
    return sides.map((side, k) => h("details", { open: k === 0 }, h("summary", {}, `Neighbourhood in ${pair.labels[side]}`), picture(pair, side, pair[side][row])));
  }

  half(row, side) {
    const { pair } = this;
    const i = pair[side][row];
    const label = pair.labels[side];
    if (i < 0) return h("section", { class: "half" }, h("p", { class: "hint" }, `No counterpart in ${label}.`));
    const module = pair.modules[side];
    return h("section", { class: "half", "aria-label": `In ${label}` },
      h("p", { class: "meta" }, `in ${label}, ${module.computations[module.computationOf(i)].name}`),
      h("h2", {}, cut(module.name(i), 300)),
      this.raw ? h("pre", {}, ...long(module.raw(i))) : this.table(row, side, i),
      this.links("Operands", side, module.operands(i), this.pair.differingOperands(row), true),
      this.links("Users", side, module.users(i), new Set(), false),
      this.calls(side, i),
      this.source(module, i));
  }

  table(row, side, i) {
    const other = side === "a" ? "b" : "a";
    const j = this.pair[other][row];
    const mine = properties(this.pair.modules[side], i);
    const theirs = j < 0 ? mine : properties(this.pair.modules[other], j);
    return h("table", {}, h("tbody", {}, [...mine].map(([key, value]) => {
      const counterpart = cut(theirs.get(key) ?? "", TEXT_SHOWN);
      const plain = value === counterpart || value.length > TEXT_SHOWN;
      const parts = plain ? long(value) : marked(differingParts(value, counterpart)[0]);
      return h("tr", {}, h("th", { scope: "row" }, key), h("td", {}, ...parts));
    })));
  }

  links(title, side, list, differing, ordered) {
    if (!list.length) return "";
    const module = this.pair.modules[side];
    const item = (i, k) => h("li", { class: differing.has(k) ? "differs" : null },
      instructionLink(this.pair, side, i), ` ${module.opcode(i)} `, h("span", { class: "meta" }, cut(module.shape(i), 60)));
    const items = h(ordered ? "ol" : "ul", { start: ordered ? "0" : null }, list.slice(0, LINKS_SHOWN).map(item));
    const rest = list.length - LINKS_SHOWN;
    const more = rest > 0 ? h("button", { type: "button", onclick: (event) => {
      items.append(...list.slice(LINKS_SHOWN).map((i, k) => item(i, k + LINKS_SHOWN)));
      event.target.remove();
    } }, `Show ${rest} more`) : "";
    return h("div", {}, h("h3", {}, `${title} (${list.length})`), items, more);
  }

  calls(side, i) {
    const module = this.pair.modules[side];
    const list = module.callees(i);
    if (!list.length) return "";
    return h("div", {}, h("h3", {}, "Calls"), h("ul", {}, list.map((c) =>
      h("li", {}, h("a", { href: address(this.pair, "i", side + module.computations[c].start) }, module.computations[c].name)))));
  }

  source(module, i) {
    const origin = module.origin(i);
    if (!origin) return "";
    return h("div", {}, h("h3", {}, "Source"), h("ul", {}, origin.frames.map((frame) =>
      h("li", {}, `${frame.file}:${frame.line}`, frame.fn ? ` (${frame.fn})` : ""))),
    origin.name || origin.type ? h("p", { class: "code" }, cut([origin.type, origin.name].filter(Boolean).join(" · "), 400)) : "");
  }
}

function properties(module, i) {
  const payload = module.payload(i);
  const out = new Map([["opcode", module.opcode(i)], ["shape", module.shape(i)]]);
  if (payload !== null) out.set(module.opcode(i) === "parameter" ? "number" : "value", payload);
  for (const [key, value] of splitAttributes(module.attributes(i))) out.set(key, value);
  return out;
}

// A value, with a button for what is too long to read.
function long(text) {
  if (text.length <= TEXT_SHOWN) return [text];
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

function address(pair, view, rest = "") {
  return `#/pair/${pair.data.id}/${view}${rest ? "/" + rest : ""}`;
}
