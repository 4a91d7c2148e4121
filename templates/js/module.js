// A module from its columns. Instructions are numbers, as everywhere in xlagraph.

class Module {
  constructor(data) {
    this.data = data;
    this.length = data.stem.length;
    this.numbers = undelta(data.number);
    this.computations = data.computations.map(([name, start, stop, root]) => ({ name, start, stop, root }));
    this.starts = new Int32Array(this.length + 1);
    for (let i = 0; i < this.length; i++) this.starts[i + 1] = this.starts[i] + data.counts[i];
    this.entry = data.entry;
  }

  name(i) {
    const stem = this.data.stems[this.data.stem[i]];
    return this.numbers[i] < 0 ? stem : `${stem}.${this.numbers[i]}`;
  }

  opcode(i) { return this.data.opcodes[this.data.opcode[i]]; }

  shape(i) { return this.data.shapes[this.data.shape[i]]; }

  payload(i) { return this.data.payloads[i] ?? null; }

  callees(i) { return this.data.callees[i] ?? []; }

  // The attribute list as printed, without metadata.
  attributes(i) {
    return this.data.attributes[this.data.attribute[i]].replace("\0", "").replace(/[\s,]+$/, "").replace(/^[\s,]+/, "");
  }

  origin(i) {
    const place = this.data.origin[i];
    if (place < 0) return null;
    const [text, type, name, frames] = this.data.origins[place];
    return { text, type, name, frames: frames.map(([file, line, fn]) => ({ file: this.data.files[file], line, fn })) };
  }

  operands(i) {
    const out = [];
    for (let k = this.starts[i]; k < this.starts[i + 1]; k++) out.push(i - this.data.operands[k]);
    return out;
  }

  users(i) {
    if (!this.userStarts) this.indexUsers();
    return [...new Set(this.userList.subarray(this.userStarts[i], this.userStarts[i + 1]))];
  }

  indexUsers() {
    const total = this.data.operands.length;
    const starts = new Int32Array(this.length + 2);
    for (let i = 0; i < this.length; i++) {
      for (let k = this.starts[i]; k < this.starts[i + 1]; k++) starts[i - this.data.operands[k] + 2]++;
    }
    for (let i = 2; i < starts.length; i++) starts[i] += starts[i - 1];
    const list = new Int32Array(total);
    for (let i = 0; i < this.length; i++) {
      for (let k = this.starts[i]; k < this.starts[i + 1]; k++) list[starts[i - this.data.operands[k] + 1]++] = i;
    }
    this.userStarts = starts;
    this.userList = list;
  }

  computationOf(i) {
    let low = 0, high = this.computations.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.computations[middle].start <= i) low = middle;
      else high = middle;
    }
    return low;
  }

  // The instruction as XLA prints it.
  raw(i) {
    const inside = this.payload(i) ?? this.operands(i)
      .map((o, k) => `${k > 0 && k % 5 === 0 ? `/*index=${k}*/` : ""}${this.shape(o)} %${this.name(o)}`).join(", ");
    const origin = this.origin(i);
    const attributes = this.data.attributes[this.data.attribute[i]].replace("\0", () => `metadata={${origin ? origin.text : ""}}`);
    const root = this.computations[this.computationOf(i)].root === i ? "ROOT " : "";
    return `${root}%${this.name(i)} = ${this.shape(i)} ${this.opcode(i)}(${inside})${attributes}`;
  }
}
