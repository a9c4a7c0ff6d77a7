// The drawing: what is in view, the node that is chosen, and the keys.
const drawing = document.getElementById("drawing");

function show(index, scroll = true) {
  const chosen = boxes[index];
  for (const box of boxes) {
    box.setAttribute("aria-pressed", box === chosen);
    box.setAttribute("tabindex", box === chosen ? 0 : -1);
  }
  for (const edge of edges) edge.element.classList.toggle("near", edge.ends.includes(index));
  showDetails(nodes[index]);
  comeIntoView(index);
  if (scroll) {
    drawing.scrollIntoView({block: "center"});
    chosen.focus({preventScroll: true});
  }
}

const boxes = drawing ? [...drawing.querySelectorAll(".node")] : [];
const places = boxes.map(box => box.transform.baseVal[0].matrix).map(({e, f}) => ({x: e + 100, y: f + 24}));
const edges = drawing ? [...drawing.querySelectorAll(".edges path")].map(element => ({element, ends: element.dataset.ends.split(" ").map(Number)})) : [];
const whole = drawing?.viewBox.baseVal;
const all = whole && {width: whole.width, height: whole.height};
const center = {x: 0, y: 0};
let zoom = 1;  // pixels of the screen for one of the drawing
let frame;

function look() {
  const {width, height} = drawing.getBoundingClientRect();
  if (!width) return;
  const inView = {x: center.x - width / zoom / 2, y: center.y - height / zoom / 2, width: width / zoom, height: height / zoom};
  drawing.setAttribute("viewBox", `${inView.x} ${inView.y} ${inView.width} ${inView.height}`);
  for (const [name, value] of Object.entries(inView)) frame.setAttribute(name, value);
}

function zoomToAll() {
  const {width, height} = drawing.getBoundingClientRect();
  zoom = Math.min(width / (all.width + 60), height / (all.height + 60));
  Object.assign(center, {x: all.width / 2, y: all.height / 2});
  look();
}

// By a factor; the point under the pointer, or the middle, stays where it is.
function zoomBy(factor, x = 0, y = 0) {
  const now = Math.min(Math.max(zoom * factor, .01), 4);
  center.x += x / zoom - x / now;
  center.y += y / zoom - y / now;
  zoom = now;
  look();
}

function moveBy(x, y) {
  center.x = Math.min(Math.max(center.x + x / zoom, 0), all.width);
  center.y = Math.min(Math.max(center.y + y / zoom, 0), all.height);
  look();
}

function comeIntoView(index) {
  const {width, height} = drawing.getBoundingClientRect();
  zoom = Math.max(zoom, .6);
  const far = Math.abs(places[index].x - center.x) > width / zoom / 2 - 110
    || Math.abs(places[index].y - center.y) > height / zoom / 2 - 60;
  if (far) Object.assign(center, places[index]);
  look();
}

function focusOn(index) {
  if (index === undefined) return;
  for (const box of boxes) box.setAttribute("tabindex", -1);
  boxes[index].setAttribute("tabindex", 0);
  boxes[index].focus({preventScroll: true});
  comeIntoView(index);
}

function startGraph() {
  const overview = document.getElementById("overview");
  const svg = name => document.createElementNS("http://www.w3.org/2000/svg", name);
  boxes.forEach((box, index) => {
    const part = svg("rect");
    part.setAttribute("class", "part");
    part.setAttribute("style", box.getAttribute("style") ?? "");
    for (const [name, value] of Object.entries({x: places[index].x - 100, y: places[index].y - 24, width: 200, height: 48})) part.setAttribute(name, value);
    overview.append(part);
  });
  frame = svg("rect");
  frame.setAttribute("class", "view");
  overview.append(frame);

  zoomToAll();
  if (zoom < .55) {
    const {height} = drawing.getBoundingClientRect();
    zoom = .8;
    Object.assign(center, {x: places[0].x, y: places[0].y + height / zoom / 2 - 90});
    look();
  }
  new ResizeObserver(look).observe(drawing);

  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => button.dataset.zoom === "all" ? zoomToAll() : zoomBy(Number(button.dataset.zoom)));
  }
  drawing.addEventListener("wheel", event => {
    if (!event.ctrlKey && !drawing.contains(document.activeElement)) return;
    event.preventDefault();
    const {left, top, width, height} = drawing.getBoundingClientRect();
    zoomBy(Math.exp(-event.deltaY / 500), event.clientX - left - width / 2, event.clientY - top - height / 2);
  }, {passive: false});

  let dragged = 0;
  drawing.addEventListener("pointerdown", () => { dragged = 0; });
  drawing.addEventListener("pointermove", event => {
    if (!event.buttons) return;
    dragged += Math.abs(event.movementX) + Math.abs(event.movementY);
    moveBy(-event.movementX, -event.movementY);
  });
  drawing.addEventListener("click", event => {
    const box = event.target.closest(".node");
    if (!box || dragged > 6) return;
    focusOn(Number(box.dataset.node));
    show(Number(box.dataset.node), false);
  });
  overview.addEventListener("click", event => {
    const {left, top, width, height} = overview.getBoundingClientRect();
    Object.assign(center, {x: (event.clientX - left) / width * all.width, y: (event.clientY - top) / height * all.height});
    look();
  });

  const last = boxes.length - 1;
  const after = index => edges.find(({ends}) => ends[0] === index)?.ends[1];
  const before = index => edges.find(({ends}) => ends[1] === index)?.ends[0];
  const beside = (index, sign) => {
    const row = places.map(({x, y}, other) => ({x, y, other})).filter(({y, x}) => y === places[index].y && sign * (x - places[index].x) > 0);
    return row.sort((a, b) => sign * (a.x - b.x))[0]?.other;
  };
  drawing.addEventListener("keydown", event => {
    const index = Number(event.target.closest(".node")?.dataset.node);
    const step = {ArrowUp: [0, -80], ArrowDown: [0, 80], ArrowLeft: [-80, 0], ArrowRight: [80, 0]}[event.key];
    const act = {
      ArrowDown: () => focusOn(after(index) ?? Math.min(index + 1, last)), ArrowUp: () => focusOn(before(index) ?? Math.max(index - 1, 0)),
      ArrowLeft: () => focusOn(beside(index, -1)), ArrowRight: () => focusOn(beside(index, 1)),
      Home: () => focusOn(0), End: () => focusOn(last),
      Enter: () => show(index, false), " ": () => show(index, false),
      "+": () => zoomBy(1.4), "=": () => zoomBy(1.4), "-": () => zoomBy(.714), 0: zoomToAll,
    }[event.key];
    if (!act) return;
    event.preventDefault();
    if (event.shiftKey && step) moveBy(...step);
    else act();
  });
}

if (drawing) startGraph();
for (const link of document.querySelectorAll("[data-show]")) {
  link.addEventListener("click", () => show(Number(link.dataset.show)));
}
if (drawing && boxes.length) {
  const costs = boxes.map(box => parseFloat(box.style.getPropertyValue("--cost")) || 0);
  show(costs.indexOf(Math.max(...costs)), false);
}
document.documentElement.dataset.ready = "";
