// Plots: a kind's specification and a plot's values, drawn by Vega with the page's width and colours.

const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

/** The specification for a height and a width; plots of several panels get as many a line as fit. */
function fitted(spec, height, width) {
  if (spec.facet) {
    const columns = Math.max(1, Math.min(6, Math.floor((width - 30) / 190)));
    return { ...spec, columns, spec: { ...spec.spec, height } };
  }
  return { ...spec, width, height, autosize: { type: "fit-x", contains: "padding" } };
}

class Plots {
  constructor(app) {
    this.app = app;
    this.drawn = new Set();
    addEventListener("resize", settled(() => this.redraw(), 200));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  forget() {
    for (const drawing of this.drawn) drawing.view?.finalize();
    this.drawn.clear();
  }

  async redraw() {
    for (const drawing of this.drawn) await this.draw(drawing);
  }

  /** A section of all plots of one kind, with a choice where there are several. */
  section(title, plots) {
    const drawing = { title, plot: plots[0], place: h("div", { class: "plot", role: "img" }) };
    drawing.caption = h("figcaption", {});
    drawing.values = h("details", { class: "values" }, h("summary", {}, "Values"));
    drawing.values.addEventListener("toggle", () => { if (drawing.values.open) this.tabulate(drawing); });
    this.drawn.add(drawing);
    const save = h("button", { type: "button", class: "quiet", click: () => this.save(drawing) }, "Save SVG");
    const element = h("section", { class: "kind", "data-kind": drawing.plot.kind }, h("h3", {}, title), this.choice(drawing, plots),
      h("figure", {}, drawing.caption, drawing.place, h("div", { class: "bar" }, drawing.values, save)));
    return element;
  }

  choice(drawing, plots) {
    if (plots.length < 2) return null;
    const name = (plot) => [plot.operation, plot.detail].filter(Boolean).join(", ");
    const change = (event) => { drawing.plot = plots[event.target.value]; this.draw(drawing); };
    return h("label", { class: "choice" }, "Show ",
      h("select", { change }, ...plots.map((plot, i) => h("option", { value: i }, name(plot) || plot.title))));
  }

  async draw(drawing) {
    const { plot, place } = drawing;
    const style = this.app.data.styles[dark() ? "dark" : "light"];
    const width = place.clientWidth || 320;
    const legend = { ...style.legend, columns: Math.max(1, Math.floor(width / 150)) };
    const spec = {
      ...fitted(this.app.data.kinds[plot.kind], plot.height, width),
      datasets: plot.datasets,
      config: { ...style, legend },
    };
    const head = [drawing.title === plot.title ? null : plot.title, plot.operation].filter(Boolean).join(", ");
    drawing.caption.textContent = [head, plot.alt].filter(Boolean).join(". ");
    if (drawing.values.open) this.tabulate(drawing);
    drawing.view?.finalize();
    const { view } = await vegaEmbed(place, spec, { renderer: "svg", actions: false, ast: true });
    drawing.view = view;
    place.setAttribute("role", "img"); // Vega gives it another, and takes a label away
    place.setAttribute("aria-label", plot.alt);
    place.querySelector("svg")?.setAttribute("aria-hidden", "true");
    place.dataset.drawn = plot.kind;
  }

  /** The values as tables, one a dataset. */
  tabulate(drawing) {
    const tables = Object.entries(drawing.plot.datasets).map(([name, values]) => valuesTable(name, values));
    drawing.values.replaceChildren(drawing.values.firstElementChild, ...tables);
  }

  async save(drawing) {
    const url = URL.createObjectURL(new Blob([await drawing.view.toSVG()], { type: "image/svg+xml" }));
    h("a", { href: url, download: `${drawing.plot.kind}.svg` }).click();
    URL.revokeObjectURL(url);
  }
}

const MOST_VALUES = 500;

function valuesTable(name, values) {
  const fields = [...new Set(values.flatMap((value) => Object.keys(value)))];
  const shown = (value) => (typeof value === "number" ? figure(value) : String(value ?? "–"));
  const line = (value) => h("tr", {}, ...fields.map((field) => h("td", {}, shown(value[field]))));
  return scrollable(`Values: ${name}`, h("table", { class: "plain" },
    h("caption", {}, name),
    h("thead", {}, h("tr", {}, ...fields.map((field) => h("th", { scope: "col" }, field)))),
    h("tbody", {}, ...values.slice(0, MOST_VALUES).map(line))));
}
