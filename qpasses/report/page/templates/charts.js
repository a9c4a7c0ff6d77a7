// Charts, drawn by Vega-Lite in the colours of the page, which follow its theme.
const ink = "var(--ink)", quiet = "var(--quiet)", rule = "var(--rule)";
const blue = "var(--blue)", orange = "var(--orange)";
const axis = {
  labelColor: quiet, titleColor: quiet, titleFontWeight: "normal", titleFontSize: 12, labelFontSize: 11,
  gridColor: rule, domainColor: rule, tickColor: rule, 
};
const config = {
  background: null, view: {stroke: null}, axis, font: "system-ui, sans-serif",
  legend: {labelColor: ink, titleColor: quiet, orient: "top", labelFontSize: 12, symbolStrokeWidth: 2},
};

async function draw(place, spec) {
  const options = {renderer: "svg", actions: false, ast: true, tooltip: false};
  return vegaEmbed(place, {width: "container", autosize: {type: "fit-x", contains: "padding"}, config, ...spec}, options);
}

const field = (name, title, more = {}) => ({field: name, type: "quantitative", title, ...more});
const bothWays = {type: "symlog", constant: 1};

function histogramSpec(tensor) {
  const bins = tensor.histogram.map(([from, to, count]) => ({from, to, count}));
  const ends = (tensor.thresholds ?? []).map((at, high) => ({at, end: high ? "highest code" : "lowest code"}));
  return {
    description: `Histogram of ${tensor.name} in float, with the ends of its stored range`,
    height: 130,
    layer: [
      {
        data: {values: bins}, mark: {type: "rect", color: blue},
        encoding: {x: field("from", "value in float"), x2: {field: "to"}, y: field("count", "count", {scale: bothWays, axis: {tickCount: 4}}), y2: {datum: 0}},
      },
      ...(ends.length ? [{
        data: {values: ends}, mark: {type: "rule", color: orange, strokeWidth: 2, strokeDash: [5, 3]},
        encoding: {x: field("at", null), description: {field: "end"}},
      }] : []),
    ],
  };
}

function channelsSpec(tensor) {
  const values = tensor.channels.map(([from, to, largest, sqnr]) => ({from, to, largest, sqnr}));
  const one = (name, title, color) => ({
    mark: {type: "rect", color}, height: 80,
    encoding: {
      x: field("from", "channel", {axis: {tickMinStep: 1}, scale: {nice: false}}), x2: {field: "to"},
      y: field(name, title, {axis: {tickCount: 3}}), y2: {datum: 0},
    },
  });
  return [one("largest", "largest value", blue), one("sqnr", "SQNR dB", orange)].map((spec, second) => ({
    description: `${second ? "SQNR" : "Largest value"} of each channel of ${tensor.name}`, data: {values}, ...spec,
  }));
}

function splitSpec(tensor) {
  const values = Object.entries(tensor.split).map(([cause, share]) => ({cause: `${cause} ${(100 * share).toFixed(1)}%`, share}));
  return {
    description: "Shares of the local noise: " + values.map(({cause}) => cause).join(", "),
    data: {values}, height: 20 * values.length,
    encoding: {y: {field: "cause", type: "nominal", sort: null, title: null}, x: field("share", "share of the local noise", {axis: {format: ".0%", tickCount: 5}})},
    mark: {type: "bar", color: blue},
  };
}

const depthPlace = document.getElementById("depth-chart");
if (depthPlace) {
  const values = nodes.flatMap((node, index) => node.tensors.filter(tensor => tensor.kind === "activation").flatMap(tensor => [
    {node: index, tensor: tensor.name, depth: tensor.depth, sqnr: tensor.sqnr_db, error: "with all before"},
    {node: index, tensor: tensor.name, depth: tensor.depth, sqnr: tensor.local_sqnr_db, error: "its node alone"},
  ])).filter(each => each.depth !== null && each.sqnr !== null && each.sqnr < 150);  // those above are exact
  if (!values.length) depthPlace.textContent = "Nothing was measured.";
  else draw(depthPlace, {
    description: "SQNR of activations by depth",
    data: {values}, height: 300,
    mark: {type: "point", filled: true, size: 45, cursor: "pointer", opacity: .8},
    encoding: {
      x: field("depth", "depth", {axis: {tickMinStep: 1}}), y: field("sqnr", "SQNR dB", {scale: {zero: false}}),
      color: {field: "error", type: "nominal", title: null, scale: {domain: ["with all before", "its node alone"], range: [blue, orange]}},
      shape: {field: "error", type: "nominal", title: null, scale: {domain: ["with all before", "its node alone"], range: ["circle", "triangle-up"]}},
    },
  }).then(({view}) => view.addEventListener("click", (_event, item) => {
    if (item?.datum?.node !== undefined) show(item.datum.node);
  }));
}
