// Inflates the plotting library that the page carries and draws every plot in the colours of the
// reader's scheme. Without DecompressionStream the plots stay empty and say so.
(async () => {
  "use strict";
  const canvases = [...document.querySelectorAll("figure.plot")];
  const say = (text) => canvases.forEach((figure) => {
    figure.querySelector(".canvas").textContent = text;
  });
  if (!("DecompressionStream" in window)) {
    say("This browser cannot inflate the plotting library; the figures are in the tables.");
    return;
  }
  const packed = Uint8Array.from(
    atob(document.getElementById("plotly").textContent.trim()), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const library = document.createElement("script");
  library.textContent = await new Response(inflated).text();
  document.head.appendChild(library);

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const palette = () => [1, 2, 3, 4, 5, 6, 7, 8].map((n) => style(`--series-${n}`));
  const rgba = (hex, alpha) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${r},${g},${b},${alpha})`;
  };

  const time = (ns) => {
    const [factor, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find(([at]) => ns >= at) ?? [1, "ns"];
    return `${Number((ns / factor).toPrecision(6))} ${unit}`;
  };

  const interval = (series, axis) => ({
    type: "data", symmetric: false, thickness: 1.2, width: 2,
    array: series.high.map((high, i) => high === null ? 0 : high - series[axis][i]),
    arrayminus: series.low.map((low, i) => low === null ? 0 : series[axis][i] - low),
  });

  function traces(plot) {
    const colours = palette();
    const drawn = plot.series.filter((s) => s.shape !== "band" && s.shape !== "ranges");
    const colourOf = (series) => {
      const own = drawn.indexOf(series);
      const at = own >= 0 ? own : drawn.findIndex((s) => series.name.endsWith(s.name));
      return colours[Math.max(at, 0) % colours.length];
    };
    return plot.series.flatMap((series) => {
      const colour = colourOf(series);
      const common = { name: series.name, text: series.hover, hovertemplate: "%{text}<extra></extra>" };
      switch (series.shape) {
        case "band": {
          const edge = { x: series.x, mode: "lines", line: { width: 0, color: colour }, hoverinfo: "skip",
            legendgroup: series.name };
          return [
            { ...edge, y: series.low, showlegend: false },
            { ...edge, y: series.high, name: series.name, fill: "tonexty", fillcolor: rgba(colour, 0.14) },
          ];
        }
        case "ranges":
          return [{ x: series.x, y: series.y, name: series.name, mode: "markers", hoverinfo: "skip",
            marker: { size: 0.1, color: style("--range") },
            error_y: { ...interval(series, "y"), thickness: 5, width: 0, color: style("--range") } }];
        case "bars":
          return [{ ...common, type: "bar", textposition: "none", orientation: "h", x: series.y, y: series.hover.map((text) => text.split(": ")[0]),
            marker: { color: colour }, error_x: { ...interval(series, "y"), color: style("--text") } }];
        case "spans": {
          // A stretch is a line of its lane, with a stroke at its start so that short ones show.
          const each = (start, end) => series.x.flatMap((_, i) => [start(i), end(i), null]);
          const hover = series.x.map((x, i) => `${series.name}: ${time(series.y[i] - x)} from ${time(x)}`);
          const own = { ...common, text: hover, mode: "lines", legendgroup: series.name };
          return [
            { ...own, x: each((i) => series.x[i], (i) => series.y[i]), y: each(() => series.name, () => series.name),
              text: each((i) => hover[i], (i) => hover[i]), line: { color: colour, width: 16 } },
            { ...own, x: series.x, y: series.x.map(() => series.name), mode: "markers", showlegend: false,
              marker: { symbol: "line-ns-open", size: 16, color: colour, line: { width: 1, color: colour } } },
          ];
        }
        case "dots":
          return [{ ...common, x: series.x, y: series.y, mode: "markers", marker: { size: 7, color: colour } }];
        default: {
          const many = series.x.length > 400;
          return [{ ...common, x: series.x, y: series.y, mode: many ? "lines" : "lines+markers",
            line: { color: colour, width: many ? 1 : 2 }, marker: { size: 5, color: colour },
            error_y: series.high.some((high) => high !== null)
              ? { ...interval(series, "y"), color: colour } : undefined }];
        }
      }
    });
  }

  function axis(data) {
    const ticks = data.at.length ? { tickmode: "array", tickvals: data.at, ticktext: data.text } : {};
    return { ...ticks, title: { text: data.label, standoff: 12 }, type: data.log ? "log" : "-",
      gridcolor: style("--grid"), linecolor: style("--line"), zeroline: false,
      ticks: "outside", tickcolor: style("--line"), automargin: true };
  }

  function layout(plot) {
    const place = (at) => plot.x.log ? Math.log10(at) : at;
    const bars = plot.series.some((series) => series.shape === "bars");
    const spans = plot.series.some((series) => series.shape === "spans");
    const ratio = plot.series.some((series) => series.shape === "ranges");
    const shapes = plot.markers.map((marker) => ({ type: "line", x0: marker.at, x1: marker.at, yref: "paper",
      y0: 0, y1: 1, line: { width: marker.measured ? 1.6 : 1.2, dash: marker.measured ? "solid" : "dot",
        color: style(marker.measured ? "--marker" : "--muted") } }));
    if (ratio) {
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, layer: "below",
        line: { width: 1, color: style("--muted") } });
    }
    // A long legend needs room of its own, or it is laid over the axis.
    const many = plot.series.length > 9;
    return {
      autosize: true, height: bars ? Math.max(220, 60 + 26 * plot.series[0].x.length) : spans ? 150 + 34 * plot.series.length : many ? 600 : 440,
      margin: { l: 70, r: 24, t: plot.markers.length ? 82 : 34, b: 56 },
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: style("--text") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      xaxis: axis(plot.x), yaxis: { ...axis(plot.y), ...(plot.shown ? { range: plot.shown } : {}), ...(bars || spans ? { type: "category", autorange: "reversed" } : {}) },
      hovermode: "closest", showlegend: !bars && !spans,
      hoverlabel: { bgcolor: style("--raised"), bordercolor: style("--line"), font: { color: style("--text") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--muted"), activecolor: style("--accent") },
      legend: { orientation: "h", y: many ? -0.28 : -0.2, yanchor: "top", itemsizing: "constant" }, shapes,
      annotations: plot.markers.map((marker) => ({ x: place(marker.at), xanchor: "center", yref: "paper",
        y: 1, yshift: marker.measured ? 30 : 13, yanchor: "middle", showarrow: false, font: { size: 11,
          color: style(marker.measured ? "--marker" : "--muted") },
        text: marker.measured ? `${marker.label} detected` : `${marker.label} stated` })),
    };
  }

  const draw = () => canvases.forEach((figure) => {
    const plot = JSON.parse(figure.querySelector("script.data").textContent);
    const canvas = figure.querySelector(".canvas");
    canvas.querySelector("noscript")?.remove();
    Plotly.react(canvas, traces(plot), layout(plot), { displaylogo: false, responsive: true,
      plotlyServerURL: "", modeBarButtonsToRemove: ["sendChartToCloud", "lasso2d", "select2d"] });
  });
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
