// Addresses of the history: "#/runs", "#/runs/RUN?filters", "#/runs/RUN/cases/NUMBER", and a finding of a case after it.

/** What an address names, null where it is none of the history. Empty parts are null. */
export function readAddress(hash) {
  const [, path, , query] = /^#\/runs((\/[^?]*)?)(?:\?(.*))?$/.exec(hash) ?? [];
  if (path === undefined) return null;
  let parts;
  try {
    parts = path.split("/").map(decodeURIComponent);
  } catch {
    return null; // a percent sign that begins no character
  }
  const [, run = null, cases, number = null, finding = null] = parts;
  if (number !== null && cases !== "cases") return null;
  return { run: run || null, number: number === null ? null : Number(number), finding, query: new URLSearchParams(query ?? "") };
}

/** The address of all runs, of one, of a case, or of a finding; `query` are the filters of a run. */
export function addressOf({ run = null, number = null, finding = null, query = null } = {}) {
  const parts = ["#/runs", run, number === null ? null : "cases", number, finding];
  const path = parts.filter((part) => part !== null).map((part, i) => (i ? encodeURIComponent(part) : part)).join("/");
  const filters = query?.toString();
  return filters ? `${path}?${filters}` : path;
}
