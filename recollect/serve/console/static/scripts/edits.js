// Changes to a conversation. Each one offers to undo it.

import { fetchFragment, find, request } from "./dom.js";
import { page } from "./navigation.js";
import { refreshList } from "./sidebar.js";
import { showToast } from "./toast.js";

const isOpen = (id) => page()?.dataset.page === "conversation" && page().dataset.id === id;

/** Change a conversation. Returns a function that says so and offers to undo it. */
export async function editConversation(id, action, text = "") {
  const response = await request(`/console/edit?${new URLSearchParams({ id, action, text })}`, { method: "POST" });
  const { number, message } = await response.json();
  return () => showToast(message, number === null ? {} : { action: () => undoEdit(id, number) });
}

async function undoEdit(id, number) {
  await request(`/console/undo?number=${number}`, { method: "POST" });
  await Promise.all([refreshList(), showTags(id)]); // a live update shows the title
}

/** Show the tags of a conversation if it is open. */
export async function showTags(id) {
  if (!isOpen(id)) return;
  const fragment = await fetchFragment(`/console/tags?${new URLSearchParams({ id })}`);
  if (isOpen(id)) find("[data-tags]", page()).replaceWith(fragment);
}

/** Move a conversation to another project, and offer to move it back. */
export async function moveConversation(id, project, previous) {
  await saveProject(id, project);
  showToast(`Moved to “${project}”.`, { action: () => saveProject(id, previous) });
}

async function saveProject(id, project) {
  const parameters = new URLSearchParams({ namespace: project });
  await request(`/conversations/${encodeURIComponent(id)}?${parameters}`, { method: "PUT" });
  refreshList();
  if (!isOpen(id)) return;
  const menu = find("[data-menu='project']", page());
  const folders = project.split(/[\\/]/).filter(Boolean);
  const summary = find("summary", menu);
  summary.textContent = folders.at(-1) ?? project;
  summary.title = `Project ${project}`;
  const input = find("input", menu);
  input.value = input.defaultValue = project;
}
