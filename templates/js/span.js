// What part of the columns a timeline shows: all of them, or fewer, wider ones.

class Span {
  constructor(total) {
    this.total = Math.max(1, total);
    this.left = 0;
    this.width = this.total; // columns in view
  }

  // Fewer or more columns around one of them.
  zoom(factor, around) {
    const width = Math.min(this.total, Math.max(Math.min(8, this.total), this.width * factor));
    this.left = around - ((around - this.left) / this.width) * width;
    this.width = width;
    this.clamp();
  }

  move(columns) {
    this.left += columns;
    this.clamp();
  }

  // So that a column is in view.
  show(column) {
    if (column < this.left) this.left = column;
    else if (column + 1 > this.left + this.width) this.left = column + 1 - this.width;
    this.clamp();
  }

  clamp() { this.left = Math.max(0, Math.min(this.total - this.width, this.left)); }
}
