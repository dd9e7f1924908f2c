// The settings page: its buttons, sections that show progress, API keys and exclusions.

import { fetchFragment, find, findAll, request, wait } from "./dom.js";
import { onPage, page, pageName } from "./navigation.js";
import { showToast } from "./toast.js";

const POLL_INTERVAL = 700; // milliseconds
let isPolling = false;

export function startSettings() {
  onPage(() => {
    if (pageName() !== "settings") return;
    if (location.hash) find(`#${CSS.escape(location.hash.slice(1))}`)?.scrollIntoView();
    poll();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-post], [data-preview-exclusion], [data-copy-key]");
    if (!button) return;
    if (button.matches("[data-post]")) run(button, post);
    else if (button.matches("[data-copy-key]")) copyKey();
    else run(button, previewExclusion);
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const submit = formAction(form);
    if (!submit) return;
    event.preventDefault();
    run(find("button:not([type='button'])", form), () => submit(form));
  });
}

function formAction(form) {
  if (form.matches("[data-create-key]")) return createKey;
  if (form.matches("[data-rotate-key]")) return rotateKey;
  if (form.matches("[data-revoke-key]")) return revokeKey;
  if (form.matches("[data-exclusion]")) return addExclusion;
  return null;
}

/** Run an action once at a time, and say why it failed. */
async function run(button, action) {
  button.disabled = true;
  try {
    await action(button);
  } catch (error) {
    showToast(error.message);
  } finally {
    button.disabled = false;
  }
}

// -- sections ---

const sectionOf = (element) => element.closest("[data-section]");

async function refreshSection(name) {
  const fragment = await fetchFragment(`/console/settings/${name}`);
  const section = find(`[data-section="${name}"]`);
  if (!section) return; // the person has left the page
  const hadFocus = section.contains(document.activeElement);
  section.replaceWith(fragment);
  if (hadFocus) find(`[data-section="${name}"] :is(button, summary, input)`)?.focus({ preventScroll: true });
  poll();
}

/** Update the sections in which something is going on. */
async function poll() {
  if (isPolling) return;
  isPolling = true;
  try {
    while (pageName() === "settings" && find("[data-section][data-active]", page())) {
      await wait(POLL_INTERVAL);
      const names = findAll("[data-section][data-active]", page()).map((section) => section.dataset.section);
      await Promise.all(names.map(refreshSection));
    }
  } catch (error) {
    showToast(error.message);
  } finally {
    isPolling = false;
  }
}

async function post(button) {
  const name = sectionOf(button).dataset.section;
  const response = await request(button.dataset.post, { method: "POST" });
  const message = button.dataset.message ?? (await response.json()).message;
  await refreshSection(name);
  if (message) showToast(message);
}

// -- API keys ---

const postJson = (url, body) =>
  request(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

async function createKey(form) {
  const { name, scopes, user, expires, agent } = form.elements;
  const body = { name: name.value.trim(), scopes: scopes.value.split(" "), user: user.value.trim() };
  if (agent?.checked) body.agent = true;
  if (expires?.value) body.expires_at = `${expires.value}T23:59:59Z`;
  const isFirst = sectionOf(form).hasAttribute("data-first-key");
  const created = await (await postJson("/api/keys", body)).json();
  const note = isFirst ? "This browser is signed in with it. All other clients need a key from now on." : "";
  await showKey(created.key, isFirst, note);
}

async function rotateKey(form) {
  const isCurrent = form.closest("[data-key]").hasAttribute("data-current");
  const body = { grace_seconds: Number(form.elements.grace.value) };
  const url = `/api/keys/${encodeURIComponent(form.dataset.rotateKey)}/rotate`;
  const created = await (await postJson(url, body)).json();
  await showKey(created.key, isCurrent, isCurrent ? "This browser is signed in with the new key." : "");
}

/** Show a new key. If it replaces what this browser uses, sign in with it before anything else. */
async function showKey(key, signsIn, note) {
  if (signsIn) await request("/login", { method: "POST", body: new URLSearchParams({ key }) });
  await refreshSection("keys");
  const box = find("[data-created-key]");
  find("[data-key-text]", box).value = key;
  find("[data-key-note]", box).textContent = note;
  box.hidden = false;
  find("[data-key-text]", box).select();
}

async function copyKey() {
  const input = find("[data-key-text]");
  try {
    await navigator.clipboard.writeText(input.value);
    showToast("Key copied.");
  } catch {
    input.select();
    showToast("The browser does not allow copying. The key is selected: press Ctrl+C.");
  }
}

async function revokeKey(form) {
  await request(`/api/keys/${encodeURIComponent(form.dataset.revokeKey)}`, { method: "DELETE" });
  await refreshSection("keys");
  showToast("The key was revoked.");
}

// -- exclusions ---

async function addExclusion(form) {
  const parameters = new URLSearchParams({ pattern: form.elements.pattern.value });
  const response = await request(`/console/settings/exclusions/add?${parameters}`, { method: "POST" });
  await refreshSection("exclusions");
  showToast((await response.json()).message);
}

async function previewExclusion(button) {
  const pattern = button.form.elements.pattern.value;
  const url = `/console/settings/exclusions/preview?${new URLSearchParams({ pattern })}`;
  find("[data-exclusion-preview]").replaceChildren(await fetchFragment(url));
}
