// Two modules side by side: aligned rows, their status, and who is whose partner.

const SAME = 0, CHANGED = 1, REMOVED = 2, ADDED = 3, ASIDE = 4;
const STATUS = ["same", "changed", "removed", "added", "aside"];
const GLYPH = ["", "~", "−", "+", "·"];

class Pair {
  constructor(data, a, b) {
    this.data = data;
    this.modules = { a, b };
    this.labels = { a: data.labels[0], b: data.labels[1] };
    this.layRows();
    this.setStatus();
    this.setCauses();
    this.setOrigins();
    this.tensors = tensorNames(data);
  }

  layRows() {
    const { a, b } = this.modules;
    const total = this.data.sections.reduce((sum, section) => sum + section[2].length, 0);
    this.a = new Int32Array(total);
    this.b = new Int32Array(total);
    this.rowOf = { a: new Int32Array(a.length).fill(-1), b: new Int32Array(b.length).fill(-1) };
    this.sections = [];
    let at = 0;
    for (const [ca, cb, rowsA, rowsB] of this.data.sections) {
      this.a.set(undelta(rowsA), at);
      this.b.set(undelta(rowsB), at);
      const name = ca >= 0 ? a.computations[ca].name : b.computations[cb].name;
      this.sections.push({ a: ca, b: cb, start: at, stop: at + rowsA.length, name });
      at += rowsA.length;
    }
    for (let r = 0; r < total; r++) {
      if (this.a[r] >= 0) this.rowOf.a[this.a[r]] = r;
      if (this.b[r] >= 0) this.rowOf.b[this.b[r]] = r;
    }
    this.length = total;
  }

  setStatus() {
    this.status = new Uint8Array(this.length);
    this.fields = new Map();
    this.places = new Map(); // positions of operands that are neither partners nor equal constants
    for (let r = 0; r < this.length; r++) {
      if (this.a[r] < 0 || this.b[r] < 0) this.status[r] = ASIDE;
    }
    for (const [a, , fields, places] of this.data.changes) {
      const row = this.rowOf.a[a];
      this.status[row] = CHANGED;
      this.fields.set(row, fields);
      this.places.set(row, new Set(places));
    }
    for (const i of undelta(this.data.removed)) this.status[this.rowOf.a[i]] = REMOVED;
    for (const i of undelta(this.data.added)) this.status[this.rowOf.b[i]] = ADDED;
    this.dead = { a: new Set(undelta(this.data.deadA)), b: new Set(undelta(this.data.deadB)) };
    this.differing = this.status.reduce((n, s) => n + (s > SAME && s < ASIDE), 0);
    for (const section of this.sections) {
      section.differing = 0;
      for (let r = section.start; r < section.stop; r++) section.differing += this.differs(r) ? 1 : 0;
    }
  }

  // The first cause that accounts for each row, -1 for none.
  setCauses() {
    this.cause = new Int8Array(this.length).fill(-1);
    this.causes = this.data.causes.map((cause) => ({ ...cause, a: undelta(cause.a), b: undelta(cause.b) }));
    this.causes.forEach((cause, k) => {
      for (const side of ["a", "b"]) {
        for (const i of cause[side]) {
          const row = this.rowOf[side][i];
          if (this.cause[row] < 0) this.cause[row] = k;
        }
      }
    });
  }

  // For each row the one that it follows from, -1 for origins and for what does not differ.
  setOrigins() {
    const row = (number) => (number >= 0 ? this.rowOf.a[number] : this.rowOf.b[-1 - number]);
    this.follows = new Int32Array(this.length).fill(-1);
    this.followers = new Map();
    undelta(this.data.follows).forEach((number, k) => {
      const origin = row(this.data.origins[k]);
      this.follows[row(number)] = origin;
      this.followers.set(origin, (this.followers.get(origin) ?? 0) + 1);
    });
  }

  isOrigin(row) { return this.differs(row) && this.follows[row] < 0; }

  // The name of a row's instruction, of B where it has one.
  title(row) { return this.b[row] >= 0 ? this.modules.b.name(this.b[row]) : this.modules.a.name(this.a[row]); }

  differs(row) { return this.status[row] > SAME && this.status[row] < ASIDE; }

  sectionOf(row) {
    let low = 0, high = this.sections.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.sections[middle].start <= row) low = middle;
      else high = middle;
    }
    return low;
  }

  partner(side, i) {
    const row = this.rowOf[side][i];
    return (side === "a" ? this.b : this.a)[row];
  }

  differingOperands(row) { return this.places.get(row) ?? new Set(); }

  describe(row) {
    const s = this.status[row];
    if (s === CHANGED) return `changed: ${this.fields.get(row).join(", ")}`;
    if (s === REMOVED) return `only in ${this.labels.a}`;
    if (s === ADDED) return `only in ${this.labels.b}`;
    if (s === ASIDE) {
      const dead = this.a[row] >= 0 ? this.dead.a.has(this.a[row]) : this.dead.b.has(this.b[row]);
      return dead ? "ignored: nothing needs it" : "ignored: a repeated constant";
    }
    return "the same on both sides";
  }
}

// For each side: instruction -> what the capture knows it to be, as input and as outputs.
function tensorNames(data) {
  const found = { a: new Map(), b: new Map() };
  const add = (side, i, place, position, name) => {
    if (i === null) return;
    if (!found[side].has(i)) found[side].set(i, []);
    found[side].get(i).push({ place: `${place} ${position}`, name });
  };
  for (const [place, slots] of [["input", data.parameters], ["output", data.outputs]]) {
    for (const [a, b, atA, atB, name] of slots) {
      add("a", atA, place, a, name);
      add("b", atB, place, b, name);
    }
  }
  return found;
}
