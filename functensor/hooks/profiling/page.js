"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const words = data.words;
  const bars = data.bars.map(([row, level, begin, end, name, event]) =>
    ({ row, level, begin, end, name: words[name], event }));
  const operations = bars.map((bar, i) => i).filter((i) => bars[i].event >= 0)
    .sort((a, b) => bars[a].begin - bars[b].begin);
  const total = Math.max(data.total, 1);
  const timeline = document.getElementById("timeline");
  const memory = document.getElementById("memory");
  const details = document.getElementById("details");
  const alive = document.getElementById("alive");
  const LANE = 20, TOP = 24, GAP = 22, NARROWEST = 1, CHARACTER = 9;
  let view = [0, total];
  let chosen = -1;

  // Words

  function time(nanoseconds) {
    if (nanoseconds === 0) return "0";
    if (nanoseconds >= 1e9) return (nanoseconds / 1e9).toPrecision(4) + " s";
    if (nanoseconds >= 1e6) return (nanoseconds / 1e6).toPrecision(4) + " ms";
    return (nanoseconds / 1e3).toFixed(1) + " µs";
  }

  function size(bytes) {
    let unit = 0;
    while (bytes >= 1024 && unit < 4) { bytes /= 1024; unit += 1; }
    return (unit ? bytes.toFixed(1) : bytes) + " " + ["bytes", "KiB", "MiB", "GiB", "TiB"][unit];
  }

  function hue(name) {
    let sum = 7;
    for (const c of name) sum = (sum * 31 + c.codePointAt(0)) % 360;
    return sum;
  }

  function line(parent, text) {
    const row = document.createElement("div");
    row.textContent = text;
    parent.append(row);
    return row;
  }

  function describe(bar) {
    details.replaceChildren();
    const title = document.createElement("strong");
    line(details, "").append(title);
    const way = bar.row ? "backward" : "forward";
    if (bar.event < 0) {
      title.textContent = "scope " + bar.name;
      line(details, `${way}, ${time(bar.end - bar.begin)}, begins at ${time(bar.begin)}`);
      return;
    }
    const [scope, place, phase, shapes, bytes, batch] = data.events[bar.event];
    title.textContent = bar.name + " " + words[shapes];
    const many = batch === null ? "" : `, for ${batch} examples`;
    line(details, `${words[phase]}${many}, ${time(bar.end - bar.begin)}, ` +
      `begins at ${time(bar.begin)}, makes ${size(bytes)}`);
    line(details, words[place] + (words[scope] ? ", scope " + words[scope] : ""));
  }

  // Pictures

  function element(parent, kind, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  const width = () => Math.max(timeline.clientWidth, 100);
  const at = (moment) => (moment - view[0]) / (view[1] - view[0]) * width();

  // Bars of each row and level, in order; where each row of lanes begins.
  const lanes = new Map();
  const depth = [1, 1];
  bars.forEach((bar, i) => {
    const key = bar.row + " " + bar.level;
    if (!lanes.has(key)) lanes.set(key, []);
    lanes.get(key).push(i);
    depth[bar.row] = Math.max(depth[bar.row], bar.level + 1);
  });
  const both = bars.some((bar) => bar.row);
  const rowTop = [TOP + GAP, TOP + GAP + depth[0] * LANE + GAP];
  const height = both ? rowTop[1] + depth[1] * LANE + 6 : rowTop[0] + depth[0] * LANE + 6;
  timeline.setAttribute("height", height);

  function ticks(svg, bottom) {
    const span = view[1] - view[0];
    let step = 10 ** Math.floor(Math.log10(span / 4));
    for (const factor of [1, 2, 5, 10]) if (span / (step * factor) <= 8) { step *= factor; break; }
    for (let t = Math.ceil(view[0] / step) * step; t <= view[1]; t += step) {
      element(svg, "line", { class: "tick", x1: at(t), x2: at(t), y1: 0, y2: bottom });
      element(svg, "text", { class: "faint", x: at(t) + 3, y: 14 }, time(t));
    }
  }

  // One bar for all that are given, by the name of the first.
  function drawBar(drawn) {
    const bar = bars[drawn[0]];
    const x = Math.max(at(bar.begin), -1);
    const end = Math.min(at(bars[drawn.at(-1)].end), width() + 1);
    const wide = Math.max(end - x, NARROWEST);
    const y = rowTop[bar.row] + bar.level * LANE;
    const kind = bar.event < 0 ? "bar scope" : "bar";
    const rect = element(timeline, "rect", {
      class: kind + (drawn.includes(chosen) ? " chosen" : ""), x, y, width: wide, height: LANE - 2,
      rx: Math.min(3, wide / 3), "data-bar": drawn[0], "data-count": drawn.length,
    });
    if (bar.event >= 0) rect.style.setProperty("--hue", hue(bar.name));
    const room = Math.floor((wide - 6) / CHARACTER);
    if (room >= 2) {
      const text = bar.name.length <= room ? bar.name : bar.name.slice(0, room - 1) + "…";
      element(timeline, "text", { x: x + 3, y: y + 13 }, text);
    }
  }

  function drawLane(lane) {
    let place = 0;
    while (place < lane.length) {
      const bar = bars[lane[place]];
      if (bar.end < view[0] || bar.begin > view[1]) { place += 1; continue; }
      // Bars that are narrower than a pixel are one where they touch.
      let last = place;
      while (last + 1 < lane.length && at(bars[lane[last + 1]].end) - at(bar.begin) < NARROWEST) {
        last += 1;
      }
      drawBar(lane.slice(place, last + 1));
      place = last + 1;
    }
  }

  function drawTimeline() {
    timeline.replaceChildren();
    ticks(timeline, height);
    ["forward", "backward"].slice(0, both ? 2 : 1).forEach((name, row) => {
      element(timeline, "text", { class: "faint", x: 6, y: rowTop[row] - 6 }, name);
    });
    for (const lane of lanes.values()) drawLane(lane);
    timeline.dataset.begin = view[0];
    timeline.dataset.end = view[1];
  }

  const MEMORY_HEIGHT = 160;
  memory.setAttribute("height", MEMORY_HEIGHT);
  const high = Math.max(data.peak[1], 1);
  const level = (bytes) => MEMORY_HEIGHT - 4 - bytes / high * (MEMORY_HEIGHT - 50);

  function lastChange(moment) {
    let low = 0, up = data.memory.length;
    while (low < up) {
      const middle = (low + up) >> 1;
      if (data.memory[middle][0] <= moment) low = middle + 1; else up = middle;
    }
    return low - 1;
  }

  function drawMemory() {
    memory.replaceChildren();
    ticks(memory, MEMORY_HEIGHT);
    const first = Math.max(lastChange(view[0]), 0);
    let bytes = data.memory[first][1];
    const points = [[0, MEMORY_HEIGHT], [0, level(bytes)]];
    // Of the changes within a pixel the highest is drawn.
    for (let i = first + 1; i < data.memory.length && data.memory[i][0] <= view[1];) {
      const x = at(data.memory[i][0]);
      points.push([x, level(bytes)]);
      let most = 0;
      do { bytes = data.memory[i][1]; most = Math.max(most, bytes); i += 1; }
      while (i < data.memory.length && at(data.memory[i][0]) < x + NARROWEST);
      points.push([x, level(most)], [x, level(bytes)]);
    }
    points.push([width(), level(bytes)], [width(), MEMORY_HEIGHT]);
    element(memory, "path", { class: "area", d: "M" + points.join("L") });
    const x = at(data.peak[0]);
    if (x >= 0 && x <= width()) {
      const left = x > width() / 2;
      element(memory, "circle", { class: "peak", cx: x, cy: level(high), r: 4 });
      element(memory, "text", {
        class: "peak", x: left ? x - 8 : x + 8, y: level(high) - 8,
        "text-anchor": left ? "end" : "start",
      }, `peak ${size(data.peak[1])}`);
    }
  }

  function draw() { drawTimeline(); drawMemory(); }

  // Moving about

  function show(begin, end) {
    const shortest = Math.min(total, 100);
    const span = Math.min(Math.max(end - begin, shortest), total);
    const from = Math.min(Math.max(begin, 0), total - span);
    view = [from, from + span];
    draw();
  }

  function zoom(factor, around = (view[0] + view[1]) / 2) {
    show(around - (around - view[0]) * factor, around + (view[1] - around) * factor);
  }

  function pan(part) {
    const by = (view[1] - view[0]) * part;
    show(view[0] + by, view[1] + by);
  }

  function choose(i) {
    chosen = i;
    const bar = bars[i];
    describe(bar);
    if (bar.end < view[0] || bar.begin > view[1]) {
      const half = (view[1] - view[0]) / 2;
      show((bar.begin + bar.end) / 2 - half, (bar.begin + bar.end) / 2 + half);
    } else draw();
  }

  function step(by) {
    if (!operations.length) return;
    const place = operations.indexOf(chosen);
    const next = place < 0 ? (by > 0 ? 0 : operations.length - 1) : place + by;
    choose(operations[Math.min(Math.max(next, 0), operations.length - 1)]);
  }

  const all = () => show(0, total);
  const toChosen = () => {
    if (chosen < 0) return;
    const { begin, end } = bars[chosen];
    show(begin - (end - begin) / 2, end + (end - begin) / 2);
  };
  const ACTIONS = {
    "zoom-in": () => zoom(0.5), "zoom-out": () => zoom(2), left: () => pan(-0.25),
    right: () => pan(0.25), all,
  };
  for (const [id, action] of Object.entries(ACTIONS)) {
    document.getElementById(id).addEventListener("click", action);
  }

  timeline.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.shiftKey && event.key.startsWith("Arrow") ? "Shift" + event.key : event.key;
    const action = {
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: all, Home: all,
      ArrowRight: () => step(1), ArrowLeft: () => step(-1), Enter: toChosen,
      ShiftArrowRight: () => pan(0.25), ShiftArrowLeft: () => pan(-0.25),
    }[key];
    if (action) { event.preventDefault(); action(); }
  });

  function moment(event) {
    const box = timeline.getBoundingClientRect();
    return view[0] + (event.clientX - box.left) / width() * (view[1] - view[0]);
  }

  for (const svg of [timeline, memory]) {
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== timeline) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 0.8 : 1.25, moment(event));
    }, { passive: false });
  }

  let dragged = null;
  const barOf = (event) => event.target.dataset ? event.target.dataset.bar : undefined;
  timeline.addEventListener("pointerdown", (event) => {
    dragged = { x: event.clientX, view: view.slice(), moved: false };
  });
  window.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    const by = (dragged.x - event.clientX) / width() * (dragged.view[1] - dragged.view[0]);
    if (Math.abs(event.clientX - dragged.x) > 3) dragged.moved = true;
    if (dragged.moved) show(dragged.view[0] + by, dragged.view[1] + by);
  });
  window.addEventListener("pointerup", () => { dragged = null; });
  timeline.addEventListener("pointerover", (event) => {
    const bar = barOf(event);
    if (bar !== undefined && !dragged) describe(bars[bar]);
  });
  timeline.addEventListener("click", (event) => {
    timeline.focus();
    if (barOf(event) !== undefined) choose(Number(barOf(event)));
  });
  timeline.addEventListener("dblclick", toChosen);
  memory.addEventListener("pointermove", (event) => {
    const then = moment(event);
    const change = lastChange(then);
    alive.textContent = `${size(data.memory[Math.max(change, 0)][1])} alive at ${time(then)}`;
  });

  // Tables

  function sort(header) {
    const table = header.closest("table");
    const column = [...header.parentNode.children].indexOf(header);
    const numeric = header.classList.contains("number");
    const before = header.getAttribute("aria-sort");
    const order = before === "descending" || (before === null && !numeric)
      ? "ascending" : "descending";
    for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const value = (row) => {
      const cell = row.children[column];
      return numeric ? Number(cell.dataset.value) : cell.textContent;
    };
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
    rows.sort(([a], [b]) => (a < b ? -sign : a > b ? sign : 0));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }

  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => sort(button.parentNode));
  }
  window.addEventListener("resize", draw);
  draw();
})();
