// Labels of the answers in a sheet that `veridical rate --sheet` wrote as JSON Lines: each is wrong, right, or not labelled.

/** The label in a row of a sheet, null for a row of another file. */
export function labelOf(document) {
  if (document === null || typeof document !== "object" || !("wrong" in document) || !("row" in document)) return null;
  return { row: document.row, id: document.id ?? null, wrong: typeof document.wrong === "boolean" ? document.wrong : null };
}

/** The labels of all rows that have one, as JSON Lines that `veridical rate --labels` reads. */
export function labelLines(rows) {
  const labels = rows.map((row) => row.label).filter((label) => label && label.wrong !== null);
  return labels.map((label) => `${JSON.stringify(label)}\n`).join("");
}
