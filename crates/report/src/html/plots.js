// What a picture says where it is pointed at, and how its axes are stretched. Every mark has its place in
// its path and its text in `data-say`; an area has the values of its axes in `data-x` and `data-y`.
const plumbPicture = (() => {
  "use strict";
  // How far from a mark the pointer may be, in CSS pixels.
  const NEAR = 24;
  // The least side of a chosen part, in CSS pixels.
  const LEAST = 8;

  // The marks of a picture: each a stretch at a height (of a point as long as nothing), with its text.
  const spots = (svg) => [...svg.querySelectorAll("[data-say]")].flatMap((said) => {
    const path = said.matches("path") ? said : said.querySelector("path");
    const texts = said.dataset.say.split("\n");
    const places = path.getAttribute("d").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)(?:H(-?[\d.]+))?/g);
    return [...places].map(([, x, y, end], i) => ({ path, x: +x, y: +y, end: +(end ?? x), text: texts[i] }));
  });

  // The nearest mark, in CSS pixels of the window.
  function nearest(all, { clientX, clientY }) {
    const matrices = new Map();
    let [best, least] = [null, NEAR];
    for (const spot of all) {
      if (!matrices.has(spot.path)) matrices.set(spot.path, spot.path.getScreenCTM());
      const m = matrices.get(spot.path);
      const [low, high] = [spot.x, spot.end].map((x) => m.a * x + m.e).sort((a, b) => a - b);
      const x = Math.min(Math.max(clientX, low), high), y = m.d * spot.y + m.f;
      const distance = Math.hypot(x - clientX, y - clientY);
      if (distance < least) [best, least] = [{ spot, x, y }, distance];
    }
    return best;
  }

  // A value at a share of an axis' length.
  const valueAt = ({ low, high, log }, share) => log ? low * (high / low) ** share : low + (high - low) * share;
  const shareOf = ({ low, high, log }, value) => log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);

  // About six round values between two, with their unit.
  function ticks(axis, from, to) {
    const [low, high] = [valueAt(axis, from), valueAt(axis, to)].sort((a, b) => a - b);
    const [factor, unit] = axis.steps.find(([factor]) => Math.abs(high) >= factor) ?? axis.steps.at(-1);
    const raw = (high - low) / factor / 6;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= raw);
    const at = [];
    for (let n = Math.ceil(low / factor / step); n * step * factor <= high; n += 1) at.push(n * step);
    return at.map((value) => [(shareOf(axis, value * factor) - from) / (to - from), `${+value.toPrecision(8)} ${unit}`.trim()]);
  }

  // Shows a part of an area, given by the shares of its sides; all of it without one.
  function show(area, part) {
    const [width, height] = ["width", "height"].map((side) => +area.getAttribute(side));
    const [x0, x1, y0, y1] = part ?? [0, 1, 0, 1];
    const [kx, ky] = [1 / (x1 - x0), 1 / (y1 - y0)];
    area.querySelector(".marks").setAttribute("transform", `matrix(${kx} 0 0 ${ky} ${-x0 * kx * width} ${-y0 * ky * height})`);
    const draw = (group, axis, [from, to], markup) => {
      group.whole ??= group.innerHTML;
      group.innerHTML = part && axis.steps ? ticks(axis, from, to).map(markup).join("") : group.whole;
    };
    const group = (name) => area.parentElement.querySelector(`:scope > .ticks.${name}`);
    draw(group("x"), JSON.parse(area.dataset.x), [x0, x1], ([share, text]) =>
      `<path d="M${share * width} 0V${height}"/><text x="${share * width}" y="${height + 14}">${text}</text>`);
    draw(group("y"), JSON.parse(area.dataset.y), [1 - y1, 1 - y0], ([share, text]) =>
      `<path d="M0 ${(1 - share) * height}H${width}"/><text x="-6" y="${(1 - share) * height + 4}">${text}</text>`);
    area.chosen = part;
  }

  // Draws a picture in its element, which lies in a box that keeps what is said of it.
  return (canvas, markup) => {
    canvas.innerHTML = markup;
    const svg = canvas.firstElementChild;
    const said = canvas.appendChild(Object.assign(document.createElement("div"), { className: "said", hidden: true }));
    const frame = canvas.appendChild(Object.assign(document.createElement("div"), { className: "part", hidden: true }));
    let all, start;
    // In CSS pixels of the window; its marks may lie outside, and its own box is around them.
    const boxOf = (area) => {
      const m = area.parentElement.getScreenCTM();
      return { left: m.e, top: m.f, width: m.a * area.getAttribute("width"), height: m.d * area.getAttribute("height") };
    };
    const areaAt = ({ clientX, clientY }) => [...svg.querySelectorAll(".area[data-x]")].find((area) => {
      const { left, top, width, height } = boxOf(area);
      return clientX >= left && clientX <= left + width && clientY >= top && clientY <= top + height;
    });
    const place = (element, { x, y, width, height }) => {
      const box = canvas.getBoundingClientRect();
      Object.assign(element.style, { left: `${x - box.left}px`, top: `${y - box.top}px`,
        ...(width === undefined ? {} : { width: `${width}px`, height: `${height}px` }) });
      element.hidden = false;
    };
    canvas.addEventListener("pointermove", (event) => {
      if (start) {
        const [x, y] = [Math.min(event.clientX, start.clientX), Math.min(event.clientY, start.clientY)];
        place(frame, { x, y, width: Math.abs(event.clientX - start.clientX), height: Math.abs(event.clientY - start.clientY) });
        return;
      }
      const found = nearest(all ??= spots(svg), event);
      said.hidden = !found;
      if (!found) return;
      said.textContent = found.spot.text;
      const right = found.x > canvas.getBoundingClientRect().left + canvas.clientWidth / 2;
      said.classList.toggle("left", right);
      place(said, found);
    });
    canvas.addEventListener("pointerleave", () => { said.hidden = true; });
    canvas.addEventListener("pointerdown", (event) => {
      const area = event.pointerType === "mouse" && event.button === 0 && areaAt(event);
      if (!area) return;
      event.preventDefault();
      said.hidden = true;
      start = { area, clientX: event.clientX, clientY: event.clientY };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", (event) => {
      const from = start;
      [start, frame.hidden] = [null, true];
      if (!from) return;
      const box = boxOf(from.area);
      // Along an axis of names, or by less than a step, nothing is chosen.
      const shares = (side, a, b, low, length) => {
        const [first, last] = [a, b].map((at) => Math.min(Math.max((at - low) / length, 0), 1)).sort((a, b) => a - b);
        return JSON.parse(from.area.dataset[side]).steps && (last - first) * length >= LEAST ? [first, last] : null;
      };
      const across = shares("x", from.clientX, event.clientX, box.left, box.width);
      const down = shares("y", from.clientY, event.clientY, box.top, box.height);
      if (!across && !down) return;
      const [x0, x1, y0, y1] = from.area.chosen ?? [0, 1, 0, 1];
      const within = (low, high, share) => low + (high - low) * share;
      show(from.area, [...(across ?? [0, 1]).map((share) => within(x0, x1, share)),
        ...(down ?? [0, 1]).map((share) => within(y0, y1, share))]);
    });
    canvas.addEventListener("dblclick", (event) => {
      const area = areaAt(event);
      if (area) show(area, null);
    });
  };
})();
