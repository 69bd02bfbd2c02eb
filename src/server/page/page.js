// The page of `dspark serve`: a chat that shows which tokens were guessed, live charts, and the configuration. It asks
// the same endpoints as anybody else and keeps nothing but the API key, for as long as the tab is open.
"use strict";

const $ = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function headers() {
  const key = sessionStorage.getItem("key");
  return {"Content-Type": "application/json", ...(key ? {"Authorization": `Bearer ${key}`} : {})};
}

async function ask(path, body) {
  const response = await fetch(path, {method: body ? "POST" : "GET", headers: headers(),
                                      body: body ? JSON.stringify(body) : undefined});
  if (response.status === 401 || response.status === 403) $("key-label").hidden = false;
  if (!response.ok) {
    const error = await response.json().catch(() => ({}));
    throw new Error(error.error?.message ?? `${path} answers ${response.status}`);
  }
  return response;
}

// ---- Theme and tabs

const themes = ["system", "light", "dark"];

function showTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  $("theme").textContent = `Theme: ${name}`;
}

const tabs = ["chat", "live", "config"];
let shown = "chat";

function showTab(name, focus) {
  shown = name;
  for (const each of tabs) {
    const tab = $(`tab-${each}`);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
    $(`view-${each}`).hidden = each !== name;
    if (each === name && focus) tab.focus();
  }
  if (name === "config") loadConfig();
  if (name === "live") look();
}

function moveTab(event) {
  const at = tabs.indexOf(shown);
  const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1}[event.key];
  if (to === undefined) return;
  event.preventDefault();
  showTab(tabs[(to + tabs.length) % tabs.length], true);
}

// ---- Chat

const conversation = [];
let running = null;

// The JSON of each event of a stream of server-sent events.
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    buffer += value;
    for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
      const text = buffer.slice(0, end).replace(/^data: /, "");
      buffer = buffer.slice(end + 2);
      if (text === "[DONE]") return;
      yield JSON.parse(text);
    }
  }
}

function addMessage(role, text, title) {
  const body = make("div", {class: "text"});
  body.textContent = text;
  const speed = make("p", {class: "speed"});
  $("messages").append(make("article", {class: `message ${role}`, "aria-label": title}, make("strong", {}, title), body,
                            speed));
  return {body, speed};
}

// One answer, shown as it comes. Its text, tokens and speed.
async function answer(title, speculate) {
  const place = addMessage("assistant", "", title);
  const out = {text: "", ids: [], drafted: 0, tokens: 0, first: 0, last: 0};
  const response = await fetch("/v1/chat/completions", {
    method: "POST", headers: headers(), signal: running.signal,
    body: JSON.stringify({
      messages: conversation, stream: true, temperature: Number($("temperature").value),
      max_tokens: Number($("max-tokens").value), seed: Number($("seed").value), return_token_ids: true,
      speculation: {enabled: speculate, report: true}})});
  if (!response.ok) {
    if (response.status === 401) $("key-label").hidden = false;
    throw new Error((await response.json()).error.message);
  }
  for await (const event of eventsOf(response)) {
    if (event.error) throw new Error(event.error.message);
    const choice = event.choices[0];
    if (!choice || choice.delta.role) continue;
    const piece = choice.delta.content ?? choice.delta.reasoning ?? "";
    out.text += choice.delta.content ?? "";
    if (choice.drafted !== undefined) {
      out.last = performance.now();
      out.first ||= out.last;
      out.tokens += 1;
      out.drafted += choice.drafted ? 1 : 0;
      out.ids.push(...choice.token_ids);
    }
    if (piece) {
      const token = make("span", {class: choice.drafted ? "token drafted" : "token"});
      token.textContent = piece;
      place.body.append(token);
    }
  }
  const seconds = (out.last - out.first) / 1000;
  out.rate = seconds > 0 ? (out.tokens - 1) / seconds : 0;
  place.speed.textContent = `${out.tokens} tokens, ${out.rate.toFixed(1)} a second; ` +
      (speculate ? `${out.drafted} were guessed and accepted` : "guessing was off");
  return out;
}

async function send(event) {
  event.preventDefault();
  const text = $("message").value.trim();
  if (!text || running) return;
  $("message").value = "";
  conversation.push({role: "user", content: text});
  addMessage("user", text, "You");
  running = new AbortController();
  $("send").disabled = true;
  $("stop").disabled = false;
  try {
    const speculate = $("speculate").checked;
    const first = await answer(speculate ? "Answer" : "Answer, guessing off", speculate);
    if ($("compare").checked) {
      const second = await answer("The same, guessing off", false);
      const same = first.ids.length === second.ids.length && first.ids.every((id, i) => id === second.ids[i]);
      const times = second.rate > 0 ? (first.rate / second.rate).toFixed(2) : "?";
      addMessage("note", same ? "The tokens are identical." : "The tokens differ: please report it.",
                 `With guesses ${first.rate.toFixed(1)} tokens a second, without ${second.rate.toFixed(1)}: ${times}×`);
    }
    conversation.push({role: "assistant", content: first.text});
  } catch (error) {
    conversation.pop();
    addMessage("error", error.name === "AbortError" ? "Stopped." : error.message, "No answer");
  }
  running = null;
  $("send").disabled = false;
  $("stop").disabled = true;
  $("message").focus();
}

// ---- Live

const points = 120;
const charts = {
  throughput: {title: "Throughput", unit: "tokens/s"},
  user: {title: "Speed of one user", unit: "tokens/s"},
  acceptance: {title: "Guesses accepted", unit: "%", top: 100},
  cache: {title: "KV cache in use", unit: "%", top: 100},
  step: {title: "Time of a step", unit: "ms"},
  running: {title: "Requests running", unit: ""},
};
let before = null;

function buildCharts() {
  for (const [name, chart] of Object.entries(charts)) {
    chart.values = [];
    chart.output = make("output", {id: `chart-${name}`}, "–");
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${points - 1} 100`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    const floor = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [key, value] of [["x1", 0], ["x2", points - 1], ["y1", 100], ["y2", 100]]) floor.setAttribute(key, value);
    chart.line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    svg.append(floor, chart.line);
    $("charts").append(make("figure", {}, make("figcaption", {}, make("span", {}, chart.title), chart.output), svg));
  }
}

// Sums over the labels of each name.
function readMetrics(text) {
  const sums = {};
  for (const line of text.split("\n")) {
    if (line.startsWith("#") || !line) continue;
    const name = line.split(/[{ ]/, 1)[0];
    sums[name] = (sums[name] ?? 0) + Number(line.slice(line.lastIndexOf(" ") + 1));
  }
  return sums;
}

function plot(name, value) {
  const chart = charts[name];
  chart.values.push(value);
  if (chart.values.length > points) chart.values.shift();
  const known = chart.values.filter((v) => v !== null);
  const top = chart.top ?? Math.max(1e-9, ...known) * 1.1;
  const from = points - chart.values.length;
  chart.line.setAttribute("points", chart.values.map((v, i) => v === null ? "" : `${from + i},${100 - 100 * v / top}`)
                                        .filter(Boolean).join(" "));
  chart.output.textContent = value === null ? "–" : `${value.toFixed(value < 10 ? 2 : 0)} ${chart.unit}`;
}

async function look() {
  try {
    const now = readMetrics(await (await ask("/metrics")).text());
    now.at = performance.now() / 1000;
    if (before) {
      const since = (name) => (now[name] ?? 0) - (before[name] ?? 0);
      const ratio = (part, whole, times) => since(whole) > 0 ? times * since(part) / since(whole) : null;
      plot("throughput", since("dspark_output_tokens_total") / (now.at - before.at));
      plot("user", ratio("vllm:inter_token_latency_seconds_count", "vllm:inter_token_latency_seconds_sum", 1));
      plot("acceptance", ratio("vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total",
                               100));
      plot("step", ratio("dspark_step_seconds_sum", "dspark_steps_total", 1000));
    }
    plot("cache", 100 * now["vllm:kv_cache_usage_perc"]);
    plot("running", now["vllm:num_requests_running"]);
    before = now;
    $("live-state").textContent = "";
  } catch (error) {
    $("live-state").textContent = error.message;
  }
}

async function lookAtHealth() {
  const place = $("health");
  try {
    const response = await fetch("/health");
    const report = await response.json();
    const status = report.status ?? report.error?.message ?? "unknown";
    place.textContent = status;
    place.className = response.ok && status === "ok" ? "good" : "bad";
    $("degraded").replaceChildren(...(report.degraded ?? []).map(
        (each) => make("p", {class: "error"}, `${each.mode}: ${each.detail} (for ${each.seconds.toFixed(0)} s)`)));
  } catch (error) {
    place.textContent = "no connection";
    place.className = "bad";
  }
}

// ---- Configuration

let config = null;

const shownValue = (value) => Array.isArray(value) ? value.join(",") : value === null ? "" : String(value);

function editor(key, setting) {
  if (!setting.live) return make("span", {}, shownValue(setting.value) || "–");
  const input = make(setting.choices.length > 0 ? "select" : "input");
  for (const choice of setting.choices) input.append(make("option", {}, choice));
  input.value = shownValue(setting.value);
  input.name = key;
  input.title = setting.allowed;
  input.setAttribute("aria-label", key);
  input.addEventListener("input", () => input.classList.toggle("changed", input.value !== shownValue(setting.value)));
  return input;
}

function showConfig() {
  const words = $("filter").value.toLowerCase();
  const rows = [];
  for (const [key, setting] of Object.entries(config.settings)) {
    if ($("only-live").checked && !setting.live) continue;
    if (!`${key} ${setting.help}`.toLowerCase().includes(words)) continue;
    rows.push(make("tr", {}, make("td", {class: "name"}, key), make("td", {}, editor(key, setting)),
                   make("td", {class: "from"}, setting.origin || setting.source),
                   make("td", {class: "meaning"}, setting.help + (setting.live ? "" : " (needs a restart)"))));
  }
  $("settings").replaceChildren(...rows);
  $("version").textContent = config.version;
  $("history").replaceChildren(...config.history.slice().reverse().map((version) => {
    const changes = Object.entries(version.changed).map(([key, c]) => `${key}: ${shownValue(c.from)} → ${shownValue(c.to)}`);
    const line = make("li", {value: version.version}, `${version.at}, ${version.by}: ${changes.join("; ") || "start"} `);
    if (version.version !== config.version) {
      const back = make("button", {type: "button"}, `Back to version ${version.version}`);
      back.addEventListener("click", () => change({rollback: version.version}));
      line.append(back);
    }
    return line;
  }));
}

async function loadConfig() {
  try {
    config = await (await ask("/api/v1/config")).json();
    showConfig();
    $("config-state").textContent = "";
  } catch (error) {
    $("config-state").textContent = error.message;
  }
}

async function change(body) {
  try {
    const done = await (await ask("/api/v1/config", {...body, if_version: config.version})).json();
    const count = Object.keys(done.changed).length;
    const said = done.dry_run ? `Valid; ${count} would change.` : `Version ${done.version}; ${count} changed.`;
    if (!done.dry_run) await loadConfig();
    $("config-state").className = "";
    $("config-state").textContent = said;
  } catch (error) {
    $("config-state").className = "error";
    $("config-state").textContent = error.message;
  }
}

const edited = () => Object.fromEntries([...document.querySelectorAll("#settings .changed")].map((i) => [i.name, i.value]));

// ---- Start

async function start() {
  showTheme(localStorage.getItem("theme") ?? "system");
  $("theme").addEventListener("click", () => {
    const next = themes[(themes.indexOf(localStorage.getItem("theme") ?? "system") + 1) % themes.length];
    localStorage.setItem("theme", next);
    showTheme(next);
  });
  for (const name of tabs) {
    $(`tab-${name}`).addEventListener("click", () => showTab(name));
    $(`tab-${name}`).addEventListener("keydown", moveTab);
  }
  $("ask").addEventListener("submit", send);
  $("stop").addEventListener("click", () => running?.abort());
  $("clear").addEventListener("click", () => {
    conversation.length = 0;
    $("messages").replaceChildren();
  });
  $("message").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
  });
  $("key").value = sessionStorage.getItem("key") ?? "";
  $("key").addEventListener("change", () => {
    sessionStorage.setItem("key", $("key").value);
    showModel();
    showTab(shown);
  });
  for (const id of ["filter", "only-live"]) $(id).addEventListener("input", () => config && showConfig());
  $("config-form").addEventListener("submit", (event) => {
    event.preventDefault();
    change(edited());
  });
  $("check").addEventListener("click", () => change({...edited(), dry_run: true}));
  buildCharts();
  showModel();
  lookAtHealth();
  setInterval(() => {
    if (document.hidden) return;
    lookAtHealth();
    if (shown === "live") look();
  }, 1000);
}

async function showModel() {
  try {
    $("model").textContent = (await (await ask("/v1/models")).json()).data[0].id;
  } catch (error) {
    $("model").textContent = error.message;
  }
}

start();
