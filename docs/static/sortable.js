"use strict";
// Tables inside of a folded section can be sorted by any column: these are the long ones.

function cellValue(row, column) {
  const text = row.cells[column]?.textContent.trim() ?? "";
  const number = parseFloat(text.replace("−", "-").replace(/[,*+]/g, ""));
  return Number.isNaN(number) ? text : number;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number") return -1;
  if (typeof b === "number") return 1;
  return a.localeCompare(b);
}

function sortBy(table, column, header) {
  const descending = header.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => compare(cellValue(a, column), cellValue(b, column)));
  if (descending) rows.reverse();
  body.append(...rows);
}

document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("details table")) {
    if (!table.tHead || table.tBodies[0].rows.length < 3) continue;
    table.classList.add("sortable");
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sortBy(table, column, header));
    });
  }
});
