// From a picture's data to what the plotting library draws, in the colours of the reader's scheme.
const plumbPicture = (() => {
  "use strict";
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star"];
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const COLOURS = 8;
  // Points above which a line is no more than a line.
  const MANY = 400;
  // Columns up to which the cells of a matrix carry their values.
  const WITH_TEXT = 12;
  // Rows up to which each has room for its name.
  const FEW_ROWS = 40;

  // The library reads markup of its own in texts: nothing that a run says may be taken for it.
  const plain = (text) => String(text).replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);

  const rounded = (value, unit) => `${Number(value.toPrecision(6))} ${unit}`.trim();
  const time = (ns) => {
    const [factor, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([at]) => ns >= at) ?? [1, "ns"];
    return rounded(ns / factor, unit);
  };

  // Long names in lines of their own, broken after commas.
  const wrapped = (text, room) => {
    const lines = [""];
    for (const part of String(text).split(/(?<=, )/)) {
      if (lines.at(-1) && (lines.at(-1) + part).trim().length > room) lines.push("");
      lines[lines.length - 1] += part;
    }
    return lines.map((line) => plain(line.trim()));
  };

  const faint = (colour, alpha) => colour.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
  const has = (plot, shape) => plot.series.some((series) => series.shape === shape);
  const isPredicted = (series) => series.shape === "band" || series.shape === "ranges";

  // What a ratio's dot says is short in the data: there are thousands.
  const hover = (plot, series) => plot.ratio && series.shape === "dots"
    ? series.hover.map((text, i) => `${text}: ${Number(series.y[i].toPrecision(3))} × the best guess`) : series.hover ?? [];

  const interval = (series, look) => series.low && ({
    type: "data", symmetric: false, thickness: 1.2, width: 2, ...look,
    array: series.high.map((high, i) => high === null ? 0 : high - series.y[i]),
    arrayminus: series.low.map((low, i) => low === null ? 0 : series.y[i] - low),
  });

  // A stretch is a line in its lane, with a stroke at its start so that short ones show.
  function lane(series, at, own, colour) {
    const hover = series.x.map((x, i) => plain(`${series.name}: ${time(series.y[i] - x)} from ${time(x)}`));
    const thrice = (get) => series.x.flatMap((_, i) => [get(i), get(i), null]);
    return [
      { ...own, text: thrice((i) => hover[i]), mode: "lines", line: { color: colour, width: 16 },
        x: series.x.flatMap((x, i) => [x, series.y[i], null]), y: thrice(() => at) },
      { ...own, text: hover, mode: "markers", x: series.x, y: series.x.map(() => at),
        marker: { symbol: "line-ns-open", size: 16, color: colour, line: { width: 1, color: colour } } },
    ];
  }

  function traces(plot, theme) {
    const drawn = plot.series.filter((series) => !isPredicted(series));
    return plot.series.flatMap((series, lineAt) => {
      // What was predicted has the colour of what it was predicted for.
      const own = isPredicted(series)
        ? drawn.findIndex((other) => series.name === `predicted, ${other.name}`) : drawn.indexOf(series);
      const at = Math.max(own, 0);
      // What was predicted of all lines has no line's colour.
      const colour = own < 0 ? theme.muted : theme.series[at % COLOURS];
      const symbol = SYMBOLS[(at + Math.floor(at / COLOURS)) % SYMBOLS.length];
      const common = { name: plain(series.name), text: hover(plot, series).map(plain), hovertemplate: "%{text}<extra></extra>" };
      const points = { ...common, x: series.x, y: series.y };
      switch (series.shape) {
        case "band": {
          const edge = { x: series.x, mode: "lines", line: { width: 0, color: colour }, hoverinfo: "skip",
            legendgroup: common.name };
          return [
            { ...edge, y: series.low, showlegend: false },
            { ...edge, y: series.high, name: common.name, fill: "tonexty", fillcolor: faint(colour, 0.16) },
          ];
        }
        case "ranges": {
          // One broken line: a thousand bars of their own take a second to draw.
          const places = series.x.flatMap((x) => [x, x, null]);
          const ends = series.low.flatMap((low, i) => [low, series.high[i], null]);
          const [x, y, width] = has(plot, "bars") ? [ends, places, 7] : [places, ends, 5];
          // A single number that was estimated has no length.
          const mode = series.low.some((low, i) => low === series.high[i]) ? "lines+markers" : "lines";
          return [{ name: common.name, mode, hoverinfo: "skip", line: { width, color: theme.range }, x, y,
            marker: { symbol: has(plot, "bars") ? "line-ns-open" : "line-ew-open", size: 14, color: theme.range } }];
        }
        case "bars":
          if (plot.x.log) {
            return [{ ...common, mode: "markers", x: series.y, y: series.x,
              marker: { size: 9, color: colour, symbol }, error_x: interval(series, { color: colour }) }];
          }
          return [{ ...common, type: "bar", textposition: "none", orientation: "h", x: series.y, y: series.x,
            marker: { color: colour }, error_x: interval(series, { color: theme.text }) }];
        case "spans":
          return lane(series, lineAt, common, colour);
        case "dots":
          return [{ ...points, mode: "markers", marker: { size: 7, color: colour, symbol, opacity: 0.85 },
            error_y: interval(series, { color: colour }) }];
        default: {
          const many = series.x.length > MANY;
          return [{ ...points, mode: many ? "lines" : "lines+markers", marker: { size: 6, symbol },
            line: { color: colour, width: many ? 1 : 1.8, dash: DASHES[Math.floor(at / COLOURS) % DASHES.length] },
            error_y: many ? undefined : interval(series, { color: colour }) }];
        }
      }
    });
  }

  function axis(data, theme, room) {
    const step = Math.max(1, Math.ceil(data.at.length / room));
    const few = (list) => list.filter((_, i) => i % step === 0);
    const ticks = data.at.length ? { tickmode: "array", tickvals: few(data.at), ticktext: few(data.text).map(plain) }
      : { nticks: room };
    return { ...ticks, title: { text: plain(data.label), standoff: 12 }, type: data.log ? "log" : "linear",
      gridcolor: theme.grid, linecolor: theme.line, zeroline: false, color: theme.text,
      ticks: "outside", tickcolor: theme.line, automargin: true };
  }

  // Labels above the picture, each in the lowest row where it lies over no other.
  function labels(plot, width) {
    const scaled = (at) => plot.x.log ? Math.log10(at) : at;
    const all = plot.series.flatMap((series) => series.x).concat(plot.markers.map((marker) => marker.at))
      .map(scaled).filter(Number.isFinite);
    const low = all.reduce((a, b) => Math.min(a, b), Infinity);
    const high = all.reduce((a, b) => Math.max(a, b), -Infinity);
    const ends = [];
    return plot.markers.map((marker) => ({ ...marker, x: scaled(marker.at),
      text: `${marker.label} ${marker.measured ? "detected" : "stated"}` }))
      .sort((a, b) => a.x - b.x)
      .map((marker) => {
        const middle = (marker.x - low) / (high - low || 1) * width;
        const half = marker.text.length * 3.3 + 4;
        let row = ends.findIndex((end) => end < middle - half);
        if (row < 0) row = ends.length;
        ends[row] = middle + half;
        return { ...marker, row };
      });
  }

  const fonts = (theme, size) => ({ family: theme.family, size, color: theme.text });

  function frame(theme, height) {
    return {
      autosize: true, height, uirevision: "kept", hovermode: "closest",
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      font: fonts(theme, 13), paper_bgcolor: theme.page, plot_bgcolor: theme.page,
      hoverlabel: { bgcolor: theme.raised, bordercolor: theme.line, font: { color: theme.text }, align: "left" },
      modebar: { bgcolor: theme.page, color: theme.muted, activecolor: theme.accent },
    };
  }

  function layout(plot, theme, width) {
    const bars = plot.series.find((series) => series.shape === "bars"), spans = has(plot, "spans");
    const lanes = bars ? bars.x.length : plot.series.length;
    const narrow = width < 560;
    const inner = width - (narrow ? 70 : 110);
    const marks = labels(plot, inner);
    const top = 30 + 15 * Math.max(0, ...marks.map((mark) => mark.row + 1));
    // The legend has rows of its own below the axis.
    const entries = plot.series.map((series) => series.name.length * 7 + 52);
    const legend = bars || spans || plot.series.length < 2 ? 0
      : Math.ceil(entries.length / Math.max(1, Math.floor(width / Math.max(...entries)))) * 20 + 10;
    const names = (bars ? bars.x.map((at) => plot.bars[at]) : plot.series.map((series) => series.name))
      .map((name) => wrapped(name, narrow ? 20 : 60));
    const lane = (bars ? 26 : 34) + 17 * (Math.max(...names.map((lines) => lines.length)) - 1);
    const rows = bars || spans ? Math.max(90, lane * lanes) : Math.min(320, Math.max(250, width * 0.37));
    const bottom = 62 + legend;
    const shapes = marks.map((mark) => ({ type: "line", x0: mark.at, x1: mark.at, yref: "paper", y0: 0, y1: 1,
      line: { width: mark.measured ? 1.6 : 1.2, dash: mark.measured ? "solid" : "dot",
        color: mark.measured ? theme.marker : theme.muted } }));
    // The 1 of ratios is a line.
    if (has(plot, "ranges") && plot.ratio) {
      const along = bars ? { yref: "paper", y0: 0, y1: 1, x0: 1, x1: 1 } : { xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1 };
      shapes.push({ type: "line", ...along, layer: bars ? "above" : "below", line: { width: 1, color: theme.muted } });
    }
    const inLanes = { tickmode: "array", tickvals: bars ? bars.x : names.map((_, i) => i),
      ticktext: names.map((lines) => lines.join("<br>")), ...(bars ? { range: [lanes - 0.5, -0.5] } : { autorange: "reversed" }), showgrid: bars && plot.x.log };
    const shown = plot.shown ? { range: plot.shown } : {};
    return {
      ...frame(theme, top + rows + bottom), margin: { l: narrow ? 48 : 70, r: narrow ? 12 : 24, t: top, b: bottom },
      xaxis: { ...axis(plot.x, theme, Math.max(3, Math.floor(inner / 70))), ...(bars ? shown : {}) },
      yaxis: { ...axis(plot.y, theme, 12), ...(bars ? {} : shown), ...(bars || spans ? inLanes : {}) },
      showlegend: legend > 0, shapes,
      legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, itemsizing: "constant" },
      annotations: marks.map((mark) => ({ x: mark.x, xanchor: "center", yref: "paper", y: 1, yshift: 10 + 15 * mark.row,
        yanchor: "middle", showarrow: false, text: plain(mark.text),
        font: { size: 11, color: mark.measured ? theme.marker : theme.muted } })),
    };
  }

  // Black or white, whichever stands out more from a colour between those of a scale.
  function on(scale, share) {
    const parts = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number);
    const at = Math.min(Math.floor(share * 2), 1);
    const [from, to] = [parts(scale[at]), parts(scale[at + 1])];
    const mixed = from.map((part, i) => (part + (to[i] - part) * (share * 2 - at)) / 255);
    const linear = mixed.map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    return luminance > 0.179 ? "#000" : "#fff";
  }

  // A matrix: its cells in the colours of their values, of their logarithms where they lie far apart.
  function grid(data, theme, width) {
    const text = (value) => value === null ? "" : rounded(value, data.unit);
    const shade = (value) => value === null ? null : data.log ? Math.log10(value) : value;
    const [rows, columns] = [data.rows.names, data.columns.names];
    const cell = Math.max(2, Math.min(44, (width - 190) / columns.length));
    // Few rows have names of their own, however narrow their cells are.
    const high = Math.max(cell, rows.length <= FEW_ROWS ? 18 : 0);
    const gap = cell < 8 ? 0 : 1;
    const ticks = (axis, room) => {
      const step = [1, 2, 5, 10, 20, 50, 100].find((step) => axis.names.length / step <= room) ?? 200;
      const at = axis.names.map((_, i) => i).filter((i) => i % step === 0);
      return { tickmode: "array", tickvals: at, ticktext: at.map((i) => plain(axis.names[i])), automargin: true,
        title: { text: plain(axis.label), standoff: 10 }, showgrid: false, zeroline: false, color: theme.text,
        linecolor: theme.line };
    };
    const shades = data.cells.flat().filter((value) => value !== null).map(shade);
    // Ratios have colours on both sides of 1, as far as the scale reaches.
    const scale = data.reach ? theme.ratio : theme.heat;
    const low = data.reach ? -Math.log10(data.reach) : shades.reduce((a, b) => Math.min(a, b), Infinity);
    const span = data.reach ? -2 * low : shades.reduce((a, b) => Math.max(a, b), -Infinity) - low || 1;
    const share = (value) => Math.max(0, Math.min(1, (shade(value) - low) / span));
    const texts = columns.length > WITH_TEXT ? [] : data.cells.flatMap((row, i) => row.flatMap((value, j) =>
      value === null ? [] : [{ x: j, y: i, text: String(value), showarrow: false,
        font: { size: 12, color: on(scale, share(value)) } }]));
    const unit = data.unit ? ` (${data.unit})` : "";
    const height = Math.max(data.reach ? 260 : 180, Math.min(720, high * rows.length) + 130);
    return {
      traces: [{
        type: "heatmap", z: data.cells.map((row) => row.map(shade)), xgap: gap, ygap: gap, hoverongaps: false,
        hovertext: data.cells.map((row, i) => row.map((value, j) =>
          plain(`${data.rows.label} ${rows[i]}, ${data.columns.label} ${columns[j]}: ${text(value)}`))),
        hovertemplate: "%{hovertext}<extra></extra>", colorscale: scale.map((colour, i) => [i / 2, colour]),
        zmin: low, zmax: low + span,
        colorbar: { title: { text: plain(`${data.label}${unit}`), side: "right" }, thickness: 12, outlinewidth: 0,
          tickfont: { size: 11 }, ...(data.log ? { tickmode: "array", tickvals: data.ticks.map(Math.log10),
            ticktext: data.ticks.map(String) } : { nticks: 5 }) },
      }],
      layout: {
        ...frame(theme, height), margin: { l: 70, r: 20, t: 40, b: 60 },
        xaxis: { ...ticks(data.columns, width / 45), side: "bottom" },
        yaxis: { ...ticks(data.rows, height / 24), autorange: "reversed" },
        annotations: texts,
      },
    };
  }

  return (data, theme, width) => data.cells ? grid(data, theme, width)
    : { traces: traces(data, theme), layout: layout(data, theme, width) };
})();
