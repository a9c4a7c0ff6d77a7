// What is shown of the chosen node.
const panel = document.getElementById("details");

function rowsOf(rows) {
  return made("dl", {class: "rows"}, ...rows.flatMap(([label, text]) => [made("dt", {}, label), made("dd", {}, text)]));
}

function chartOf(title, ...specs) {
  const figure = made("figure", {}, made("figcaption", {}, title));
  for (const spec of specs) {
    const place = made("div");
    figure.append(place);
    requestAnimationFrame(() => draw(place, spec));  // once it has a width
  }
  return figure;
}

function showDetails(node) {
  const parts = [made("h3", {}, node.name), made("p", {class: "op-name"}, `${node.op}, ${node.kind}`), rowsOf(node.rows)];
  for (const tensor of node.tensors) {
    parts.push(made("h4", {}, `${tensor.kind === "weights" ? "Weights" : "Writes"} ${tensor.name}`), rowsOf(tensor.rows));
    if (tensor.histogram) parts.push(chartOf("Values in float; dashed: the ends of the stored range", histogramSpec(tensor)));
    if (tensor.split) parts.push(chartOf("Where its local noise comes from", splitSpec(tensor)));
    if (tensor.channels) parts.push(chartOf("By channel", ...channelsSpec(tensor)));
  }
  if (node.integers.length) parts.push(made("h4", {}, "Integers and evidence"), rowsOf(node.integers));
  document.getElementById("chosen").textContent = `${node.name} is shown`;
  panel.replaceChildren(...parts);
  panel.scrollTop = 0;
}
