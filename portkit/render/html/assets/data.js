// Chunks of the page, unpacked when they are needed, and rows out of columns.

/** The value of a chunk: base64 of gzip of JSON. */
async function unpack(id) {
  const bytes = Uint8Array.from(atob($(id).textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** All rows of the comparison, by column. */
class Rows {
  constructor(data) {
    this.data = data.rows;
    this.columns = new Map(data.columns.map((column) => [column.name, column]));
    this.all = Uint32Array.from({ length: this.data.count }, (_, i) => i);
  }

  /** Value of a column in a row; null where it is unknown. */
  value(name, row) {
    const values = this.data.values[name];
    if (!values.texts) return values[row];
    return values.at[row] < 0 ? null : values.texts[values.at[row]];
  }

  /** Why a figure is unknown. */
  reason(name, row) {
    const pattern = this.data.patterns[this.data.unknown[row]];
    return pattern[name] === undefined ? "does not apply" : this.data.reasons[pattern[name]];
  }

  /** Distinct texts of a column, in the order of the rows. */
  texts(name) {
    return this.data.values[name].texts;
  }

  expected(row) {
    return this.data.expected[row] === 1;
  }

  older(row) {
    return this.data.older[row] === 1;
  }

  /** Kernel and operation of a row in words. */
  label(row) {
    return ["page", "shape", "dtype", "variant"].map((name) => this.value(name, row)).join(" ");
  }
}
