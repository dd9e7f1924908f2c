// Importing files: dropped anywhere or chosen, one after the other, with progress and the receipt.

import { all, ask, fragment, one, Refused } from "./dom.js";
import { kind, renew } from "./going.js";
import { refresh } from "./sidebar.js";
import { say } from "./toast.js";

const tray = one("[data-tray]");
const drop = one(".drop");
const queue = [];
let working = false;
let over = 0;

export function start_uploads() {
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-files]")) return;
    add([...event.target.files]);
    event.target.value = "";
  });
  addEventListener("dragenter", (event) => {
    if (!has_files(event)) return;
    over += 1;
    drop.hidden = false;
  });
  addEventListener("dragover", (event) => has_files(event) && event.preventDefault());
  addEventListener("dragleave", (event) => {
    if (!has_files(event)) return;
    over -= 1;
    if (over <= 0) hide();
  });
  addEventListener("drop", (event) => {
    if (!has_files(event)) return;
    event.preventDefault();
    hide();
    add([...event.dataTransfer.files]);
  });
  document.addEventListener("click", (event) => {
    const close = event.target.closest("[data-act='dismiss-upload']");
    if (close) dismiss(close.closest(".upload"));
    const undo = event.target.closest("[data-act='undo-import']");
    if (undo) take_back(undo);
  });
}

export const choose_file = () => one("[data-files]").click();

const has_files = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

function hide() {
  over = 0;
  drop.hidden = true;
}

function add(files) {
  for (const file of files) {
    const card = one("#upload").content.cloneNode(true).firstElementChild;
    one("[data-name]", card).textContent = file.name;
    tell(card, "waiting", "Waiting");
    tray.append(card);
    queue.push({ file, card });
  }
  tray.hidden = !tray.children.length;
  work();
}

async function work() {
  if (working) return;
  working = true;
  while (queue.length) {
    const { file, card } = queue.shift();
    if (!card.isConnected) continue;
    try {
      const job = await send(file, card);
      await follow(job, card);
    } catch (error) {
      if (error.status === 429) {
        queue.unshift({ file, card });
        tell(card, "waiting", "Waiting: many files were sent at once");
        await pause(1000 * (error.retry || 5));
      } else tell(card, "failed", error.message);
    }
  }
  working = false;
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function tell(card, state, sentence, share) {
  card.dataset.state = state;
  one("[data-say]", card).textContent = sentence;
  const bar = one("progress", card);
  if (share === null) bar.removeAttribute("value");
  else if (share !== undefined) bar.value = share;
}

/** Upload by XMLHttpRequest, since fetch does not tell how much was sent. */
function send(file, card) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/api/imports?${new URLSearchParams({ name: file.name })}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => {
      const share = event.total ? event.loaded / event.total : null;
      tell(card, "sending", share === null ? "Uploading" : `Uploading, ${Math.floor(share * 100)} %`, share);
    });
    request.addEventListener("load", () => {
      let said = {};
      try {
        said = JSON.parse(request.responseText);
      } catch {
        // no JSON: the status has to do
      }
      if (request.status < 300) resolve(said);
      else {
        const refused = new Refused(request.status, said.detail || `The server answered ${request.status}.`);
        refused.retry = Number(request.getResponseHeader("Retry-After"));
        reject(refused);
      }
    });
    request.addEventListener("error", () => reject(new Error("The upload broke off. Check the connection and try again.")));
    tell(card, "sending", "Uploading", 0);
    request.send(file);
  });
}

async function follow(job, card) {
  let known = job;
  let failures = 0;
  while (known.state === "queued" || known.state === "running") {
    const share = known.total ? known.done / known.total : null;
    tell(card, "importing", share === null ? "Importing" : `Importing, ${Math.floor(share * 100)} %`, share);
    await pause(250 + 1000 * failures);
    try {
      known = await (await ask(`/api/imports/${encodeURIComponent(job.id)}`)).json();
      failures = 0;
    } catch (error) {
      if (error.status === 404 || ++failures > 10) throw error;
    }
  }
  if (known.state === "failed") throw new Error(known.error);
  tell(card, "done", "Imported");
  one("[data-receipt]", card).replaceChildren(await fragment(`/console/receipts/${known.receipt.id}`));
  await show_change();
}

async function show_change() {
  await refresh();
  if (kind() !== "conversation" && kind() !== "search") await renew();
}

async function take_back(button) {
  const receipt = button.closest("[data-receipt-id]");
  const number = receipt.dataset.receiptId;
  button.disabled = true;
  try {
    await ask(`/api/receipts/${number}/undo`, { method: "POST" });
    for (const shown of all(`[data-receipt-id="${number}"]`)) shown.replaceWith(await fragment(`/console/receipts/${number}`));
    say("The import was taken back.");
    await show_change();
  } catch (error) {
    button.disabled = false;
    say(error.message);
  }
}

function dismiss(card) {
  card.remove();
  tray.hidden = !tray.children.length;
}
