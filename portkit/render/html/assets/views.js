// The views of the page. Each gives its title, puts its nodes into a place, and returns what to do when the
// filters change. A view to come needs a line in VIEWS alone.

const KIND_TITLES = {
  roofline: "Roofline",
  speedups: "Speedup against each baseline",
  trend: "Over the nights",
  depth: "Occupancy against registers",
  variants: "Variants by target",
  transfers: "Transfer penalties",
  cascade: "Performance portability",
  distances: "Numeric distance between targets",
};

const OLDER = "of an older source of the cell than its other rows";

const kernelAddress = (page) => `#/kernel/${encodeURIComponent(page)}`;

/** Shape, dtype and variant of a row: a line of a kernel's own map. */
const operationOf = (app, row) => ["shape", "dtype", "variant"].map((name) => app.rows.value(name, row)).join(" ");

// Cells of the table of rows

/** What a column shows of a row. */
function rowCell(app, column, row) {
  const value = app.rows.value(column.name, row);
  const special = SPECIAL_CELLS[column.name];
  if (special) return special(app, row, value);
  if (value === null) return column.number ? dash(app.rows.reason(column.name, row)) : "";
  if (!column.number) return value;
  const ends = app.rows.range(column.name, row);
  return ends ? h("span", { "data-why": TUNED }, ends.map(figure).join("–")) : figure(value);
}

const TUNED = "at the best and at the worst of the configurations that the kernel's autotuner chooses among: " +
  "on a GPU that is absent nobody knows which";

function timeCell(app, row, value) {
  if (value === null) return dash(app.rows.reason("median_ms", row));
  const why = app.rows.value("incomparable", row);
  return why ? [figure(value), h("span", { "data-why": `not to be compared: ${why}` }, " ‡")] : figure(value);
}

const SPECIAL_CELLS = {
  median_ms: timeCell,
  page: (app, row, value) => h("a", { href: kernelAddress(value) }, value),
  target: (app, row, value) => (app.wholeCells.has(row) ? h("a", { href: `#/cell/${row}` }, value) : value),
  evidence: (app, row, value) => {
    const older = app.rows.older(row) ? h("span", { "data-why": OLDER }, " †") : null;
    return h("span", {}, ...evidenceMark(app, value, { named: true }), older);
  },
  status: (app, row) => {
    const standing = app.rows.value("standing", row).replace(" ", "-");
    const expected = app.rows.expected(row) ? " (expected)" : null;
    const why = app.rows.value("cause", row);
    return h("span", { class: `standing ${standing}`, "data-why": why }, ...statusWords(app, row), expected);
  },
};

function rowsTable(app, name) {
  const columns = app.data.columns.map((column) => column.name).filter((each) => each !== "standing");
  return new Table(app, name, columns, (column, row) => rowCell(app, column, row));
}

function rawNote(chunk = null) {
  const left = chunk?.cells_left_out;
  const more = left ? ` ${plural(left, "more cell")} with findings had no room.` : "";
  const command = h("code", {}, "portkit show CELL");
  return h("p", { class: "muted small" }, "Linked targets show every raw field.", more, " Of all others ", command, " does.");
}

// Overview

const overview = {
  title: () => "Overview",
  async show(app, place) {
    const name = "Kernels by target";
    const signs = new Map(app.data.kernels.map((each) => [each.page, each.sign]));
    const heat = new Heat(app, (row) => app.rows.value("page", row), kernelAddress, name, signs);
    place.append(h("section", {}, h("h2", {}, name), legend(app), heat.element));
    const cascades = (await app.chunkOf(null)).plots;
    if (cascades.length) {
      const drawn = app.plots.section("Cascade over targets", cascades);
      place.append(h("section", {}, h("h2", {}, "Performance portability"), drawn));
    }
    return { filter: (rows) => { heat.rows = rows; } };
  },
};

/** Marks of the evidences that rows here have. */
function legend(app) {
  const used = new Set(app.rows.texts("evidence"));
  const line = ([name, { means }]) =>
    h("li", {}, ...evidenceMark(app, name, { named: true }), h("span", { class: "muted" }, ` ${means}`));
  const known = Object.entries(app.data.evidence).filter(([name]) => used.has(name));
  return h("ul", { class: "legend", "aria-label": "Evidence" }, ...known.map(line));
}

// A kernel

const kernel = {
  title: (app, page) => page,
  async show(app, place, page) {
    const known = app.data.kernels.find((each) => each.page === page);
    if (!known) return nothing(place, "No such kernel", `No row is of a kernel ${page}.`);
    const chunk = await app.chunkOf(page);
    const heat = new Heat(app, (row) => operationOf(app, row), () => null, `Operations of ${page} by target`);
    const table = rowsTable(app, `Rows of ${page}`);
    const findings = h("section", { class: "findings" });
    place.append(
      h("h2", {}, page),
      verdict(known),
      findings,
      h("section", {}, h("h3", {}, "Operations by target"), legend(app), heat.element),
      h("div", { class: "kinds" }, ...Object.keys(KIND_TITLES).map((kind) => kindSection(app, chunk, kind))),
      h("section", {}, h("h3", {}, "Rows"), table.element, rawNote(chunk)),
    );
    const own = (rows) => rows.filter((row) => app.rows.value("page", row) === page);
    const filter = (rows) => {
      heat.rows = own(rows);
      table.rows = own(rows);
      findings.replaceChildren(...findingsOf(app, page, chunk));
    };
    return { filter };
  },
};

function nothing(place, title, why) {
  place.append(h("h2", {}, title), h("p", {}, why));
  return {};
}

function verdict(known) {
  const sign = h("span", { class: "sign", "aria-hidden": "true" }, known.sign);
  return h("p", {}, h("span", { class: "verdict" }, sign, ` ${known.carry}`), h("br"), h("span", { class: "muted" }, known.why));
}

/** Findings that pass a test, each with its place among all. */
function findingsWhere(app, test) {
  return app.data.findings.map((finding, place) => ({ finding, place })).filter(({ finding }) => test(finding));
}

/** A kernel's findings that the filters leave. */
function findingsOf(app, page, chunk) {
  const own = findingsWhere(app, (finding) => finding.page_of === page);
  const left = own.filter(({ finding }) => app.filters.allowsFinding(finding));
  const cards = left.map(({ finding, place }, i) =>
    findingCard(app, finding, place, { open: i === 0, excerpts: chunk.excerpts }));
  const none = h("p", { class: "muted" }, own.length ? "The filters leave none." : "None.");
  const count = left.length < own.length ? `${left.length} of ${own.length}` : own.length;
  return [h("h3", {}, `Findings (${count})`), ...(left.length ? cards : [none])];
}

function kindSection(app, chunk, kind) {
  const plots = chunk.plots.filter((plot) => plot.kind === kind);
  return plots.length ? app.plots.section(KIND_TITLES[kind], plots) : null;
}

// Rows, findings, hosts

const rowsView = {
  title: () => "Rows",
  async show(app, place) {
    const table = rowsTable(app, "All rows");
    place.append(h("h2", {}, "Rows"), legend(app), table.element, rawNote());
    return { filter: (rows) => { table.rows = rows; } };
  },
};

const MOST_CARDS = 100;

const findingsView = {
  title: () => "Findings",
  async show(app, place) {
    const list = h("div", { class: "findings" });
    const status = h("span", { class: "muted", role: "status" });
    let words = [];
    const says = (finding) => words.every((word) => JSON.stringify(finding).toLowerCase().includes(word));
    const update = () => {
      const shown = findingsWhere(app, (finding) => app.filters.allowsFinding(finding) && says(finding));
      list.replaceChildren(...shown.slice(0, MOST_CARDS).map(({ finding, place }) => findingCard(app, finding, place)));
      const all = plural(shown.length, "finding");
      status.textContent = shown.length > MOST_CARDS ? `the gravest ${MOST_CARDS} of ${all}: filter or search` : all;
    };
    const input = settled((event) => {
      words = event.target.value.trim().toLowerCase().split(/\s+/);
      update();
    });
    const search = h("input", { type: "search", "aria-label": "Search findings", placeholder: "Search", input });
    place.append(h("h2", {}, "Findings"), h("div", { class: "bar" }, search, status), list);
    return { filter: update };
  },
};

const hosts = {
  title: () => "Hosts and versions",
  async show(app, place) {
    const content = $("hosts").content.cloneNode(true);
    const tables = [...content.querySelectorAll("table.plain")].map(sortable);
    const status = h("span", { class: "muted", role: "status" });
    const input = settled((event) => { status.textContent = searched(tables, event.target.value); });
    const search = h("input", { type: "search", "aria-label": "Search the tables", placeholder: "Search the tables", input });
    content.querySelector("h2").after(h("div", { class: "bar" }, search, status));
    place.append(content);
    return {};
  },
};

/** Hides lines of tables that lack one of the words, and says how many are left. */
function searched(tables, text) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const lines = tables.flatMap((table) => [...table.tBodies[0].rows]);
  for (const line of lines) line.hidden = !words.every((word) => line.textContent.toLowerCase().includes(word));
  const left = lines.filter((line) => !line.hidden).length;
  return words.length ? `${plural(left, "line")} of ${lines.length}` : "";
}

// One cell with all of its fields

const cell = {
  title: (app, name) => {
    const row = Number(name);
    const known = row < app.rows.all.length;
    return known ? `${app.rows.label(row)} on ${app.rows.value("target", row)}` : "No such cell";
  },
  async show(app, place, name) {
    const row = Number(name);
    const found = app.wholeCells.has(row) ? wholeCell(await app.chunkOf(app.wholeCells.get(row)), row) : null;
    if (!found) return nothing(place, "No such cell", "Its fields are not in this file: portkit show has them.");
    const page = app.rows.value("page", row);
    const back = h("a", { href: kernelAddress(page) }, `← ${page}`);
    const words = h("p", { class: "verdict" }, h("span", { class: "standing" }, ...statusWords(app, row)), ` ${app.rows.value("cause", row) ?? ""}`);
    place.append(h("h2", { class: "long" }, found.label), h("p", {}, back), words, ...found.sections.map(cellSection));
    return {};
  },
};

/** A cell out of its kernel's columns: its label, and sections with the fields that it has. */
function wholeCell(chunk, row) {
  const { rows, labels, sections } = chunk.cells;
  const cell = rows.indexOf(row);
  const value = ({ values, at }) => (at ? values[at[cell]] : values[0]);
  const fieldsOf = ({ paths, units, columns }) =>
    paths.map((path, i) => ({ path, unit: units[i], value: value(columns[i]) })).filter((each) => each.value !== undefined);
  const found = sections.map((section) => ({ title: section.title, fields: fieldsOf(section) }));
  return { label: labels[cell], sections: found.filter((section) => section.fields.length) };
}

function cellSection({ title, fields }) {
  const lines = fields.flatMap(({ path, unit, value }) => [h("dt", {}, path), h("dd", {}, ...fieldValue(value, unit))]);
  return h("section", {}, h("h3", {}, title), h("dl", { class: "raw" }, ...lines));
}

/** A value with its unit; of one that is unknown a dash and the reason. */
function fieldValue(value, unit) {
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    return [h("span", { class: "dash" }, "– "), h("span", { class: "muted" }, value.why)];
  }
  const text = Array.isArray(value) ? value.join(", ") : value === true ? "yes" : value === false ? "no" : String(value);
  return [[text || "none", unit].filter(Boolean).join(" ")];
}

const VIEWS = { "": overview, kernel, findings: findingsView, rows: rowsView, hosts, cell };
