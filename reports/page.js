// Without this script the page says the same: sections open by hand, tables keep their order.
const folds = [...document.querySelectorAll("details")];

function reveal() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  if (target) target.scrollIntoView();
}

function control(words, act) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = words;
  button.addEventListener("click", () => act(button));
  return button;
}

function number(cell) {
  const found = cell.textContent.replaceAll("−", "-").replaceAll(",", "");
  return parseFloat(found.replace(/^[^\d.+-]*/, ""));
}

// Numbers by size, words by the alphabet with the numbers in them by size; what is missing comes last.
function compare(a, b, isNumber) {
  if (isNumber) return number(a) - number(b);
  return a.textContent.localeCompare(b.textContent, "en", { numeric: true });
}

function isMissing(cell, isNumber) {
  return !cell || cell.textContent.trim() === "—" || (isNumber && Number.isNaN(number(cell)));
}

function sort(table, head, place) {
  const isNumber = head.classList.contains("n");
  const first = isNumber ? "descending" : "ascending";
  const other = isNumber ? "ascending" : "descending";
  const order = head.getAttribute("aria-sort") === first ? other : first;
  for (const one of head.parentElement.children) one.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...table.tBodies[0].rows];
  const missing = new Set(rows.filter((row) => isMissing(row.cells[place], isNumber)));
  const known = rows.filter((row) => !missing.has(row));
  known.sort((a, b) => sign * compare(a.cells[place], b.cells[place], isNumber));
  table.tBodies[0].append(...known, ...missing);
}

for (const table of document.querySelectorAll("table")) {
  if (table.tBodies[0].rows.length < 2) continue;
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    if (!head.textContent) return;
    const words = [...head.childNodes];
    const button = control("", () => sort(table, head, place));
    head.replaceChildren(button);
    button.replaceChildren(...words);
  });
}

const tools = document.querySelector("[data-tools]");
if (tools && folds.length) {
  tools.append(
    control("Open all", (button) => {
      const open = folds.some((one) => !one.open);
      for (const one of folds) one.open = open;
      button.textContent = open ? "Close all" : "Open all";
    }),
  );
}

let wereOpen = [];
addEventListener("beforeprint", () => {
  wereOpen = folds.map((one) => one.open);
  for (const one of folds) one.open = true;
});
addEventListener("afterprint", () => folds.forEach((one, place) => (one.open = wereOpen[place])));
addEventListener("hashchange", reveal);
reveal();
