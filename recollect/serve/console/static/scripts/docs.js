// The API reference: send a request from the page, and show the response.

const KEY = "#api-key";

for (const form of document.querySelectorAll("form.try")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const output = form.querySelector("output");
    const { address, options } = buildRequest(form);
    output.textContent = `${options.method} ${address}\n…`;
    try {
      const response = await fetch(address, options);
      const text = await response.text();
      output.textContent = `${options.method} ${address}\n${response.status}\n\n${format(text)}`;
    } catch (error) {
      output.textContent = `The server cannot be reached (${error.message}).`;
    }
  });
}

function buildRequest(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const field of form.querySelectorAll("input[data-place]")) {
    if (field.dataset.place === "path") {
      path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
    } else if (field.value) {
      for (const value of field.value.split(field.dataset.list ? "," : /$^/)) {
        query.append(field.name, value.trim());
      }
    }
  }
  const headers = {};
  const key = document.querySelector(KEY).value.trim();
  if (key) headers.Authorization = `Bearer ${key}`;
  const options = { method: form.dataset.method, headers };
  const body = form.querySelector("textarea");
  if (body) {
    headers["Content-Type"] = "application/json";
    options.body = body.value;
  }
  const search = query.size ? `?${query}` : "";
  return { address: path + search, options };
}

function format(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
