// What the list shows: computation headings, rows, and folds over what is equal or only follows.

const AROUND = 3; // rows shown around an origin
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
      while (end < section.stop && !pair.isOrigin(end)) end++;
      const first = r === section.start ? r : Math.min(r + AROUND, end);
      const last = end === section.stop ? end : Math.max(first, end - AROUND);
      this.layRows(r, first);
      this.layFolds(first, last);
      this.layRows(last, end);
      while (end < section.stop && pair.isOrigin(end)) this.push(ROW, end++, 0);
      r = end;
    }
  }

  layRows(from, to) {
    for (let k = from; k < to; k++) this.push(ROW, k, 0);
  }

  // Rows without an origin, in stretches: what follows from one origin is folded together.
  layFolds(from, to) {
    const { follows } = this.pair;
    let start = from, origin = -1;
    for (let k = from; k < to; k++) {
      if (follows[k] >= 0 && origin >= 0 && follows[k] !== origin) {
        this.layFold(start, k);
        start = k;
      }
      if (follows[k] >= 0) origin = follows[k];
    }
    this.layFold(start, to);
  }

  layFold(from, to) {
    if (to - from < MIN_FOLD || this.all || this.opened.has(from)) this.layRows(from, to);
    else this.push(FOLD, from, to);
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
    const { pair, kind, causeFilter } = this;
    if (kind === "origins" ? !pair.isOrigin(row) : kind === "differing" ? !pair.differs(row) : kind !== "" && STATUS[pair.status[row]] !== kind) return false;
    if (causeFilter === "none" ? pair.cause[row] >= 0 || !pair.differs(row) : causeFilter !== "" && pair.cause[row] !== Number(causeFilter) - 1) return false;
    return this.query.every((term) => fitsRow(term, pair, row));
  }

  filter({ q = "", rows = "", cause = "", in: computation = "" }) {
    this.query = parseQuery(q);
    this.kind = rows;
    this.causeFilter = cause;
    this.computation = computation;
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
