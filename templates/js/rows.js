// What the list shows: computation headings, rows, and folds over what does not differ.

const AROUND = 3; // unchanged rows shown around a difference
const MIN_FOLD = 5; // shorter stretches are shown

const ROW = 0, FOLD = 1, COMP = 2, REST = 3;

class Rows {
  constructor(pair) {
    this.pair = pair;
    this.opened = new Set(); // first rows of opened folds
    this.sections = new Set(); // opened computations
    this.all = false;
    this.rest = false;
    this.query = [];
    this.kind = "";
    this.causeFilter = "";
    this.computation = "";
    this.lay();
  }

  get filtered() { return this.query.length > 0 || this.kind !== "" || this.causeFilter !== ""; }

  lay() {
    this.type = [];
    this.from = []; // first row, or number of the computation
    this.to = []; // end of a fold
    this.matches = 0;
    const { sections } = this.pair;
    const clean = [];
    sections.forEach((section, s) => {
      if (this.computation !== "" && s !== Number(this.computation)) return;
      if (this.filtered) this.layMatches(section, s);
      else if (s > 0 && section.differing === 0 && !this.all && !this.rest && !this.sections.has(s) && this.computation === "") clean.push(s);
      else this.laySection(section, s);
    });
    if (clean.length) this.push(REST, clean.length, 0);
    this.index();
  }

  push(type, from, to) {
    this.type.push(type);
    this.from.push(from);
    this.to.push(to);
  }

  laySection(section, s) {
    this.push(COMP, s, 0);
    if (s > 0 && section.differing === 0 && !this.all && !this.sections.has(s) && this.computation === "") return;
    const { pair } = this;
    let r = section.start;
    while (r < section.stop) {
      let end = r;
      while (end < section.stop && !pair.differs(end)) end++;
      const first = r === section.start ? r : Math.min(r + AROUND, end);
      const last = end === section.stop ? end : Math.max(first, end - AROUND);
      for (let k = r; k < first; k++) this.push(ROW, k, 0);
      if (last - first >= MIN_FOLD && !this.all && !this.opened.has(first)) this.push(FOLD, first, last);
      else for (let k = first; k < last; k++) this.push(ROW, k, 0);
      for (let k = last; k < end; k++) this.push(ROW, k, 0);
      while (end < section.stop && pair.differs(end)) this.push(ROW, end++, 0);
      r = end;
    }
  }

  layMatches(section, s) {
    let headed = false;
    for (let r = section.start; r < section.stop; r++) {
      if (!this.accepts(r)) continue;
      if (!headed) this.push(COMP, s, 0);
      headed = true;
      this.push(ROW, r, 0);
      this.matches++;
    }
  }

  index() {
    this.place = new Map();
    for (let k = 0; k < this.type.length; k++) if (this.type[k] === ROW) this.place.set(this.from[k], k);
    this.length = this.type.length;
  }

  accepts(row) {
    const { pair } = this;
    if (this.kind === "differing" ? !pair.differs(row) : this.kind !== "" && STATUS[pair.status[row]] !== this.kind) return false;
    if (this.causeFilter === "none" ? pair.cause[row] >= 0 || !pair.differs(row) : this.causeFilter !== "" && pair.cause[row] !== Number(this.causeFilter)) return false;
    return this.query.every((word) => this.wordFits(word, row));
  }

  wordFits([field, text], row) {
    const { pair } = this;
    return this.fits(pair.modules.a, pair.a[row], field, text) || this.fits(pair.modules.b, pair.b[row], field, text);
  }

  fits(module, i, field, text) {
    if (i < 0) return false;
    const has = (value) => value.toLowerCase().includes(text);
    if (field === "op") return module.opcode(i).toLowerCase() === text;
    if (field === "shape") return has(module.shape(i));
    if (field === "name") return has(module.name(i));
    if (field === "src") return this.fitsSource(module, i, has);
    return has(module.name(i)) || has(module.opcode(i)) || has(module.shape(i)) || this.fitsSource(module, i, has);
  }

  fitsSource(module, i, has) {
    const place = module.data.origin[i];
    if (place < 0) return false;
    const [, type, name, frames] = module.data.origins[place];
    return has(type) || has(name) || frames.some(([file, line]) => has(`${module.data.files[file]}:${line}`));
  }

  search(text) {
    this.query = text.trim().toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
      const found = /^(op|shape|name|src):(.+)$/.exec(word);
      return found ? [found[1], found[2]] : ["", word.replace(/^%/, "")];
    });
    this.lay();
  }

  // Opens what hides a row; says whether it can be shown under the filters.
  reveal(row) {
    if (this.place.has(row)) return true;
    if (this.filtered) return false;
    const s = this.pair.sectionOf(row);
    if (this.computation !== "" && Number(this.computation) !== s) this.computation = "";
    this.sections.add(s);
    this.lay();
    const fold = this.type.findIndex((type, k) => type === FOLD && this.from[k] <= row && row < this.to[k]);
    if (fold >= 0) {
      this.opened.add(this.from[fold]);
      this.lay();
    }
    return this.place.has(row);
  }

  // Opens or closes a fold or a computation.
  toggle(k) {
    if (this.type[k] === FOLD) this.opened.add(this.from[k]);
    else if (this.type[k] === REST) this.rest = true;
    else if (this.type[k] === COMP) {
      const s = this.from[k];
      if (this.sections.has(s)) this.sections.delete(s);
      else this.sections.add(s);
    }
    this.lay();
  }
}
