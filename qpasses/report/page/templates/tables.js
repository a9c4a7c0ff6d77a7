// Tables that are sorted by a click on a head, and the filter of layers.
const onPaper = 60;

function sorted(table, head, direction) {
  const column = head.cellIndex;
  const sign = direction === "ascending" ? 1 : -1;
  const isText = head.classList.contains("text");
  const key = row => isText ? row.cells[column].textContent.trim() : parseFloat(row.cells[column].dataset.value);
  const keyed = [...table.tBodies[0].rows].map(row => [key(row), row]);
  keyed.sort(([a], [b]) => {
    if (isText) return sign * a.localeCompare(b, "en", {numeric: true});
    return isNaN(a) - isNaN(b) || sign * (a - b) || 0;  // what has no number comes last
  });
  table.tBodies[0].append(...keyed.map(([, row]) => row));
  for (const each of head.parentElement.cells) each.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", direction);
  markLate(table);
}

function markLate(table) {
  let visible = 0;
  for (const row of table.tBodies[0].rows) row.classList.toggle("late", !row.hidden && ++visible > onPaper);
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const head of table.tHead.rows[0].cells) {
    head.firstElementChild.addEventListener("click", () => {
      const first = head.classList.contains("text") ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      sorted(table, head, head.getAttribute("aria-sort") === first ? other : first);
    });
  }
  const first = table.querySelector("th[aria-sort='descending']");
  if (first) sorted(table, first, "descending");
}

const layers = document.getElementById("layer-table");
if (layers) {
  const [find, kind, op, shown] = ["find", "kind", "op", "shown"].map(id => document.getElementById(id));
  const rows = [...layers.tBodies[0].rows];
  const texts = new Map(rows.map(row => [row, `${row.cells[0].textContent} ${row.querySelector("button")?.title ?? ""} ${row.dataset.op}`.toLowerCase()]));
  const filter = () => {
    const wanted = find.value.trim().toLowerCase();
    for (const row of rows) {
      row.hidden = !texts.get(row).includes(wanted)
        || (kind.value && row.dataset.kind !== kind.value) || (op.value && row.dataset.op !== op.value);
    }
    const count = rows.filter(row => !row.hidden).length;
    shown.textContent = `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
    markLate(layers);
  };
  for (const field of [find, kind, op]) field.addEventListener("input", filter);
  find.form.addEventListener("submit", event => event.preventDefault());
}
