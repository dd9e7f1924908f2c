// Registers the service worker. Browsers have none on plain HTTP, except on this computer.

export function startOfflineSupport() {
  navigator.serviceWorker?.register("/service-worker.js").catch((error) => console.warn(error.message));
}
