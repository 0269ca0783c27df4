// The summary of all figures: searched, filtered, sorted, and each figure's distribution on request.
const plumbFinder = (() => {
  "use strict";
  // Rows that are drawn before a reader asks for all.
  const FEW = 150;

  const make = (tag, look = {}, ...parts) => {
    const element = Object.assign(document.createElement(tag), look);
    element.append(...parts);
    return element;
  };

  // Samples as a density, rounds as dots below it, modes and the value as lines over the predicted band.
  function picture(of, label) {
    const [top, ground, dots, height] = [4, 76, 94, 108];
    // Places come in 200 steps.
    const wide = (at) => at * 5;
    const parts = [];
    const line = (name, [from, to], y1, y2) => parts.push(`<line class="${name}" x1="${wide(from)}" x2="${wide(to)}" y1="${y1}" y2="${y2}"/>`);
    const dot = (name) => (at) => parts.push(`<circle class="${name}" cx="${wide(at)}" cy="${dots}" r="6"/>`);
    if (of.predicted) {
      const [from, to] = of.predicted.map(wide);
      parts.push(`<rect class="band" x="${from}" y="0" width="${Math.max(2, to - from)}" height="${height}"/>`);
    }
    if (of.density) {
      const [from, to] = of.density.map(wide), step = (to - from) / of.heights.length;
      const edge = [...of.heights].flatMap((letter, i) => {
        const y = (ground - Number(letter) / 9 * (ground - top)).toFixed(1);
        return [`${(from + i * step).toFixed(1)},${y}`, `${(from + (i + 1) * step).toFixed(1)},${y}`];
      });
      parts.push(`<polygon class="density" points="${from},${ground} ${edge.join(" ")} ${to},${ground}"/>`);
    }
    line("ground", [0, 200], ground, ground);
    for (const [at] of of.modes ?? []) line("mode", [at, at], 0, ground);
    if (of.interval) line("interval", of.interval, dots, dots);
    of.rounds.forEach(dot("round"));
    of.disturbed.forEach(dot("round disturbed"));
    line("value", [of.value, of.value], 0, height);
    const box = make("div");
    box.innerHTML = `<svg class="spread" viewBox="0 0 1000 ${height}" role="img">${parts.join("")}</svg>`;
    box.firstChild.setAttribute("aria-label", `Distribution of ${label}. ${of.text}`);
    return box.firstChild;
  }

  function opened(of, label, columns) {
    const box = make("div", { className: "opened" }, picture(of, label),
      make("p", { className: "ends" }, make("span", {}, of.ends[0]), make("span", {}, of.ends[1])));
    if (of.modes) box.append(make("p", {}, `${of.modes.length} modes: ${of.modes.map(([, text]) => text).join("; ")}.`));
    const disturbed = of.disturbed.length ? ", hollow where counters say that it was disturbed" : "";
    box.append(make("p", {}, of.text), make("p", { className: "aside" },
      `Area: samples. Dots: rounds${disturbed}. Line: the value, bar: its interval. Shade: predicted.`));
    return make("tr", { className: "detail" }, make("td", { colSpan: columns }, box));
  }

  return (root, { caption, heads, columns, ranks, tones, spreads }) => {
    const labels = columns[0];
    const spread = (i) => Object.fromEntries(Object.entries(spreads).map(([name, all]) => [name, all[i]]));
    const last = heads.length - 1;
    const verdictOf = (i) => columns[last][i].replace(/^[\d.]+× /, "");
    const familyOf = (i) => labels[i].split(".")[0];
    const distinct = (of) => [...new Set(labels.map((_, i) => of(i)))];
    const select = (name, all, values) => {
      const box = make("select", {}, make("option", { value: "" }, all), ...values.map((value) => make("option", { value }, value)));
      box.setAttribute("aria-label", name);
      box.addEventListener("change", () => draw());
      return box;
    };
    const search = make("input", { type: "search", placeholder: "Search, e.g. latency random" });
    search.setAttribute("aria-label", "Search the figures");
    const family = select("Family", "every family", distinct(familyOf));
    const verdict = select("Verdict", "every verdict", distinct(verdictOf));
    const count = make("output", {});
    const more = make("button", { type: "button", className: "more" });
    const body = make("tbody");
    let [by, falling, isWhole] = [-1, false, false];
    const head = make("tr", {}, ...heads.map(([text], at) => {
      const button = make("button", { type: "button" }, text);
      button.addEventListener("click", () => {
        [by, falling] = [at, by === at && !falling];
        draw();
      });
      return make("th", { scope: "col" }, button);
    }));
    const classes = heads.map(([, isNumber], at) => isNumber ? `n${at + 1}` : "").filter(Boolean).join(" ");
    const table = make("table", { className: classes }, make("caption", { className: "unseen" }, caption), make("thead", {}, head), body);
    const box = make("div", { className: "scroll" }, table);
    root.replaceChildren(make("p", { className: "aside" }, `${caption}. Open a figure to see its distribution.`),
      make("div", { className: "controls" }, search, family, verdict, count), box, more);

    const cell = (at, i) => {
      // A long operation breaks after its commas; a number and its unit stay together.
      const of = columns[at][i];
      const text = at === 0 ? of.replaceAll(",", ",\u200b") : heads[at][1] ? of.replace(/(?<!,) (?=\S+$)/, "\u00a0") : of;
      if (at > 0) return make("td", { className: at === last ? tones[i] : "" }, text);
      if (!spreads.text?.[i]) return make("th", { scope: "row" }, text);
      const button = make("button", { type: "button", className: "figure" }, text);
      button.setAttribute("aria-expanded", "false");
      button.addEventListener("click", () => {
        const row = button.closest("tr"), isOpen = button.getAttribute("aria-expanded") === "true";
        button.setAttribute("aria-expanded", String(!isOpen));
        if (isOpen) row.nextSibling.remove();
        else row.after(opened(spread(i), labels[i], heads.length));
      });
      return make("th", { scope: "row" }, button);
    };

    function draw() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = labels.map((_, i) => i).filter((i) => (!family.value || familyOf(i) === family.value)
        && (!verdict.value || verdictOf(i) === verdict.value)
        && words.every((word) => labels[i].toLowerCase().includes(word)));
      if (by >= 0) {
        const isNumber = heads[by][1];
        const key = (i) => isNumber ? ranks[by][i] ?? NaN : columns[by][i];
        const keys = new Map(fits.map((i) => [i, key(i)]));
        const order = (a, b) => isNumber ? (Number.isNaN(a) - Number.isNaN(b)) || a - b : a.localeCompare(b);
        // What has no value stays at the end.
        fits.sort((a, b) => (falling && !Number.isNaN(keys.get(a)) && !Number.isNaN(keys.get(b)) ? -1 : 1)
          * order(keys.get(a), keys.get(b)));
      }
      [...head.cells].forEach((th, at) => {
        if (at === by) th.setAttribute("aria-sort", falling ? "descending" : "ascending");
        else th.removeAttribute("aria-sort");
      });
      const shown = isWhole ? fits : fits.slice(0, FEW);
      body.replaceChildren(...shown.map((i) => make("tr", {}, ...heads.map((_, at) => cell(at, i)))));
      count.value = `${fits.length} of ${labels.length} figures`;
      more.hidden = shown.length === fits.length;
      more.textContent = `Show all ${fits.length} figures`;
    }
    let typing;
    search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(draw, 60); });
    more.addEventListener("click", () => { isWhole = true; draw(); });
    draw();
    return { box, find: (text) => { search.value = text; family.value = verdict.value = ""; draw(); search.focus(); } };
  };
})();
