// The map of kernels, or of one kernel's operations, by target: the worst of the rows that the filters leave,
// by the same rules as portkit/analysis/views/heat.py, which can't know what a reader filters.

class Heat {
  /**
   * @param app   the application
   * @param line  row → name of its line, such as its kernel
   * @param link  name of a line → address, or null
   * @param name  of the map, for labels
   * @param order names of lines in their order, with a sign each; null: as the rows have them
   */
  constructor(app, line, link, name, order = null) {
    Object.assign(this, { app, line, link, name, order, metric: app.data.metrics[0] });
    this.element = this.draw();
  }

  draw() {
    const radio = (metric, checked) =>
      h("input", { type: "radio", name: `metric ${this.name}`, value: metric.name, checked, change: () => this.show(metric) });
    const choice = (metric, i) => h("label", {}, radio(metric, i === 0), h("span", {}, metric.title));
    const choices = this.app.data.metrics.map(choice);
    this.readout = h("p", { class: "readout", "aria-live": "polite" });
    this.means = h("p", { class: "muted small" });
    this.table = h("table", { class: "heat", role: "grid", "aria-label": this.name });
    walkable(this.table);
    for (const kind of ["pointerover", "focusin", "click"]) this.table.addEventListener(kind, (event) => this.tell(event.target));
    return h("div", { class: "map" },
      h("fieldset", { class: "segments" }, h("legend", { class: "hidden" }, "Figure of the map"), ...choices),
      this.means, scrollable(this.name, this.table), this.readout);
  }

  set rows(rows) {
    this.given = rows;
    this.update();
  }

  show(metric) {
    this.metric = metric;
    this.update();
  }

  update() {
    const targets = this.app.data.targets.filter((target) => this.app.filters.allowsTarget(target));
    const places = this.places();
    this.ends = this.range(places);
    const lines = this.order ? [...this.order.keys()].filter((name) => places.has(name)) : [...places.keys()];
    const vendors = [...new Set(targets.map((target) => target.vendor))];
    this.means.textContent = `${this.metric.title}: ${this.metric.means}. Of several cells the worst is shown.`;
    this.readout.textContent = "Point at a cell, or walk through with the arrow keys.";
    this.table.replaceChildren(
      h("thead", {},
        h("tr", {}, h("td", {}), ...vendors.map((vendor) =>
          h("th", { scope: "colgroup", colspan: targets.filter((target) => target.vendor === vendor).length }, vendor))),
        h("tr", {}, h("td", {}), ...targets.map((target) => h("th", { scope: "col", title: target.title }, target.name)))),
      h("tbody", {}, ...lines.map((name) => this.row(name, targets, places.get(name)))));
    reachable(this.table);
  }

  row(name, targets, cells) {
    const address = this.link(name);
    const head = address ? h("a", { href: address }, name) : name;
    const sign = this.order ? h("span", { class: "sign", "aria-hidden": "true" }, this.order.get(name)) : null;
    const shown = targets.map((target) => this.cell(name, target, cells.get(target.name)));
    return h("tr", {}, h("th", { scope: "row" }, sign, head), ...shown);
  }

  cell(name, target, rows) {
    if (!rows) {
      const told = `${name} on ${target.name}: no row`;
      return h("td", { class: "none", "data-told": told }, h("span", { class: "hidden" }, "no row"));
    }
    const { row, value, count } = this.worst(rows);
    const known = this.metric.name === "status" || value !== null;
    const evidence = this.app.rows.value("evidence", row);
    const standing = this.app.rows.value("standing", row);
    const style = known && value !== null ? `--heat:${Math.round(100 * this.share(value))}%` : null;
    const kind = this.metric.name === "status" ? `standing ${standing.replace(" ", "-")}` : known ? "figure" : "unknown";
    const told = this.words(name, target, row, value, count, rows.length);
    return h("td", { class: kind, style, "data-told": told }, ...evidenceMark(this.app, evidence), " ", ...this.shown(row, value));
  }

  shown(row, value) {
    if (this.metric.name === "status") return statusWords(this.app, row, { short: true });
    return [value === null ? dash(this.app.rows.reason(this.metric.name, row)) : figure(value)];
  }

  /** All that is known of a place, in a sentence. */
  words(name, target, row, value, count, all) {
    const worst = count > 1 ? `, the worst of ${count}` : "";
    const without = this.metric.name !== "status" ? all - count : 0;
    const more = without ? `; ${plural(without, "cell")} without this figure` : "";
    const evidence = this.app.rows.value("evidence", row);
    return `${name} on ${target.title}: ${this.what(row, value)}; ${evidence}, ${operationOf(this.app, row)}${worst}${more}`;
  }

  /** The figure or the status of a row with its reason. */
  what(row, value) {
    const rows = this.app.rows;
    if (this.metric.name !== "status") {
      if (value === null) return `unknown, ${rows.reason(this.metric.name, row)}`;
      return `${figure(value)} ${this.metric.unit}`.trim();
    }
    const cause = rows.value("cause", row);
    return `${rows.value("status", row)}${rows.expected(row) ? " (expected)" : ""}${cause ? `: ${cause}` : ""}`;
  }

  tell(target) {
    const cell = target.closest("[data-told]");
    if (cell) this.readout.textContent = cell.dataset.told;
  }

  /** Line → target → rows. */
  places() {
    const lines = new Map();
    for (const row of this.given) {
      const name = this.line(row);
      const target = this.app.rows.value("target", row);
      if (!lines.has(name)) lines.set(name, new Map());
      const cells = lines.get(name);
      if (!cells.has(target)) cells.set(target, []);
      cells.get(target).push(row);
    }
    return lines;
  }

  /** The worst row, its value, and how many rows have the figure. */
  worst(rows) {
    if (this.metric.name === "status") {
      return { row: rows.reduce((a, b) => (this.rank(b) < this.rank(a) ? b : a)), value: null, count: rows.length };
    }
    const known = rows.filter((row) => this.of(row) !== null);
    if (!known.length) return { row: rows[0], value: null, count: 0 };
    const way = this.metric.highest ? 1 : -1;
    const row = known.reduce((a, b) => (way * (this.of(b) - this.of(a)) > 0 ? b : a));
    return { row, value: this.of(row), count: known.length };
  }

  /** 0 is the worst status; of rows alike in it the one of the strongest evidence, then the first. */
  rank(row) {
    const { standings, evidence } = this.app.data;
    const strength = Object.keys(evidence);
    const place = standings.indexOf(this.app.rows.value("standing", row));
    return place * strength.length + strength.indexOf(this.app.rows.value("evidence", row));
  }

  of(row) {
    return this.app.rows.value(this.metric.name, row);
  }

  range(places) {
    if (this.metric.name === "status") return [0, 1];
    const cells = [...places.values()].flatMap((of) => [...of.values()]);
    const values = cells.map((rows) => this.worst(rows).value).filter((value) => value !== null);
    return values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
  }

  /** 1 where a figure is best. */
  share(value) {
    const [low, high] = this.ends;
    const share = high === low ? 1 : (value - low) / (high - low);
    return this.metric.highest && high !== low ? 1 - share : share;
  }
}

const SIGNS = { good: "✓", bad: "✕", "no verdict": "?", "expected gap": "≈", excluded: "⊘" };

/** A status with a sign that tells it without colour; where room is short, a good one by its sign alone. */
function statusWords(app, row, { short = false } = {}) {
  const standing = app.rows.value("standing", row);
  const words = broken(app.rows.value("status", row));
  return [h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[standing]), " ",
    short && standing === "good" ? h("span", { class: "hidden" }, ...words) : h("span", {}, ...words)];
}

/** A status that may go on in a second line where it is joined: many targets are to fit beside each other. */
function broken(status) {
  return status.split("_").flatMap((part, i) => (i ? ["_", h("wbr"), part] : [part]));
}
