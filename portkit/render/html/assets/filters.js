// Filters over rows: vendor, target, kernel, dtype, evidence. Nothing chosen means all.

class Filters {
  constructor(data, rows, changed) {
    this.rows = rows;
    this.changed = changed;
    this.vendors = new Map(data.targets.map((target) => [target.name, target.vendor]));
    this.fields = [
      { name: "vendor", title: "Vendor", values: [...new Set(data.targets.map((target) => target.vendor))] },
      { name: "target", title: "Target", values: data.targets.map((target) => target.name) },
      { name: "page", title: "Kernel", values: rows.texts("page") },
      { name: "dtype", title: "Dtype", values: rows.texts("dtype") },
      { name: "evidence", title: "Evidence", values: rows.texts("evidence") },
    ];
    this.chosen = new Map(this.fields.map((field) => [field.name, new Set()]));
    this.cache = null;
  }

  /** Rows that pass, in the table's order. */
  get shown() {
    this.cache ??= this.rows.all.filter((row) => this.passes(row));
    return this.cache;
  }

  get active() {
    return [...this.chosen.values()].some((values) => values.size);
  }

  passes(row) {
    for (const [name, values] of this.chosen) {
      if (values.size && !values.has(this.valueOf(name, row))) return false;
    }
    return true;
  }

  valueOf(name, row) {
    return name === "vendor" ? this.vendors.get(this.rows.value("target", row)) : this.rows.value(name, row);
  }

  /** Whether a target may be shown: by its vendor and its name. */
  allowsTarget(target) {
    const [vendors, names] = [this.chosen.get("vendor"), this.chosen.get("target")];
    return (!vendors.size || vendors.has(target.vendor)) && (!names.size || names.has(target.name));
  }

  /** Whether a finding is about a kernel, a target, a dtype and an evidence that are shown. */
  allowsFinding(finding) {
    const one = (name, values) => !this.chosen.get(name).size || values.some((each) => this.chosen.get(name).has(each));
    return (
      one("page", [finding.page_of]) &&
      one("dtype", [finding.dtype]) &&
      one("evidence", finding.evidence) &&
      one("target", finding.targets) &&
      one("vendor", finding.targets.map((target) => this.vendors.get(target)))
    );
  }

  /** What of a plot's values is shown: those of targets and evidence that are chosen; null where none is. */
  ofPlot(plot, kind) {
    if ((plot.page && !this.one("page", plot.page)) || (plot.dtype && !this.one("dtype", plot.dtype))) return null;
    const kept = Object.entries(plot.datasets).map(([name, values]) => [name, values.filter((value) => this.ofValue(value, kind))]);
    return kept[0][1].length ? Object.fromEntries(kept) : null; // the first is what the others stand around
  }

  /** Whether a value of a plot is of targets, evidence, kernel and dtype that are chosen. */
  ofValue(value, kind) {
    const runs = kind.runs.map((field) => value[field].split(" "));
    const named = kind.targets.filter((field) => value[field]).map((field) => value[field].split(" ")[0]); // of a partition too
    const targets = [...named, ...runs.map(([target]) => target)];
    const evidence = runs.length ? runs.map((run) => run[1]) : [value.evidence ?? "measured"];
    return targets.every((target) => this.one("target", target) && this.one("vendor", this.vendors.get(target))) &&
      evidence.every((each) => this.one("evidence", each)) &&
      (!value.page || this.one("page", value.page)) && (!value.dtype || this.one("dtype", value.dtype));
  }

  /** Whether a filter lets a value through. */
  one(name, value) {
    return !this.chosen.get(name).size || this.chosen.get(name).has(value);
  }

  /** Puts the controls into an element. */
  draw(place) {
    this.summaries = new Map();
    this.clear = h("button", { type: "button", class: "quiet", hidden: true, click: () => this.reset() }, "Clear filters");
    this.count = h("span", { class: "muted", role: "status" });
    place.replaceChildren(...this.fields.map((field) => this.control(field)), this.clear, this.count);
    this.place = place;
    document.addEventListener("click", (event) => this.closeOthers(event.target));
    place.addEventListener("keydown", (event) => this.escape(event));
    this.tell();
  }

  control(field) {
    const summary = h("summary", {});
    this.summaries.set(field.name, summary);
    const boxes = field.values.map((value) => h("label", {}, this.box(field, value), ` ${value}`));
    return h("details", { class: "filter", "data-filter": field.name }, summary,
      h("fieldset", {}, h("legend", { class: "hidden" }, field.title), ...boxes));
  }

  box(field, value) {
    const change = (event) => {
      this.chosen.get(field.name)[event.target.checked ? "add" : "delete"](value);
      this.update();
    };
    return h("input", { type: "checkbox", value, change });
  }

  reset() {
    for (const values of this.chosen.values()) values.clear();
    for (const box of this.place.querySelectorAll("input:checked")) box.checked = false;
    this.update();
    this.place.querySelector("summary").focus();
  }

  update() {
    this.cache = null;
    this.tell();
    this.changed();
  }

  tell() {
    for (const field of this.fields) {
      const values = [...this.chosen.get(field.name)];
      const told = values.length === 0 ? "all" : values.length === 1 ? values[0] : `${values.length} of ${field.values.length}`;
      this.summaries.get(field.name).replaceChildren(`${field.title}: `, h("b", {}, told));
    }
    this.clear.hidden = !this.active;
    const all = this.rows.all.length.toLocaleString("en");
    this.count.textContent = this.active ? `${plural(this.shown.length, "row")} of ${all}` : "";
  }

  closeOthers(target) {
    for (const details of this.place.querySelectorAll("details[open]")) if (!details.contains(target)) details.open = false;
  }

  escape(event) {
    const details = event.target.closest("details[open]");
    if (event.key !== "Escape" || !details) return;
    details.open = false;
    details.querySelector("summary").focus();
  }
}
