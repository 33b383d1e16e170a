// A table of rows that sorts, searches and shows a page at a time, whatever the number of rows.

const PAGE = 50;

class Table {
  /**
   * @param app      the application: rows, data
   * @param name     what its rows are, for labels
   * @param columns  names of columns, in order
   * @param cell     (column, row) → node of a cell
   */
  constructor(app, name, columns, cell) {
    Object.assign(this, { app, name, cell, order: null, falling: false, page: 0, words: "" });
    this.columns = columns.map((column) => app.rows.columns.get(column));
    this.found = new Map(); // row → its text in lower case
    this.element = this.draw();
  }

  /** Shows other rows. */
  set rows(rows) {
    this.given = rows;
    this.page = 0;
    this.update();
  }

  draw() {
    const search = settled((event) => { this.words = event.target.value.trim().toLowerCase(); this.page = 0; this.update(); });
    this.status = h("span", { class: "muted", role: "status" });
    this.before = h("button", { type: "button", click: () => this.turn(-1) }, "Previous");
    this.after = h("button", { type: "button", click: () => this.turn(1) }, "Next");
    this.table = h("table", { class: "rows", role: "grid", "aria-label": this.name }, h("thead"), h("tbody"));
    walkable(this.table);
    return h("div", { class: "table" },
      h("div", { class: "bar" },
        h("input", { type: "search", "aria-label": `Search ${this.name}`, placeholder: "Search", input: search }),
        this.chooser(), this.status, this.before, this.after),
      scrollable(this.name, this.table));
  }

  /** Which columns are shown. */
  chooser() {
    this.shown = new Set(this.columns.filter((column) => column.shown).map((column) => column.name));
    const box = (column) => h("input", { type: "checkbox", value: column.name, checked: column.shown, change: (event) => {
      this.shown[event.target.checked ? "add" : "delete"](column.name);
      this.found.clear();
      this.update();
    } });
    return h("details", { class: "filter" }, h("summary", {}, "Columns"),
      h("fieldset", {}, h("legend", { class: "hidden" }, "Columns that are shown"),
        ...this.columns.map((column) => h("label", {}, box(column), ` ${column.title}`))));
  }

  turn(step) {
    this.page += step;
    this.update();
  }

  sortBy(column) {
    if (this.order !== column.name) [this.order, this.falling] = [column.name, column.number];
    else if (this.falling === column.number) this.falling = !this.falling;
    else this.order = null;
    this.page = 0;
    this.update();
    this.table.querySelector(`[data-sort="${column.name}"]`)?.focus();
  }

  update() {
    const rows = this.sorted(this.matching());
    const columns = this.columns.filter((column) => this.shown.has(column.name));
    const pages = Math.max(Math.ceil(rows.length / PAGE), 1);
    this.page = Math.min(Math.max(this.page, 0), pages - 1);
    const part = rows.slice(this.page * PAGE, (this.page + 1) * PAGE);
    this.table.tHead.replaceChildren(h("tr", {}, ...columns.map((column) => this.head(column))));
    this.table.tBodies[0].replaceChildren(...Array.from(part, (row) => this.line(columns, row)));
    reachable(this.table);
    const first = this.page * PAGE + 1;
    this.status.textContent = rows.length ? `${first}–${first + part.length - 1} of ${plural(rows.length, "row")}` : "no rows";
    this.before.disabled = this.page === 0;
    this.after.disabled = this.page === pages - 1;
  }

  line(columns, row) {
    const cell = (column) => h("td", { class: column.number ? "number" : "" }, this.cell(column, row));
    return h("tr", { "data-row": row }, ...columns.map(cell));
  }

  head(column) {
    const sorted = this.order === column.name;
    const direction = sorted ? (this.falling ? "descending" : "ascending") : null;
    const arrow = sorted ? (this.falling ? " ↓" : " ↑") : "";
    const unit = column.unit ? h("span", { class: "unit" }, column.unit) : null;
    return h("th", { scope: "col", "aria-sort": direction, class: column.number ? "number" : "" },
      h("button", { type: "button", "data-sort": column.name, title: column.means || null, click: () => this.sortBy(column) },
        column.title, unit, h("span", { "aria-hidden": "true" }, arrow)));
  }

  matching() {
    if (!this.words) return this.given;
    const words = this.words.split(/\s+/);
    return this.given.filter((row) => words.every((word) => this.text(row).includes(word)));
  }

  text(row) {
    if (!this.found.has(row)) {
      const values = this.columns.filter((column) => this.shown.has(column.name) || !column.number)
        .map((column) => this.app.rows.value(column.name, row)).filter((value) => value !== null);
      this.found.set(row, values.join(" ").toLowerCase());
    }
    return this.found.get(row);
  }

  /** Unknown values last, whichever way. */
  sorted(rows) {
    if (!this.order) return rows;
    const value = (row) => this.app.rows.value(this.order, row);
    const way = this.falling ? -1 : 1;
    const known = Array.from(rows).filter((row) => value(row) !== null);
    const unknown = Array.from(rows).filter((row) => value(row) === null);
    known.sort((a, b) => way * inOrder(value(a), value(b)) || a - b);
    return [...known, ...unknown];
  }
}
