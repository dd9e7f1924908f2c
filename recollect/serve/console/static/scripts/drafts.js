// Forms of items. Unsaved text is kept in the session storage until the window is closed.

import { find, findAll, isTextField } from "./dom.js";
import { onPage, pageName } from "./navigation.js";
import { showToast } from "./toast.js";

let isSubmitting = false;

const openForm = () => (pageName() === "writing" ? find("[data-item-form]") : null);
const storageKey = (form) => `recollect-draft ${form.dataset.draft} ${form.dataset.version}`;

export function startDrafts() {
  onPage(() => openForm() && restoreDraft(openForm()));
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-discard]")) deleteDraft();
  });
  document.addEventListener("input", (event) => {
    if (event.target.closest("[data-item-form]")) saveDraft();
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-item-form]")) return;
    isSubmitting = true;
    deleteDraft();
    find("[data-save]", event.target).disabled = true;
  });
  document.addEventListener("keydown", (event) => {
    const form = openForm();
    if (!form || event.isComposing || !(event.ctrlKey || event.metaKey)) return;
    if (!["Enter", "s"].includes(event.key) || find("dialog[open]")) return;
    if (isTextField(event.target) && !form.contains(event.target)) return;
    event.preventDefault();
    form.requestSubmit();
  });
  addEventListener("beforeunload", (event) => {
    if (!isSubmitting && openForm() && loadDraft()) event.preventDefault();
  });
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    isSubmitting = false;
    for (const button of findAll("[data-save]")) button.disabled = false;
  });
}

function loadDraft() {
  try {
    return sessionStorage.getItem(storageKey(openForm()));
  } catch {
    return null; // storage is disabled
  }
}

function saveDraft() {
  const fields = [...new FormData(openForm())];
  const values = fields.filter(([name]) => !name.startsWith("original:") && name !== "version");
  try {
    sessionStorage.setItem(storageKey(openForm()), JSON.stringify(values));
  } catch {
    // Storage is full or disabled.
  }
}

function deleteDraft() {
  try {
    if (openForm()) sessionStorage.removeItem(storageKey(openForm()));
  } catch {
    // Storage is disabled.
  }
}

function restoreDraft(form) {
  isSubmitting = false;
  if ("resubmit" in form.dataset) {
    saveDraft();
    return;
  }
  const draft = JSON.parse(loadDraft() ?? "null");
  if (!draft) return;
  const originals = findAll("textarea, input:not([type='hidden'])", form).map((field) => [field, field.value]);
  const counts = new Map(); // several fields may have the same name
  for (const [name, value] of draft) {
    const index = counts.get(name) ?? 0;
    counts.set(name, index + 1);
    const field = findAll(`[name="${CSS.escape(name)}"]`, form)[index];
    if (field) field.value = value;
  }
  showToast("Restored your unsaved draft.", {
    label: "Discard",
    action: async () => {
      deleteDraft();
      for (const [field, value] of originals) field.value = value;
    },
  });
}
