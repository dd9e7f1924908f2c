// Import files that are dropped or chosen, one after the other, with progress and receipt.

import { fetchFragment, find, findAll, request, RequestError, wait } from "./dom.js";
import { pageName, reloadPage } from "./navigation.js";
import { refreshList } from "./sidebar.js";
import { showToast } from "./toast.js";

const POLL_INTERVAL = 250; // milliseconds
const MAX_POLL_FAILURES = 10;
const tray = find("[data-uploads]");
const dropZone = find(".drop-zone");
const queue = [];
let isWorking = false;
let dragDepth = 0; // dragenter and dragleave fire for every element

export function startUploads() {
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-files]")) return;
    addFiles([...event.target.files]);
    event.target.value = "";
  });
  addEventListener("dragenter", (event) => {
    if (!hasFiles(event)) return;
    dragDepth += 1;
    dropZone.hidden = false;
  });
  addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  addEventListener("dragleave", (event) => {
    if (!hasFiles(event)) return;
    dragDepth -= 1;
    if (dragDepth <= 0) hideDropZone();
  });
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    hideDropZone();
    addFiles([...event.dataTransfer.files]);
  });
  document.addEventListener("click", (event) => {
    const dismissButton = event.target.closest("[data-command='dismiss-upload']");
    if (dismissButton) dismiss(dismissButton.closest(".upload"));
    const undoButton = event.target.closest("[data-command='undo-import']");
    if (undoButton) undoImport(undoButton);
  });
}

export const chooseFiles = () => find("[data-files]").click();

const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

function hideDropZone() {
  dragDepth = 0;
  dropZone.hidden = true;
}

function addFiles(files) {
  for (const file of files) queue.push({ file, card: addCard(file.name) });
  processQueue();
}

function addCard(name) {
  const card = find("#upload").content.cloneNode(true).firstElementChild;
  find("[data-name]", card).textContent = name;
  showState(card, "waiting", "Waiting");
  tray.append(card);
  tray.hidden = false;
  return card;
}

/** Show the progress of an import that the server has accepted, until it ends. */
export async function followImport(job) {
  const card = addCard(job.name);
  try {
    await followJob(job, card);
  } catch (error) {
    showState(card, "failed", error.message);
  }
}

async function processQueue() {
  if (isWorking) return;
  isWorking = true;
  while (queue.length) {
    const { file, card } = queue.shift();
    if (!card.isConnected) continue; // dismissed
    try {
      const job = await upload(file, card);
      await followJob(job, card);
    } catch (error) {
      if (error.status === 429) {
        queue.unshift({ file, card });
        showState(card, "waiting", "Waiting: too many uploads at once");
        await wait(1000 * (error.retryAfter || 5));
      } else showState(card, "failed", error.message);
    }
  }
  isWorking = false;
}

/** Show the progress of an upload; `share` is between 0 and 1, or null if it is unknown. */
function showState(card, state, text, share) {
  card.dataset.state = state;
  find("[data-text]", card).textContent = text;
  const bar = find("progress", card);
  if (share === null) bar.removeAttribute("value");
  else if (share !== undefined) bar.value = share;
}

function showProgress(card, state, verb, share) {
  const text = share === null ? `${verb}…` : `${verb}… ${Math.floor(share * 100)} %`;
  showState(card, state, text, share);
}

/** Upload with XMLHttpRequest, because fetch does not report progress. */
function upload(file, card) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open("POST", `/api/imports?${new URLSearchParams({ name: file.name })}`);
    xhr.setRequestHeader("Content-Type", "application/octet-stream");
    xhr.upload.addEventListener("progress", (event) => {
      showProgress(card, "uploading", "Uploading", event.total ? event.loaded / event.total : null);
    });
    xhr.addEventListener("load", () => {
      const body = parseJson(xhr.responseText);
      if (xhr.status < 300) {
        resolve(body);
        return;
      }
      const message = body.detail || `The server responded with status ${xhr.status}.`;
      const error = new RequestError(xhr.status, message);
      error.retryAfter = Number(xhr.getResponseHeader("Retry-After"));
      reject(error);
    });
    xhr.addEventListener("error", () => {
      reject(new Error("The upload was interrupted. Check your connection and try again."));
    });
    showProgress(card, "uploading", "Uploading", 0);
    xhr.send(file);
  });
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

async function followJob(acceptedJob, card) {
  let job = acceptedJob;
  let failures = 0;
  while (job.state === "queued" || job.state === "running") {
    showProgress(card, "importing", "Importing", job.total ? job.done / job.total : null);
    await wait(POLL_INTERVAL + 1000 * failures);
    try {
      job = await (await request(`/api/imports/${encodeURIComponent(acceptedJob.id)}`)).json();
      failures = 0;
    } catch (error) {
      failures += 1;
      if (error.status === 404 || failures > MAX_POLL_FAILURES) throw error;
    }
  }
  if (job.state === "failed") throw new Error(job.error);
  showState(card, "done", "Imported");
  find("[data-receipt]", card).replaceChildren(await fetchFragment(`/console/receipts/${job.receipt.id}`));
  await refreshAll();
}

async function refreshAll() {
  await refreshList();
  if (pageName() !== "conversation" && pageName() !== "search") await reloadPage();
}

async function undoImport(button) {
  const number = button.closest("[data-receipt-id]").dataset.receiptId;
  button.disabled = true;
  try {
    await request(`/api/receipts/${number}/undo`, { method: "POST" });
    for (const receipt of findAll(`[data-receipt-id="${number}"]`)) {
      receipt.replaceWith(await fetchFragment(`/console/receipts/${number}`));
    }
    showToast("Import undone.");
    await refreshAll();
  } catch (error) {
    button.disabled = false;
    showToast(error.message);
  }
}

function dismiss(card) {
  card.remove();
  tray.hidden = !tray.children.length;
}
