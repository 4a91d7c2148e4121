// Tables longer than a screen: only the rows in view are in the document.

const LINE_HEIGHT = 30, LINES_SHOWN = 16;
const longTables = [];

class LongTable {
  constructor(region, rows, row) {
    this.region = region;
    this.rows = rows;
    this.row = row;
    this.body = region.querySelector("tbody");
    region.classList.add("long");
    region.style.maxHeight = `${LINE_HEIGHT * (LINES_SHOWN + 1)}px`;
    region.querySelector("table").setAttribute("aria-rowcount", rows.length + 1);
    region.addEventListener("scroll", () => this.draw());
    this.draw();
  }

  draw(whole = false) {
    const first = whole ? 0 : Math.max(0, Math.floor(this.region.scrollTop / LINE_HEIGHT) - LINES_SHOWN);
    const last = whole ? this.rows.length : Math.min(this.rows.length, first + 3 * LINES_SHOWN);
    const space = (lines) => h("tr", { "aria-hidden": "true", class: "space", style: `height: ${lines * LINE_HEIGHT}px` });
    const shown = this.rows.slice(first, last).map((data, k) => {
      const element = this.row(data);
      element.setAttribute("aria-rowindex", first + k + 2);
      element.classList.toggle("hit", location.hash === `#${element.id}`);
      return element;
    });
    this.body.replaceChildren(space(first), ...shown, space(this.rows.length - last));
  }

  // Brings the row of a graph into the document; says whether it has one.
  reveal(letter) {
    const k = this.rows.findIndex(([first]) => first === letter);
    if (k < 0) return false;
    const fold = this.region.closest("details");
    if (fold) fold.open = true;
    this.region.scrollTop = (k - LINES_SHOWN / 2) * LINE_HEIGHT;
    this.draw();
    return true;
  }
}

// A part of the overview; the row of a graph may have to be drawn first.
function showPlace(id) {
  if (id.startsWith("graph-") && !byId(id)) longTables.some((table) => table.reveal(id.slice("graph-".length)));
  return showAnchor(id);
}

async function installLongTables() {
  for (const region of document.querySelectorAll("[data-long]")) {
    const { rows } = await blob(region.dataset.long);
    longTables.push(new LongTable(region, rows, region.dataset.long === "compiles" ? compileLine : graphLine));
  }
}

function letterBox(text, colour) {
  return h("span", { class: `letter${colour < 0 ? "" : ` g${colour}`}` }, text);
}

function number(value) {
  return h("td", { class: "num" }, typeof value === "number" ? value.toLocaleString("en") : value);
}

function compileLine([step, letter, colour, ranks, compiles, seconds, site]) {
  return h("tr", {}, number(step), h("td", {}, letterBox(letter, colour)), h("td", {}, ranks), number(compiles), number(seconds), h("td", { class: "code" }, site));
}

function graphLine([letter, colour, parent, where, summary, likeness, site, digest, ...numbers]) {
  const between = parent ? `${parent} → ${letter}` : "";
  return h("tr", { id: `graph-${letter}`, title: [digest, site, likeness].filter(Boolean).join(" · ") },
    h("td", {}, letterBox(letter, colour)),
    h("td", { class: "how" }, where ? h("a", { href: where }, between) : between, " ", said(summary)), numbers.map(number));
}
