// Starts the page: unpacks what every view needs, and shows the view that the address names.

/** A part of an address; as it is where somebody cut it within a character. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

class App {
  async start() {
    this.data = await unpack("main-chunk");
    this.rows = new Rows(this.data);
    this.chunks = new Map();
    this.wholeCells = new Map(this.data.whole_cells.flatMap(([page, rows]) => rows.map((row) => [row, page])));
    this.filters = new Filters(this.data, this.rows, () => this.filtered());
    this.plots = new Plots(this);
    this.filters.draw($("filters"));
    $("theme").addEventListener("click", () => this.turnTheme());
    addEventListener("hashchange", () => this.route(true));
    tellReasons();
    await this.route(false);
    document.documentElement.dataset.ready = Math.round(performance.now());
  }

  filtered() {
    this.view?.filter?.(this.filters.shown);
    return this.plots.redraw();
  }

  /** The chunk of a kernel, or of what is about all of them. */
  chunkOf(page) {
    const place = page === null ? this.data.kernels.length : this.data.kernels.findIndex((each) => each.page === page);
    if (!this.chunks.has(place)) this.chunks.set(place, unpack(`chunk-${place}`));
    return this.chunks.get(place);
  }

  async route(moved) {
    const [name = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
    const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : VIEWS[""];
    const given = decoded(rest.join("/"));
    const place = $("view");
    this.plots.forget();
    place.replaceChildren();
    delete place.dataset.view;
    $("summary").hidden = view !== VIEWS[""];
    $("filters").hidden = view === hosts || view === cell;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.getAttribute("href") === `#/${name}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${view.title(this, given)} · ${document.documentElement.dataset.title}`;
    this.view = await view.show(this, place, given);
    if (moved) { scrollTo(0, 0); place.focus({ preventScroll: true }); }
    await this.filtered();
    place.dataset.view = name || "overview";
  }

  turnTheme() {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    this.plots.redraw();
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const app = new App();
  app.start().catch((error) => {
    $("view").replaceChildren(h("p", { role: "alert" }, `The report can't be shown: ${error.message}`));
    throw error;
  });
});
