// The operators of a log in columns, and what joins them; places are the gaps between columns.

class Lanes {
  constructor(data) {
    this.data = data;
    this.streams = data.streams;
    this.findings = data.findings;
    this.lines = undelta(data.lines);
    this.stream = Uint16Array.from(data.stream);
    this.length = this.lines.length;
    this.ends = undelta(data.ends);
    this.ofLane = this.byLane();
    this.arrowsTo = this.byTarget();
  }

  // For each lane the columns of its operators, in order.
  byLane() {
    const counts = new Int32Array(this.streams.length);
    for (const lane of this.stream) counts[lane]++;
    const lists = [...counts].map((count) => new Int32Array(count));
    counts.fill(0);
    this.stream.forEach((lane, column) => { lists[lane][counts[lane]++] = column; });
    return lists;
  }

  // For each lane the arrows that end there, in order.
  byTarget() {
    const lists = this.streams.map(() => []);
    this.data.targets.forEach((lane, k) => lists[lane].push(k));
    return lists;
  }

  begin(arrow) { return this.ends[arrow] - this.data.back[arrow]; }

  // The position in a lane of its first operator at a column or after it.
  firstFrom(lane, column) { return firstAtLeast(this.ofLane[lane], column); }

  // The operator of a lane that is nearest to a column, or -1.
  nearest(lane, column) {
    const list = this.ofLane[lane], k = this.firstFrom(lane, column);
    if (k === list.length) return list[k - 1] ?? -1;
    return k > 0 && column - list[k - 1] < list[k] - column ? list[k - 1] : list[k];
  }

  columnOf(line) {
    const column = firstAtLeast(this.lines, line);
    return this.lines[column] === line ? column : -1;
  }

  // The first arrow that ends at a place or after it; arrows are in the order of their ends.
  firstEnd(place) { return firstAtLeast(this.ends, place); }

  text(key, column) { return this.data[`${key}s`][this.data[key][column]]; }
  laneName(lane) { return lane < 0 ? "an event that the log does not have" : this.streams[lane].name; }
  title(column) { return `${this.text("operator", column)} on ${this.laneName(this.stream[column])}`; }

  // The waits between an operator and the one before it on its stream.
  waitsOf(column) {
    const lane = this.stream[column], list = this.ofLane[lane], k = this.firstFrom(lane, column);
    const after = k > 0 ? list[k - 1] : -1;
    return this.arrowsTo[lane].filter((arrow) => this.ends[arrow] > after && this.ends[arrow] <= column);
  }

  // The operator that an arrow waits for: the last one on its stream before the event.
  source(arrow) {
    const lane = this.data.sources[arrow];
    return lane < 0 ? -1 : this.ofLane[lane][this.firstFrom(lane, this.begin(arrow)) - 1] ?? -1;
  }

  step(column) {
    let found = null;
    for (const [place, number] of this.data.steps) if (place <= column) found = number;
    return found;
  }

  findingsOf(column) {
    return this.findings.filter((one) => one.later === column || one.earlier.includes(column));
  }

  // Columns whose operator, node, place or parameter has all the words.
  search(text) {
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!wanted.length) return null;
    const keys = ["operator", "node", "site", "forward", "parameter"];
    const hits = keys.map((key) => this.data[`${key}s`].map((one) => {
      const lower = one.toLowerCase();
      return wanted.reduce((bits, word, k) => bits | (lower.includes(word) ? 1 << k : 0), 0);
    }));
    const all = (1 << wanted.length) - 1, found = new Uint8Array(this.length);
    for (let column = 0; column < this.length; column++) {
      let bits = 0;
      keys.forEach((key, k) => { bits |= hits[k][this.data[key][column]]; });
      if (bits === all) found[column] = 1;
    }
    return found;
  }
}

// The position in a sorted list of the first number that is not less than one, by bisection.
function firstAtLeast(list, number) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < number) low = middle + 1; else high = middle;
  }
  return low;
}

function bytes(n) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let k = 0;
  while (n >= 1024 && k < units.length - 1) { n /= 1024; k++; }
  return k ? `${n.toFixed(1)} ${units[k]}` : plural(n, "byte");
}
