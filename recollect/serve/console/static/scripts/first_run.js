// The first run: import what was found on this computer.

import { find, findAll, request } from "./dom.js";
import { reloadPage } from "./navigation.js";
import { showToast } from "./toast.js";
import { followImport } from "./uploads.js";

export function startFirstRun() {
  document.addEventListener("change", (event) => {
    const form = event.target.closest("[data-first-run]");
    if (form) showSelection(form);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-first-run]")) return;
    event.preventDefault();
    importSelection(event.target).catch((error) => showToast(error.message));
  });
}

const boxes = (form) => findAll("input[name='id']", form);

function showSelection(form) {
  const count = boxes(form).filter((box) => box.checked).length;
  const button = find("button", form);
  button.disabled = !count;
  find("[data-label]", button).textContent =
    count === boxes(form).length ? button.dataset.many : `Import ${count} of ${boxes(form).length}`;
}

async function importSelection(form) {
  const ids = boxes(form).flatMap((box) => (box.checked ? [["id", box.value]] : []));
  const button = find("button", form);
  button.disabled = true;
  try {
    const response = await request(`/console/import-found?${new URLSearchParams(ids)}`, { method: "POST" });
    const { imports } = await response.json();
    const finished = imports.map(followImport);
    document.activeElement?.blur();
    await reloadPage();
    await Promise.all(finished);
  } catch (error) {
    button.disabled = false;
    throw error;
  }
}
