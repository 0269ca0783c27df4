// Draws each plot when it comes near what is seen, or all of them before printing, the summary of all
// figures, and what is folded when it is opened. Without DecompressionStream these places say that they
// stay empty. `window.plumb` tells what was done.
(async () => {
  "use strict";
  // How far below what is seen a plot is drawn already.
  const AHEAD = "700px";
  const root = document.documentElement;
  const figures = [...document.querySelectorAll("figure.plot")];
  const canvasOf = (figure) => figure.querySelector(".canvas");
  const state = window.plumb = { drawn: 0, total: figures.length, interactiveMs: null };

  const finder = document.getElementById("finder");
  const folds = [...document.querySelectorAll("details[data-fold]")];
  if (!("DecompressionStream" in window)) {
    [...figures.map(canvasOf), ...folds.map((fold) => fold.lastElementChild), ...(finder ? [finder] : [])].forEach((place) => {
      place.textContent = "This browser cannot inflate what stands here; the figures are in the tables.";
    });
    return;
  }

  // Two of 91 letters (`<` is left out) are 13 bits of gzip; a last one alone is 6 (packed.rs).
  const unpack = (text) => {
    const bytes = new Uint8Array(Math.floor(text.length * 6.5 / 8));
    const place = (at) => {
      const letter = text.charCodeAt(at);
      return letter - (letter > 60 ? 36 : 35);
    };
    let [waiting, bits, end] = [0, 0, 0];
    for (let at = 0; at < text.length; at += 2) {
      const isPair = at + 1 < text.length;
      waiting |= (place(at) + (isPair ? 91 * place(at + 1) : 0)) << bits;
      for (bits += isPair ? 13 : 6; bits >= 8; bits -= 8) {
        bytes[end++] = waiting;
        waiting >>>= 8;
      }
    }
    return bytes.subarray(0, end);
  };
  const inflate = async (id) => {
    const packed = document.getElementById(id)?.textContent;
    const stream = () => new Blob([unpack(packed)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return packed && new Response(stream()).text();
  };

  const [pictures, rows, folded] = await Promise.all(["pictures", "rows", "folded"].map(inflate));
  const data = JSON.parse(pictures ?? "[]");

  // What is folded is markup of the page's own, by the number of its element.
  const texts = JSON.parse(folded ?? "[]");
  const fill = (fold) => {
    fold.lastElementChild.innerHTML = texts[fold.dataset.fold];
    fold.querySelectorAll(".scroll").forEach((box) => watch.observe(box));
  };
  folds.forEach((fold) => fold.addEventListener("toggle", () => fill(fold), { once: true }));

  // The summary is drawn when it comes near; each experiment has a way to its figures there.
  let summary;
  const summarise = () => {
    if (!summary) {
      summary = plumbFinder(finder, JSON.parse(rows));
      watch.observe(summary.box);
    }
    return summary;
  };
  if (rows) {
    document.querySelectorAll("section[data-figures] > h2").forEach((heading) => {
      const id = heading.parentElement.id;
      const button = Object.assign(document.createElement("button"), { className: "find", textContent: "Distributions" });
      button.setAttribute("aria-label", `Distributions of ${id}`);
      button.addEventListener("click", () => {
        document.getElementById("figures").scrollIntoView();
        summarise().find(id);
      });
      heading.after(button);
    });
  }

  const isDrawn = (figure) => "drawn" in figure.dataset;

  // The picture alone, in the colours that hold now.
  const save = (figure) => {
    const probe = figure.appendChild(document.createElement("span"));
    const colour = (name) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    const picture = canvasOf(figure).querySelector("svg").cloneNode(true);
    const [, , width, height] = picture.getAttribute("viewBox").split(" ");
    Object.entries({ xmlns: "http://www.w3.org/2000/svg", width, height }).forEach(([name, value]) => picture.setAttribute(name, value));
    picture.querySelectorAll("[data-say]").forEach((said) => said.removeAttribute("data-say"));
    const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
    style.textContent = document.getElementById("plot-style").textContent.replace(/var\(--([a-z0-9-]+)\)/g, (_, name) => colour(name));
    picture.prepend(style);
    picture.style.background = colour("page");
    probe.remove();
    const name = figure.querySelector(".title").textContent.replace(/[^\p{L}\p{N}.]+/gu, "-");
    const href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" }));
    Object.assign(document.createElement("a"), { href, download: `${name}.svg` }).click();
    URL.revokeObjectURL(href);
  };

  const draw = (figure) => {
    if (isDrawn(figure)) return;
    plumbPicture(canvasOf(figure), data[figures.indexOf(figure)]);
    const button = Object.assign(document.createElement("button"), { className: "save", textContent: "Save picture" });
    button.setAttribute("aria-label", `Save picture: ${figure.querySelector(".title").textContent}`);
    button.addEventListener("click", () => save(figure));
    figure.querySelector("figcaption").append(button);
    figure.dataset.drawn = "";
    state.drawn += 1;
  };

  // A box that scrolls is reached by keyboard.
  const reach = (box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  };
  const watch = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watch.unobserve(target);
      if (target.matches(".scroll")) reach(target);
      else if (target === finder) summarise();
      else draw(target);
    }
    state.interactiveMs ??= performance.now();
  }, { rootMargin: AHEAD });
  if (!figures.length && !rows) state.interactiveMs = performance.now();
  figures.forEach((figure) => watch.observe(figure));
  if (rows) watch.observe(finder);
  document.querySelectorAll(".scroll").forEach((box) => watch.observe(box));

  // Sections are laid out when they come near, at other heights than were reserved; what has got the
  // keyboard stays in sight meanwhile.
  document.addEventListener("focusin", ({ target }) => {
    const until = performance.now() + 1000;
    const keep = () => {
      if (document.activeElement !== target || target.matches("main")) return;
      const box = target.getBoundingClientRect();
      if (box.bottom <= 0 || box.top >= innerHeight) target.scrollIntoView({ block: "nearest" });
      if (performance.now() < until) requestAnimationFrame(keep);
    };
    requestAnimationFrame(keep);
  });

  // The reader's choice of colours goes before the system's.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.scheme ?? (dark.matches ? "dark" : "light")) === "dark";
  const scheme = document.getElementById("scheme");
  // A menu that led somewhere is done.
  const menu = document.getElementById("contents");
  menu.addEventListener("click", ({ target }) => {
    if (target.closest("a") && menu.matches(":popover-open")) menu.hidePopover();
  });
  const offer = () => { scheme.textContent = isDark() ? "Light colours" : "Dark colours"; };
  scheme.hidden = false;
  offer();
  scheme.addEventListener("click", () => {
    root.dataset.scheme = isDark() ? "light" : "dark";
    offer();
  });
  dark.addEventListener("change", offer);

  // On paper everything is drawn, in light colours, and tables and notes lie open; the summary does
  // not, whose figures stand in the tables of their experiments.
  let closed = [];
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.scheme;
    root.dataset.scheme = "light";
    closed = [...document.querySelectorAll("section:not(#figures) > details.list:not([open])")];
    closed.forEach((details) => {
      details.open = true;
      if (details.dataset.fold) fill(details);
    });
    figures.forEach(draw);
  });
  addEventListener("afterprint", () => {
    if (before === undefined) delete root.dataset.scheme;
    else root.dataset.scheme = before;
    closed.forEach((details) => { details.open = false; });
  });
})();
