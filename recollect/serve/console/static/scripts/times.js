// One format for dates and times, in the time zone of the browser: "15 Nov 2026, 14:05". Lists have
// the date only, or the time if it is today. The tooltip adds how long ago it was.

const SECOND = 1000;
const UNITS = [
  ["year", 365 * 86_400],
  ["month", 30 * 86_400],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const fullTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

const formatDate = (time) => `${time.getDate()} ${MONTHS[time.getMonth()]} ${time.getFullYear()}`;

export const formatLong = (time) => `${formatDate(time)}, ${clock.format(time)}`;
export const formatShort = (time, now = new Date()) =>
  time.toDateString() === now.toDateString() ? clock.format(time) : formatDate(time);

/** How long ago a time was: "3 hours ago". */
export function formatRelative(time, now = new Date()) {
  const seconds = (time - now) / SECOND;
  for (const [unit, length] of UNITS) {
    if (Math.abs(seconds) >= length) return relative.format(Math.round(seconds / length), unit);
  }
  return "just now";
}

function timeOf(element) {
  const time = new Date(element.dateTime);
  return element.dateTime && !Number.isNaN(time.getTime()) ? time : null;
}

export function localizeTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const time = timeOf(element);
    if (!time) continue;
    element.textContent = element.hasAttribute("data-long") ? formatLong(time) : formatShort(time);
    showTooltip(element);
  }
}

function showTooltip(element) {
  const time = timeOf(element);
  if (time) element.title = `${fullTime.format(time)} (${formatRelative(time)})`;
}

/** Tooltips say how long ago a time is now, not when the page was loaded. */
export function startTimes() {
  localizeTimes(document);
  document.addEventListener("mouseover", (event) => {
    const element = event.target.closest?.("time[datetime]");
    if (element) showTooltip(element);
  });
}
