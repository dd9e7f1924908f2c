// Helpers. Only the server writes HTML, and it escapes stored text. Scripts never build HTML from data.

import { localizeTimes } from "./times.js";

export const find = (selector, root = document) => root.querySelector(selector);
export const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];

export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Send a request. Throws a RequestError with the server's message if it fails. */
export async function request(url, options = {}) {
  const response = await fetch(url, { credentials: "same-origin", ...options }).catch((error) => {
    throw isAborted(error) ? error : new RequestError(0, "The server cannot be reached.");
  });
  if (response.ok) return response;
  if (response.status === 401) {
    location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  }
  let message = `The server responded with status ${response.status}.`;
  try {
    message = (await response.json()).detail || message;
  } catch {
    // The body is not JSON.
  }
  throw new RequestError(response.status, message);
}

/** Fetch a piece of a page. */
export async function fetchFragment(url, { part = "fragment", signal } = {}) {
  const response = await request(url, { signal, headers: { "X-Recollect-Fragment": part } });
  const template = document.createElement("template");
  template.innerHTML = await response.text();
  localizeTimes(template.content);
  return template.content;
}

export const isAborted = (error) => error instanceof DOMException && error.name === "AbortError";

export const isTextField = (element) =>
  element instanceof HTMLElement &&
  (element.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName)) &&
  !["range", "checkbox", "button", "submit"].includes(element.type);

export function loadSetting(name) {
  try {
    return localStorage.getItem(`recollect-${name}`);
  } catch {
    return null; // storage is disabled
  }
}

export function saveSetting(name, value) {
  try {
    localStorage.setItem(`recollect-${name}`, value);
  } catch {
    // Storage is disabled.
  }
}

export const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const numberFormat = new Intl.NumberFormat("en");
export const formatNumber = (number) => numberFormat.format(number);

/** A number with its noun: "1 file", "2 files". */
export const plural = (number, singular, pluralNoun = `${singular}s`) =>
  `${formatNumber(number)} ${number === 1 ? singular : pluralNoun}`;
