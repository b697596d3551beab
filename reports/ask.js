// The page to ask. Whatever it shows is an answer of /v1; the question is in the address.
const $ = (id) => document.getElementById(id);
const given = $("given") ? JSON.parse($("given").textContent) : null;
const NDJSON = "application/x-ndjson", GIB = 2 ** 30, SHOWN = 40;
// Elements: text is text, never HTML.
function el(tag, attributes = {}, ...children) {
  const made = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") Object.entries(value).forEach(([key, of]) => made.style.setProperty(key, of));
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}
const of = (tag, attributes = {}) => (...inside) => el(tag, attributes, ...inside);
const [p, small, li, h1, h2, bold] = ["p", "small", "li", "h1", "h2", "b"].map((tag) => of(tag));
const sub = of("p", { class: "sub" });
const unseen = of("span", { class: "unseen" });
const spinner = () => el("span", { class: "spin", "aria-hidden": "true" });
const button = (words, act) => el("button", { type: "button", class: "link", onclick: act }, words);
// Numbers as people read them.
const group = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
function figure(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "—";
  if (value === 0) return "0";
  if (Math.abs(value) >= 1000) return group.format(Number(value.toPrecision(digits)));
  return String(Number(value.toPrecision(digits)));
}
function compact(value) {
  if (value === null || value === undefined) return "—";
  for (const [least, of, unit] of [[1e12, 1e12, "T"], [1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"]])
    if (value >= least) return `${figure(value / of)} ${unit}`;
  return figure(value);
}
function time(seconds) {
  if (seconds === null || seconds === undefined) return "—";
  if (seconds < 1) return `${figure(1e3 * seconds)} ms`;
  if (seconds < 120) return `${figure(seconds)} s`;
  if (seconds < 3600) return `${figure(seconds / 60, seconds < 600 ? 2 : 3)} min`;
  return `${figure(seconds / 3600)} h`;
}
function dollars(value) {
  if (value === null || value === undefined) return "—";
  return value < 100 ? `$${value.toFixed(value < 0.1 ? 4 : 2)}` : `$${group.format(value)}`;
}
const hours = (seconds) => (seconds === null || seconds === undefined ? "—" : figure(seconds / 3600));
const gib = (bytes) => (bytes === null || bytes === undefined ? "—" : `${figure(bytes / GIB)} GiB`);
const percent = (share, digits = 2) => (share === null || share === undefined ? "—" : `${figure(100 * share, digits)} %`);
const chance = (share) => (share === null ? "—" : share <= 0 ? "0 %" : `≤ ${figure(100 * share, 2)} %`);
const nodesOf = (way) => way.nodes.replace(/@[^ +]+| (on demand|spot)$/g, "").replace(/(^|\+ )(\d+) /g, "$1$2 × ");
function amountOf(text) {
  const found = /^([\d.,\s_]+)\s*(k|thousand|m|million|b|bn|billion)?$/i.exec(text.trim());
  if (!found) return NaN;
  const scale = { k: 1e3, t: 1e3, m: 1e6, b: 1e9 }[(found[2] ?? " ")[0].toLowerCase()] ?? 1;
  return Number(found[1].replace(/[,\s_]/g, "")) * scale;
}
// Asking: the token is asked once and goes in a header; an answer that takes long tells its progress.
class Refused extends Error {}
async function call(path, { body, signal, accept = "application/json", say } = {}) {
  const headers = { Accept: accept };
  const token = sessionStorage.getItem("stepcast-token");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const sent = { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal };
  const response = await fetch(path, sent).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Refused("The service does not answer. Is `stepcast serve` still running? Ask again when it is.");
  });
  if (response.status === 401) {
    await askToken(Boolean(token));
    return call(path, { body, signal, accept, say });
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new Refused(told.detail ?? `The service answered ${response.status}.`);
  }
  if (accept !== NDJSON) return accept === "text/html" ? response.blob() : response.json();
  return lastLine(response, say);
}
async function lastLine(response, say) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "", part;
  do {
    part = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      return { done: true };
    });
    const lines = (text + (part.value ?? "")).split("\n");
    text = lines.pop();
    for (const line of lines.filter((each) => each.trim())) {
      const { progress, answer, detail } = JSON.parse(line);
      if (detail) throw new Refused(detail);
      if (answer) return answer;
      say?.(progress);
    }
  } while (!part.done);
  throw new Refused("The service ended before it could answer. Ask again when it is back.");
}
let asking = null;
function askToken(wasWrong) {
  asking ??= new Promise((resolve) => {
    const dialog = $("ask-token");
    $("token-fault").hidden = !wasWrong;
    $("token").value = "";
    dialog.showModal();
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("stepcast-token", $("token").value.trim());
      asking = null;
      resolve();
    }, { once: true });
  });
  return asking;
}
function tell(text) {
  $("told").textContent = text;
  $("told").hidden = false;
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => ($("told").hidden = true), 4000);
}
function fault(error, place = $("fault")) {
  place.hidden = false;
  place.replaceChildren(p(error instanceof Refused ? error.message : `The page failed: ${error.message}`));
  if (!(error instanceof Refused)) console.error(error);
}
async function fill(place, words, make) {
  place.replaceChildren(el("p", { role: "status" }, spinner(), words));
  try {
    place.replaceChildren(...(await make()));
  } catch (error) {
    fault(error, place);
  }
}
// The question: fields of the form, which are those of the address.
const state = { support: null, types: [], answers: [], config: null, open: null, compared: new Set() };
let shown = null; // of the answer: all its ways, the choice, words of a sample, the question
const form = $("question"), sortBy = { column: "cost", down: false };
const fields = () => [...new Set([...form.elements].map((each) => each.name).filter(Boolean))];
const value = (name) => form.elements[name]?.value.trim() ?? "";
const number = (name) => (value(name) === "" ? undefined : Number(value(name)));
function readAddress() {
  const asked = new URLSearchParams(location.search);
  for (const name of fields()) if (form.elements[name]) form.elements[name].value = asked.get(name) ?? "";
  if (!value("unit")) form.elements.unit.value = "samples";
  sortBy.column = asked.get("sort")?.replace("-", "") || "cost";
  sortBy.down = asked.get("sort")?.startsWith("-") ?? false;
  state.open = asked.get("open");
  shape();
}
function address() {
  const asked = new URLSearchParams();
  for (const name of fields()) if (value(name) && !(name === "unit" && value(name) === "samples")) asked.set(name, value(name));
  if (sortBy.column !== "cost" || sortBy.down) asked.set("sort", (sortBy.down ? "-" : "") + sortBy.column);
  if (state.open) asked.set("open", state.open);
  return `?${asked}`.replaceAll("%3A", ":").replaceAll("%2C", ",");
}
// Fields show where they say something: words of texts, pixels of images, ranks of adapters.
function shape() {
  const isText = state.config !== null || value("dnn").startsWith("hf:");
  const show = (name, shown) => form.querySelectorAll(`[data-field="${name}"]`).forEach((each) => (each.hidden = !shown));
  show("sequence_length", isText);
  show("image_size", !isText);
  for (const name of ["trained", "checkpoint_activations"]) show(name, isText);
  $("of-lora").hidden = !isText || value("trained") !== "lora";
  show("dataset_samples", value("unit") === "epochs");
  form.elements.unit.options[1].disabled = !isText;
}
function bodies() {
  const body = {};
  if (state.config) body.config = state.config;
  else if (value("dnn")) body.dnn = value("dnn");
  else throw new Refused("Which network is trained? Name one of the list, a type as hf:llama, or drop a config.json.");
  const isText = state.config !== null || value("dnn").startsWith("hf:");
  for (const name of ["accumulate", isText ? "sequence_length" : "image_size", "max_hours", "budget_usd"])
    body[name] = number(name);
  if (!isText && !value("dnn").includes(":")) body.image_size ??= 224;
  for (const name of ["precision", "optimizer", "minimize"]) body[name] = value(name) || undefined;
  if (isText && value("trained") === "lora") {
    body.lora = number("lora") ?? 16;
    body.lora_targets = value("lora_targets") || undefined;
  }
  for (const name of ["compiled", "checkpoint_activations"]) if (value(name) === "true") body[name] = true;
  if (value("late_percent")) body.late = number("late_percent") / 100;
  const amount = amountOf(value("amount") || "");
  if (!(amount > 0)) throw new Refused("How long is the job? Say how many samples, tokens or epochs it trains, such as 10 million.");
  if (value("unit") === "epochs") {
    if (!number("dataset_samples")) throw new Refused("How many samples has an epoch?");
    Object.assign(body, { epochs: amount, dataset_samples: number("dataset_samples") });
  } else body.samples = Math.ceil(value("unit") === "tokens" ? amount / (body.sequence_length ?? 128) : amount);
  for (const name of ["market", "region"]) body[name] = value(name) || undefined;
  const types = wanted();
  if (types) {
    if (!types.length) throw new Refused("No node type has such GPUs at such a price. Take away a filter.");
    body.capacity = Object.fromEntries(types.map((name) => [name, number("max_nodes") ?? 64]));
    body.market ??= "any";
  } else body.max_nodes = number("max_nodes");
  const batches = (value("batch_size") || "8").split(",").map((text) => Number(text.trim()));
  if (batches.some((batch) => !(batch >= 1))) throw new Refused("Batch per GPU: expected a number, or several as 4,8,16.");
  return batches.map((batch_size) => JSON.parse(JSON.stringify({ ...body, batch_size })));
}
// Node types that the filters leave; null: no filter is set.
function wanted() {
  const links = value("links");
  if (!value("gpu") && !number("gpu_gib") && !number("node_usd") && !links) return null;
  return state.types
    .filter((type) => type.gpu && type.is_observed && type.evidence)
    .filter((type) => !value("gpu") || type.gpu === value("gpu"))
    .filter((type) => !number("gpu_gib") || type.gpu_memory_gib >= number("gpu_gib"))
    .filter((type) => !number("node_usd") || type.usd_per_hour <= number("node_usd"))
    .filter((type) => !["nvlink", "both"].includes(links) || /^NV/.test(type.gpu_link ?? ""))
    .filter((type) => !["efa", "both"].includes(links) || type.efa)
    .map((type) => type.node_type);
}
let running = null, ready = null;
async function ask() {
  running?.abort();
  const mine = (running = new AbortController());
  $("fault").hidden = true;
  working("Asking", mine);
  const say = (text) => mine === running && working(text, mine);
  try {
    const options = { signal: mine.signal, accept: NDJSON, say };
    const answer = (body) => call("v1/recommendations?refused=false", { body, ...options });
    const answers = await Promise.all(bodies().map(async (body) => ({ body, answer: await answer(body) })));
    if (mine !== running) return;
    state.answers = answers;
    state.compared.clear();
    draw();
    if (innerWidth < 900) $("said").scrollIntoView();
  } catch (error) {
    if (error.name === "AbortError" || mine !== running) return;
    $("answer").replaceChildren();
    fault(error);
  } finally {
    if (mine === running) working(null);
  }
}
function working(text, control) {
  $("answer").classList.toggle("stale", text !== null);
  if (text === null) return $("status").replaceChildren();
  const stop = () => {
    control.abort();
    working(null);
    tell("Cancelled: the service has stopped.");
  };
  $("status").replaceChildren(spinner(), `${text} … `, button("Cancel", stop));
}
// The answer: headline, plot, cards, table; a row opens.
function draw() {
  const { answer, body } = state.answers[0], by = body.minimize === "time" ? "time_s" : "cost_usd";
  const all = state.answers.flatMap(({ answer, body }, place) =>
    answer.candidates.map((way) => ({ ...way, answer, body, id: `${place}:${way.key}`, batch: body.batch_size })));
  const best = ordered(all.filter((way) => way.key === way.answer.choice?.key), (way) => way[by].value)[0] ?? null;
  const crowded = state.answers.flatMap((each) => each.answer.out_of_memory);
  shown = { all, best, body, crowded, words: answer.question.sequence_length };
  const missing = state.answers.reduce((sum, each) => sum + each.answer.coverage.asked - each.answer.coverage.forecast, 0);
  about(answer);
  const parts = [headline(missing, answer)];
  if (all.length) {
    const figureBox = el("div", { class: "plot-box" });
    parts.push(el("div", { class: "first-row" }, el("div", {}, figureBox, crowded.length > 0 && sub("Crosses lack memory.")), cards(best, answer)), el("div", { id: "side-by-side" }), table());
    drawWhenSized(figureBox, front);
  }
  $("answer").replaceChildren(...[...parts, missing && withoutForecast(), tools()].filter(Boolean));
  if (all.length) sideBySide();
}
function about(answer) {
  const day = answer.prices.map((price) => price.observed_at).sort().at(-1)?.slice(0, 10);
  const region = answer.prices.find((price) => price.region)?.region;
  $("about").textContent = [region && `prices of ${region}`, day && `of ${day}`].filter(Boolean).join(" ");
}
function headline(missing, answer) {
  const { all, best, body } = shown;
  const none = missing ? ` ${group.format(missing)} ways have no forecast.` : "";
  if (!best) {
    const relaxed = state.answers.flatMap((each) => each.answer.relaxations);
    return el("div", {}, h1("No way keeps these limits"),
      sub(`${group.format(all.length)} ways have a forecast.${none} What would do:`),
      el("ul", {}, relaxed.map((line) => li(line))));
  }
  const kept = all.filter((way) => way.keeps_limits).length;
  const limits = [body.max_hours && `${figure(body.max_hours)} hours`, body.budget_usd && dollars(body.budget_usd)].filter(Boolean);
  const least = body.minimize === "time" ? "The least time" : "The least money";
  return el("div", {},
    h1(`Rent ${nodesOf(best)}: ${time(best.time_s.value)}, ${dollars(best.cost_usd.value)}`,
      state.answers.length > 1 ? `, batch ${best.batch}` : ""),
    sub(`${least} of ${group.format(kept)} ways`,
      limits.length ? ` that keep ${limits.join(" and ")}` : "", `.${none}`,
      best.past_errors ? ` Such forecasts were off: ${best.past_errors}.` : " Nobody has judged such forecasts."),
    answer.cautions.map((line) => el("p", { class: "warning" }, line)));
}
// Which limit may be broken: the deadline, else the budget.
function risk() {
  const { max_hours, budget_usd } = state.answers[0].body;
  return budget_usd && !max_hours ? { title: "P(over budget)", field: "over_budget_at_most" } : { title: "P(late)", field: "late_at_most" };
}
function cards(best, answer) {
  const card = (title, main, ...under) => el("div", { class: "card" }, h2(title), el("p", { class: "big" }, main), ...under);
  const made = [];
  if (best) {
    const { low, high } = best.time_s;
    made.push(card(risk().title, chance(best[risk().field]),
      p(high === null ? "Nothing says how long it may take." : `9 of 10 such jobs end within ${time(low)} to ${time(high)}.`)));
    if (best.memory_bytes) made.push(card("Memory of a GPU", `${figure(best.needed_bytes / GIB)} of ${gib(best.memory_bytes)}`, memoryBar(best)));
  }
  const measure = answer.measurements[0];
  if (measure) made.push(card("What would change it", `${figure(measure.minutes, 2)} min, ${dollars(measure.usd)}`,
    p(`Measuring ${nodesOf(measure)} changes the choice with ${percent(measure.changes_the_choice)}`,
      answer.question.minimize === "cost" ? `, and saves ${dollars(measure.saving)} in the mean.` : ".")));
  return el("div", { class: "cards" }, made);
}
const forecastOf = (way) => way.forecast ?? way.answer.forecasts.find((each) => each.scenario_id === way.scenario_id && each.system === way.system);
function bar(parts, whole, label) {
  const used = parts.filter(([, of]) => of > 0);
  return el("div", { class: "bar", role: "img", "aria-label": `${label}: ${used.map(([name, of]) => `${name} ${percent(of / whole)}`).join(", ")}` },
    used.map(([name, of, colour]) => el("span", { title: `${name}: ${percent(of / whole)}`,
      style: { width: `${(100 * of) / whole}%`, background: `var(--${colour})` } })));
}
function memoryBar(way) {
  const of = forecastOf(way)?.detail?.memory_parts;
  const parts = of ? [["weights, gradients, state", of.standing_bytes, "blue"], ["activations", of.activation_bytes, "orange"],
    ["context and reserve", Math.max(way.needed_bytes - of.standing_bytes - of.activation_bytes, 0), "grey"]] : [["needed", way.needed_bytes, "blue"]];
  return [bar(parts, Math.max(way.memory_bytes, way.needed_bytes), "Memory"),
    key(parts, (name, of) => `${name} ${gib(of)}`)];
}
function drawWhenSized(box, make) {
  let last = 0;
  new ResizeObserver(([{ contentRect }]) => {
    const width = Math.round(contentRect.width);
    if (width && width !== last) box.replaceChildren(make((last = width)));
  }).observe(box);
}
const tip = (points, x, y, title) =>
  Plot.tip(points, Plot.pointer({ x, y, title, fill: colour("paper"), stroke: colour("line"), textPadding: 10 }));
const key = (parts, words) =>
  el("ul", { class: "key" }, parts.map(([name, of, shade]) => li(el("i", { style: { background: `var(--${shade})` } }), words(name, of))));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
function plot(options, label) {
  const made = Plot.plot({ className: "plot", style: { fontSize: "12px", background: "none", color: colour("soft") }, ariaLabel: label, ...options });
  made.setAttribute("role", "img");
  for (const part of made.querySelectorAll("g[aria-label]")) part.removeAttribute("aria-label"); // the whole is named
  return made;
}
function ticksOf(low, high) {
  const made = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const step of [1, 2, 5]) made.push(step * 10 ** power);
  const inside = made.filter((tick) => tick >= low && tick <= high);
  return inside.length > 9 ? inside.filter((tick) => /^[15]/.test(tick.toExponential())) : inside;
}
// Axes with a tick at each of 1, 2 and 5, and a label at each tick.
function logAxes(x, y) {
  const known = (of) => ({ ...of, ticks: of.ticks ?? ticksOf(...of.domain) });
  const [across, up] = [known(x), known(y)];
  const axis = ({ ticks, format, label }) => [ticks, { text: format, label, tickSize: 4, color: colour("soft") }];
  const scale = ({ domain, base }) => ({ type: "log", domain, base });
  const stroke = { stroke: colour("line"), strokeOpacity: 1 };
  return { x: scale(across), y: scale(up), marks: [Plot.gridX(across.ticks, stroke), Plot.gridY(up.ticks, stroke),
    Plot.axisX(...axis(across)), Plot.axisY(...axis(up))] };
}
const outOfMemory = (way) => `out of memory: needs ${gib(way.needed_bytes)} of ${gib(way.memory_bytes)}; ${
  way.largest_batch_size ? `a batch of about ${way.largest_batch_size} fits` : "no batch fits"}`;
function front(width) {
  const { all, best, body } = shown;
  const crowded = shown.crowded.filter((way) => way.time_s && way.cost_usd).map((way) => ({ crowded: way, x: way.time_s / 3600, y: way.cost_usd }));
  const fronts = new Set(state.answers.flatMap(({ answer }, place) => answer.front.map((key) => `${place}:${key}`)));
  const point = all.map((way) => ({ way, x: way.time_s.value / 3600, y: way.cost_usd.value, low: (way.time_s.low ?? way.time_s.value) / 3600,
    high: (way.time_s.high ?? way.time_s.value) / 3600, bottom: way.cost_usd.low ?? way.cost_usd.value, top: way.cost_usd.high ?? way.cost_usd.value }));
  let least = Infinity;
  const onFront = point.filter(({ way }) => fronts.has(way.id)).sort((a, b) => a.x - b.x)
    .filter(({ y }) => (state.answers.length === 1 || y < least) && ((least = Math.min(least, y)), true));
  const marked = point.filter(({ way }) => way === best || way.id === state.open || state.compared.has(way.id));
  const each = [...point, ...crowded], xs = each.map(({ x }) => x), ys = each.map(({ y }) => y);
  const x = [0.8 * Math.min(...xs, body.max_hours ?? Infinity), 1.25 * Math.max(...xs, body.max_hours ?? 0)];
  const y = [0.8 * Math.min(...ys, ...marked.map(({ bottom }) => bottom), body.budget_usd ?? Infinity), 1.25 * Math.max(...ys, body.budget_usd ?? 0)];
  const hint = ({ way, crowded: lacks }) => lacks ? `${lacks.workers} × ${lacks.node_type}\n${outOfMemory(lacks).replace("; ", "\n")}` : [`${nodesOf(way)}${way.market === "spot" ? ", spot" : ""}`, `${time(way.time_s.value)} (${time(way.time_s.low)} to ${time(way.time_s.high)})`,
    `${dollars(way.cost_usd.value)} (${dollars(way.cost_usd.low)} to ${dollars(way.cost_usd.high)})`, way.keeps_limits ? "keeps the limits" : "breaks a limit"].join("\n");
  const ticks = ticksOf(...x).filter((at) => width > 560 || /^1/.test(at.toExponential()));
  const axes = logAxes({ domain: x, ticks, format: (at) => time(3600 * at), label: "time of the job →" },
    { domain: y, format: (at) => (at < 1 ? dollars(at) : `$${group.format(at)}`), label: "↑ dollars" });
  const made = plot({
    width, height: Math.max(300, Math.min(440, width * 0.55)), marginLeft: 56, marginBottom: 40, marginTop: 26, ...axes,
    marks: [
      axes.marks,
      Plot.dot(crowded, { x: "x", y: "y", r: 3, symbol: "times", stroke: colour("grey"), strokeOpacity: 0.6 }),
      Plot.dot(point, { x: "x", y: "y", r: 2.6, fill: colour("grey"), fillOpacity: ({ way }) => (way.keeps_limits ? 0.6 : 0.28) }),
      Plot.line(onFront, { x: "x", y: "y", stroke: colour("blue"), strokeWidth: 1.6 }),
      Plot.dot(onFront, { x: "x", y: "y", r: 3.6, fill: colour("blue") }),
      body.max_hours ? [Plot.ruleX([body.max_hours], { stroke: colour("orange"), strokeDasharray: "5 4" }),
        Plot.text([body.max_hours], { x: (at) => at, frameAnchor: "top", dy: -14, text: (at) => `deadline ${figure(at)} h`, fill: colour("soft"), textAnchor: "end" })] : null,
      body.budget_usd ? [Plot.ruleY([body.budget_usd], { stroke: colour("orange"), strokeDasharray: "5 4" }),
        Plot.text([body.budget_usd], { y: (at) => at, frameAnchor: "right", dy: -8, text: (at) => `budget ${dollars(at)}`, fill: colour("soft"), textAnchor: "end" })] : null,
      Plot.ruleY(marked, { y: "y", x1: "low", x2: "high", stroke: colour("orange"), strokeWidth: 1.5 }),
      Plot.ruleX(marked, { x: "x", y1: "bottom", y2: "top", stroke: colour("orange"), strokeWidth: 1.5 }),
      Plot.dot(marked, { x: "x", y: "y", r: 6, fill: colour("orange") }),
      ["start", "end"].map((textAnchor) => Plot.text(marked.filter((at) => (at.x > Math.sqrt(x[0] * x[1])) === (textAnchor === "end")), { x: "x", y: "y", textAnchor,
        text: ({ way }) => nodesOf(way), dy: 14, dx: textAnchor === "end" ? -8 : 8, fontWeight: 650, fontSize: 13, fill: colour("ink"), stroke: colour("paper"), strokeWidth: 4 })),
      tip(each, "x", "y", hint),
    ],
  }, `Dollars against time of ${all.length} ways to run the job${best ? `; the choice is ${nodesOf(best)}` : ""}${crowded.length ? `; crosses: ${crowded.length} lack memory` : ""}. The table has the same figures.`);
  made.addEventListener("click", () => made.value?.way && openWay(made.value.way.id));
  return made;
}
// The table: any column sorts; a row opens; two or three are compared.
function columns() {
  const { words } = shown, per = words || 1;
  return [
    ["nodes", "nodes", (way) => nodesOf(way), (way) => [bold(nodesOf(way)), small([way.device, way.market === "spot" && "spot"].filter(Boolean).join(", "))]],
    state.answers.length > 1 && ["batch", "batch", (way) => way.batch, (way) => figure(way.batch)],
    ["time", "hours", (way) => way.time_s.value, (way) => [hours(way.time_s.value), small(`${hours(way.time_s.low)}–${hours(way.time_s.high)}`)]],
    ["cost", "dollars", (way) => way.cost_usd.value, (way) => [dollars(way.cost_usd.value), small(`${dollars(way.cost_usd.low)}–${dollars(way.cost_usd.high)}`)]],
    ["speed", words ? "tokens/s" : "samples/s", (way) => way.samples_per_s * per, (way) => [compact(way.samples_per_s * per),
      small(`${dollars((1e6 * way.usd_per_hour) / 3600 / (way.samples_per_s * per))}/10⁶`)]],
    ["step", "step", (way) => way.step_s, (way) => time(way.step_s)],
    ["memory", "memory", (way) => (way.memory_bytes ? way.needed_bytes / way.memory_bytes : null), (way) => way.memory_bytes ? [
      bar([["needed", way.needed_bytes, "blue"]], way.memory_bytes, "Memory"), small(`${figure(way.needed_bytes / GIB, 2)} of ${figure(way.memory_bytes / GIB, 2)} GiB`)] : "—"],
    ["binds", "binds", (way) => way.binds ?? "", (way) => (way.binds ?? "—").replace("gpu", "GPU")],
    ["late", risk().title, (way) => way[risk().field], (way) => chance(way[risk().field])],
    ["past", "past error", (way) => way.past_error_percent, (way) => way.past_error_n
      ? [`±${figure(way.past_error_percent, 2)} %`, el("small", { title: way.past_error_of }, `n = ${way.past_error_n}`)] : "—"],
    ["stands", "stands on", (way) => way.stands_on, (way) => el("span", { class: `chip ${way.stands_on === "data sheet" ? "" : "public"}` }, way.stands_on)],
  ].filter(Boolean);
}
const NUMBERS = new Set(["batch", "time", "cost", "speed", "step", "late", "past"]);
function ordered(rows, of, down) {
  const isKnown = (row) => of(row) !== null && of(row) !== undefined;
  const text = (a, b) => String(a).localeCompare(String(b), "en", { numeric: true });
  const compare = (a, b) => (typeof a === "number" ? a - b : text(a, b));
  const known = rows.filter(isKnown).sort((a, b) => (down ? -1 : 1) * compare(of(a), of(b)));
  return [...known, ...rows.filter((row) => !isKnown(row))];
}
function table() {
  const { all, best } = shown, cols = columns();
  const [, , sortedBy] = cols.find(([name]) => name === sortBy.column) ?? cols[0];
  const rows = ordered(all, sortedBy, sortBy.down), openAt = rows.findIndex((way) => way.id === state.open);
  let most = Math.max(SHOWN, openAt + 1);
  const sortOn = (name) => {
    sortBy.down = sortBy.column === name ? !sortBy.down : false;
    sortBy.column = name;
    if (!given) history.replaceState(null, "", address());
    $("ways").replaceWith(table());
    document.querySelector(`[data-sort="${name}"]`)?.focus();
  };
  const head = cols.map(([name, title]) => el("th", { scope: "col", class: NUMBERS.has(name) ? "n" : "",
    "aria-sort": sortBy.column === name ? (sortBy.down ? "descending" : "ascending") : null },
  el("button", { type: "button", "data-sort": name, onclick: () => sortOn(name) }, title)));
  const rowOf = (way) => {
    const id = `row-${way.id.replace(/\W/g, "-")}`, isOpen = way.id === state.open;
    const first = el("button", { type: "button", class: "opens", "aria-expanded": String(isOpen), "aria-controls": id, onclick: () => openWay(way.id) });
    const cells = cols.map(([name, title, , cell], place) => {
      const inside = cell(way);
      if (place === 0) first.append(...[inside].flat());
      return el("td", { class: NUMBERS.has(name) ? "n" : "", "data-label": title }, place === 0 ? first : inside);
    });
    const compare = el("td", { class: "pick" }, el("label", {}, el("input", { type: "checkbox", checked: state.compared.has(way.id),
      onchange: (event) => pick(event.target, way.id) }), unseen(`Compare ${nodesOf(way)}`)));
    const row = el("tr", { class: [way.id === best?.id && "chosen", !way.keeps_limits && "breaks"].filter(Boolean).join(" "), "data-id": way.id }, compare, cells);
    const under = el("tr", { class: "under", id, hidden: !isOpen }, el("td", { colspan: cols.length + 1 }));
    if (isOpen) detailInto(under.firstChild, way);
    return [row, under];
  };
  const lacking = shown.crowded.map((way) => el("tr", { class: "oom" }, el("td"), el("td", { "data-label": "nodes" }, `${way.workers} × ${way.node_type}`),
    el("td", { colspan: cols.length - 1 }, outOfMemory(way))));
  const tbody = el("tbody", {}, rows.slice(0, most).map(rowOf), rows.length <= most ? lacking : []);
  const more = rows.length > most && el("button", { type: "button", class: "link", onclick: (event) => {
    tbody.append(...rows.slice(most).flatMap(rowOf), ...lacking);
    event.target.remove();
  } }, `Show all ${group.format(rows.length)} ways`, lacking.length ? ` and ${lacking.length} that lack memory` : "");
  return el("section", { id: "ways", class: state.answers.length > 1 ? "several" : null, "aria-label": "Ways to run the job" },
    el("label", { class: "sort-small" }, "Sort by ", el("select", { onchange: (event) => { sortBy.column = ""; sortOn(event.target.value); } },
      cols.map(([name, title]) => el("option", { value: name, selected: name === sortBy.column }, title)))),
    el("table", { class: "ways" }, el("thead", {}, el("tr", {}, el("td", { class: "pick" }, unseen("compare")), head)), tbody), more || null);
}
function openWay(id) {
  state.open = state.open === id ? null : id;
  if (!given) history.replaceState(null, "", address());
  $("ways").replaceWith(table());
  const box = document.querySelector(".plot-box");
  box.replaceChildren(front(Math.round(box.clientWidth)));
  document.querySelector(`tr[data-id="${CSS.escape(id)}"] .opens`)?.focus();
}
function pick(input, id) {
  if (input.checked && state.compared.size === 3) {
    input.checked = false;
    return tell("Three rows are compared at most.");
  }
  input.checked ? state.compared.add(id) : state.compared.delete(id);
  sideBySide();
}
function sideBySide() {
  const chosen = shown.all.filter((way) => state.compared.has(way.id));
  if (chosen.length < 2) return $("side-by-side").replaceChildren(chosen.length ? sub("Pick another row to compare.") : "");
  $("side-by-side").replaceChildren(el("table", { class: "compare" }, el("caption", {}, "Side by side"),
    el("thead", {}, el("tr", {}, el("td"), chosen.map((way) => el("th", { scope: "col" }, nodesOf(way))))),
    el("tbody", {}, columns().slice(1).map(([, title, , cell]) => el("tr", {}, el("th", { scope: "row" }, title), chosen.map((way) => el("td", {}, cell(way))))))));
}
// What a row opens to.
async function detailInto(place, way) {
  const box = el("div", { class: "detail" });
  place.replaceChildren(box);
  await fill(box, "Reading what this forecast consists of …", async () => {
    if (!forecastOf(way) && !given) way.forecast = await fetchForecast(way);
    const forecast = forecastOf(way), detail = forecast?.detail;
    return [detail && stepPanel(detail), detail && rooflinePanel(detail),
      way.memory_bytes && panel("Memory of a GPU", memoryBar(way)), scalingPanel(way),
      nearestPanel(way, forecast), measurePanel(way)].filter(Boolean);
  });
}
async function fetchForecast(way) {
  const [, strategy] = way.training.split(" "), devices_per_node = Math.max(1, Math.round((way.gpus ?? way.workers) / way.workers));
  const { samples, epochs, dataset_samples, max_hours, budget_usd, late, market, capacity, max_nodes, minimize, ...rest } = way.body;
  const several = strategy === "single" ? {} : { workers: way.workers, devices_per_node };
  const answer = await call("v1/forecasts", { body: { ...rest, worker: way.node_type, strategy, ...several } });
  return answer.forecasts.find((each) => each.scenario_id === way.scenario_id && each.system === way.system);
}
const panel = (title, ...inside) => el("section", { class: "panel" }, el("h3", {}, title), inside);
const COLOURS = ["blue", "orange", "teal", "violet", "yellow", "green", "pink", "red"];
function stepPanel(detail) {
  const spent = detail.costliest.map((each, place) => [each.operator, each.gpu_s, COLOURS[place % COLOURS.length]]);
  const rest = detail.gpu_s - spent.reduce((sum, [, of]) => sum + of, 0);
  const parts = [...spent, ["other operators", Math.max(rest, 0), "grey"]];
  const lines = [`GPU ${time(detail.gpu_s)}, host ${time(detail.host_s)}: the ${detail.binds === "host" ? "GPU waits for the host" : detail.binds === "exchange" ? "exchange binds" : "GPU binds"}`,
    detail.waits_s > 0.005 * detail.alone_s && `waits for values ${time(detail.waits_s)}`,
    detail.exchange_s && `exchange of ${detail.gpus} GPUs ${time(detail.exchange_s)}, scaling ${percent(detail.alone_s / detail.step_s)}`,
    `model FLOPs used: ${percent(detail.product_flops / detail.step_s / detail.peak_flops_per_s)} of the peak (MFU)`,
    detail.unknown_share > 0 && `operators that nobody timed: ${percent(detail.unknown_share)}`].filter(Boolean);
  return panel("Where a step goes", bar(parts, detail.gpu_s, "GPU time"),
    key(parts, (name, of) => `${name} ${percent(of / detail.gpu_s)}`),
    lines.map((line) => p(line)));
}
function rooflinePanel(detail) {
  const points = detail.costliest.filter((each) => each.flops > 0 && each.bytes > 0 && each.gpu_s > 0)
    .map((each) => ({ ...each, x: each.flops / each.bytes, y: each.flops / each.gpu_s / 1e12 }));
  if (!points.length || !detail.peak_Bps) return null;
  const peak = detail.peak_flops_per_s / 1e12, bend = detail.peak_flops_per_s / detail.peak_Bps;
  const x = [Math.min(...points.map((each) => each.x), bend) / 3, Math.max(...points.map((each) => each.x), bend) * 3];
  const roof = [[x[0], (x[0] * detail.peak_Bps) / 1e12], [bend, peak], [x[1], peak]];
  const box = el("div", { class: "small-plot" });
  const y = [Math.min(...points.map((each) => each.y)) / 2, peak * 1.6];
  const axes = logAxes({ domain: x, format: (at) => figure(at), label: "FLOP a byte →" }, { domain: y, format: (at) => figure(at), label: "↑ TFLOP/s" });
  drawWhenSized(box, (width) => plot({ width, height: 220, marginLeft: 46, marginBottom: 42, clip: true, x: axes.x, y: axes.y,
    marks: [axes.marks, Plot.line(roof, { stroke: colour("orange"), strokeWidth: 1.6 }), Plot.dot(points, { x: "x", y: "y", r: (each) => each.gpu_s, fill: colour("blue"), fillOpacity: 0.75 }),
      Plot.text(points, { x: "x", y: "y", text: "operator", dy: -11, fill: colour("ink"), fontSize: 11 })] },
  `Roofline: ${points.map((each) => `${each.operator} ${figure(each.y)} TFLOP/s`).join(", ")}; peak ${figure(peak)} TFLOP/s`));
  return panel("Roofline of its operators", box);
}
function scalingPanel(way) {
  const { all, words } = shown;
  const same = all.filter((each) => each.node_type === way.node_type && each.market === way.market && each.batch === way.batch).sort((a, b) => a.workers - b.workers);
  if (same.length < 2) return null;
  const per = words || 1, points = same.map((each) => ({ x: each.workers, y: each.samples_per_s * per, way: each }));
  const ideal = points.map(({ x }) => ({ x, y: (points[0].y / points[0].x) * x }));
  const box = el("div", { class: "small-plot" });
  const top = Math.max(...points.map((each) => each.y)), low = Math.min(...points.map((each) => each.y));
  const axes = logAxes({ domain: [1, points.at(-1).x], base: 2, ticks: [1, 2, 4, 8, 16, 32, 64, 128].filter((at) => at <= points.at(-1).x), format: String, label: "nodes →" },
    { domain: [low / 1.5, Math.max(top, ideal.at(-1).y) * 1.3], format: (at) => compact(at).replace(" ", ""), label: words ? "↑ tokens/s" : "↑ samples/s" });
  drawWhenSized(box, (width) => plot({ width, height: 220, marginLeft: 52, marginBottom: 42, x: axes.x, y: axes.y,
    marks: [axes.marks, Plot.line(ideal, { x: "x", y: "y", stroke: colour("grey"), strokeDasharray: "4 4" }), Plot.line(points, { x: "x", y: "y", stroke: colour("blue") }),
      Plot.dot(points, { x: "x", y: "y", r: 3.5, fill: (each) => (each.way.id === way.id ? colour("orange") : colour("blue")) }), tip(points, "x", "y", ({ x, y, way: each }) => `${x} nodes\n${compact(y)}/s\n${dollars(each.cost_usd.value)}`)] },
  `Speed of ${points.map(({ x, y }) => `${x} nodes ${compact(y)} a second`).join(", ")}`));
  return panel(`Scaling, ${way.node_type}`, box, p("Dashed: as if nothing were exchanged."));
}
function nearestPanel(way, forecast) {
  const past = way.past_error_n ? `±${figure(way.past_error_percent, 2)} %, n = ${way.past_error_n}: ${way.past_error_of}.` : way.past_errors;
  const near = forecast?.nearest ?? [], box = el("div", {});
  const list = (lines) => el("ul", {}, lines.slice(0, 6).map((line) => li(line)));
  const nearLine = (each) => `${each.scenario}: ${figure(each.error_percent, 2)} % (distance ${figure(each.distance, 2)})`;
  if (near.length) box.append(list(near.map(nearLine)));
  else if (!given && way.device) box.append(button(`Past cases on ${way.device}`, () => fill(box, "Reading …", async () => {
    const isLike = (each) => each.precision === (way.answer.question.precision ?? "float32");
    const cases = (await covered()).cells.filter((cell) => [way.device, way.node_type].includes(cell.board))
      .flatMap((cell) => cell.cases.map((each) => ({ ...each, precision: cell.precision })))
      .sort((a, b) => isLike(b) - isLike(a));
    if (!cases.length) return [p(`Nobody has measured on ${way.device}.`)];
    return [list(cases.map((each) => `${each.label}, ${each.precision}: ${figure(each.error_percent, 2)} %`))];
  })));
  return panel("Past cases", past && p(past), box);
}
function measurePanel(way) {
  const known = way.answer.measurements.find((each) => each.key === way.key), command = way.measure_command;
  const price = known ? `${figure(known.minutes, 2)} minutes on it cost ${dollars(known.usd)}; the choice changes with ${percent(known.changes_the_choice)}.`
    : `Its nodes cost ${dollars(way.usd_per_hour)} an hour.`;
  return panel("Measure it", el("pre", {}, command), p(price), button("Copy", () => copy(command, "The command")));
}
function withoutForecast() {
  const reasons = state.answers.flatMap(({ answer, body }) => Object.entries(answer.without_forecast).map(([why, n]) =>
    `${group.format(n)}${state.answers.length > 1 ? ` of batch ${body.batch_size}` : ""}: ${why}`));
  return reasons.length > 0 && el("details", {}, el("summary", {}, "Why ways have no forecast"), el("ul", {}, reasons.slice(0, 12).map((line) => li(line))));
}
// Copies and files.
async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    tell(`${what} is copied.`);
  } catch {
    const box = el("textarea", { readonly: true, "aria-label": what }, text);
    $("told").replaceChildren("Copy this: ", box);
    $("told").hidden = false;
    box.select();
  }
}
const quoted = (text) => (/^[\w.:,=@/+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
function commandOf(body) {
  const words = ["stepcast", "recommend"];
  for (const [name, of] of Object.entries(body)) {
    const option = `--${name.replaceAll("_", "-")}`;
    if (name === "config") words.push("--dnn", "hf:config.json");
    else if (name === "capacity") for (const [type, most] of Object.entries(of)) words.push(option, `${type}=${most}`);
    else if (of === true) words.push(option);
    else words.push(option, quoted(String(of)));
  }
  return words.join(" ");
}
const curlOf = (body) => `curl ${new URL("v1/recommendations", location.href)} -H "Authorization: Bearer $STEPCAST_TOKEN" -H "Content-Type: application/json" -d ${quoted(JSON.stringify(body))}`;
function download(name, content, type) {
  const link = el("a", { href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function csv(rows) {
  const cell = (of) => (/[",\n]/.test(String(of ?? "")) ? `"${String(of).replaceAll('"', '""')}"` : String(of ?? ""));
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
function csvOf(all) {
  const plain = Object.keys(all[0]).filter((name) => all[0][name] === null || typeof all[0][name] !== "object");
  const spans = ["time_s", "cost_usd"];
  return csv([[...plain, ...spans.flatMap((name) => [name, `${name}_low`, `${name}_high`])],
    ...all.map((way) => [...plain.map((name) => way[name]), ...spans.flatMap((name) => [way[name].value, way[name].low, way[name].high])])]);
}
function tools() {
  const { all, body } = shown;
  const answers = state.answers.map((each) => each.answer), lines = (of) => state.answers.map((each) => of(each.body)).join("\n");
  const send = () => call("v1/recommendations?refused=false", { body, accept: "text/html" })
    .then((page) => download("stepcast.html", page)).catch((error) => fault(error));
  const json = () => JSON.stringify(answers.length > 1 ? answers : answers[0], null, 1);
  return el("p", { class: "tools" },
    !given && [button("Copy link", () => copy(location.href, "The link")), button("Copy as command", () => copy(lines(commandOf), "The command")),
      button("Copy as curl", () => copy(lines(curlOf), "The command"))],
    button("CSV", () => download("stepcast.csv", csvOf(all), "text/csv")), button("JSON", () => download("stepcast.json", json(), "application/json")),
    !given && button("One file to send", send));
}
// Coverage: kinds of networks by boards; a cell's colour is its error, its number how often it was judged.
let coverage = null;
const covered = () => (coverage ??= call("v1/coverage", { accept: NDJSON }).catch((error) => {
  coverage = null;
  throw error;
}));
const showCoverage = () => fill($("coverage"), "Reading what was judged. The first time it takes half a minute …", async () => {
  const { cells } = await covered();
  if (cells.length) return coverageOf(cells);
  return [h1("Nothing has been judged yet"),
    p("Run a study (`make demo`), or bring what others measured: `stepcast load public`.")];
});
function coverageOf(cells) {
  const asked = new URLSearchParams(location.search), systems = names(cells, "system");
  const known = (name) => (names(cells, name).includes(asked.get(name)) ? asked.get(name) : "");
  const usual = systems.includes("gpu_step") ? "gpu_step" : systems[0];
  const chosen = { system: known("system") || usual, precision: known("precision") };
  const grid = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Past errors" });
  const under = el("div", { "aria-live": "polite" });
  const head = (scope, text) => el("th", { scope }, text);
  const cellOf = (cases, kind, board) => {
    if (!cases.length) return el("td");
    const error = cases.reduce((sum, each) => sum + Math.abs(each.error_percent), 0) / cases.length;
    const shade = `${Math.round(8 + 62 * Math.min(error / 40, 1))}%`;
    const label = `${kind} on ${board}: ${figure(error, 2)} percent, n = ${cases.length}`;
    return el("td", { style: { "--shade": shade } },
      el("button", { type: "button", "aria-label": label, onclick: () => rowsOf(under, kind, board, cases) },
        bold(`${figure(error, 2)} %`), small(`n = ${cases.length}`)));
  };
  const redraw = () => {
    note("coverage", chosen);
    const shown = cells
      .filter((cell) => cell.system === chosen.system && (!chosen.precision || cell.precision === chosen.precision))
      .flatMap(({ cases, kind, board, precision }) => cases.map((each) => ({ ...each, kind, board, precision })));
    const boards = names(shown, "board");
    const row = (kind) => el("tr", {}, head("row", kind), boards.map((board) =>
      cellOf(shown.filter((each) => each.kind === kind && each.board === board), kind, board)));
    const about = `Mean absolute error of ${chosen.system}, percent; n judged cases. Blank: nobody measured.`;
    grid.replaceChildren(sub(about), el("table", { class: "heat", "aria-label": about },
      el("thead", {}, el("tr", {}, head("col", "kind of network"), boards.map((board) => head("col", board)))),
      el("tbody", {}, names(shown, "kind").map(row))));
    under.replaceChildren();
  };
  redraw();
  const select = (label, name, all) => selectOf(label, chosen, name, names(cells, name), all, redraw);
  return [h1("How wrong forecasts were, and where"),
    sub("Each case is a measured step, or passes, beside a forecast by a fit that had not seen its family or its board, ",
      "or beside one of a study's ledger."),
    el("div", { class: "filters" }, select("System", "system", false), select("Precision", "precision", true)), grid, under];
}
const names = (rows, name) => [...new Set(rows.map((row) => row[name] ?? "asked"))].sort();
const note = (view, chosen) =>
  history.replaceState(null, "", `?${new URLSearchParams(Object.entries({ view, ...chosen }).filter(([, of]) => of))}`);
function selectOf(label, chosen, name, options, all, redraw) {
  const pick = (event) => redraw((chosen[name] = event.target.value));
  const option = (of, words = of) => el("option", { value: of, selected: of === chosen[name] }, words);
  return el("label", {}, label, el("select", { onchange: pick }, all && option("", "all"), options.map((of) => option(of))));
}
function rowsOf(place, kind, board, cases) {
  const heads = ["case", "precision", "error, %", "forecast", "measured", "left out of the fit"];
  const fields = ["label", "precision", "error_percent", "forecast_s", "measured_s", "left_out"];
  place.replaceChildren(el("h2", { tabindex: "-1" }, `${kind} on ${board}`),
    rowsTable(heads, cases.map((each) => fields.map((name) => each[name])), { 2: figure, 3: time, 4: time }));
  place.firstChild.focus();
}
function textOf(of) {
  if (of === null || of === undefined) return "—";
  if (typeof of === "number") return Number.isInteger(of) ? String(of) : figure(of, 5);
  return typeof of === "object" ? JSON.stringify(of) : String(of);
}
function rowsTable(heads, rows, formats = {}) {
  const kinds = heads.map((_, at) => (rows.some((row) => typeof row[at] === "number") ? "n" : ""));
  const body = el("tbody"), order = { at: -1, down: false };
  const cell = (of, at) => el("td", { class: kinds[at] }, (formats[at] ?? textOf)(of));
  const show = (some) => body.replaceChildren(...some.slice(0, 500).map((row) => el("tr", {}, row.map(cell))));
  show(rows);
  const sort = (at, head) => {
    order.down = order.at === at && !order.down;
    order.at = at;
    show(ordered(rows, (row) => row[at], order.down));
    for (const each of head.parentElement.children) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
  };
  const head = (title, at) => el("th", { scope: "col", class: kinds[at] },
    el("button", { type: "button", onclick: (event) => sort(at, event.target.closest("th")) }, title));
  return el("div", {},
    el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Rows" },
      el("table", {}, el("thead", {}, el("tr", {}, heads.map(head))), body)),
    rows.length > 500 && sub(`And ${group.format(rows.length - 500)} more rows: CSV has them.`));
}
// History: measured beside forecast over time; ready queries, and SQL where it is allowed.
const showHistory = () => fill($("history"), "Reading the history …", async () => {
  const [judged, { queries }] = await Promise.all([call("v1/history/queries/judged_over_time"), call("v1/history/queries")]);
  const rows = judged.rows.map((row) => Object.fromEntries(judged.columns.map((name, at) => [name, row[at]])));
  return [h1("Measured beside forecast"), overTime(rows), h2("Ask the history"), queriesOf(queries)];
});
function overTime(rows) {
  if (!rows.length)
    return sub("No forecast of this history has been judged yet: `make demo` measures some, in ten minutes.");
  const asked = new URLSearchParams(location.search), said = sub(), box = el("div", { class: "plot-box" });
  const chosen = Object.fromEntries(["study", "node_type", "system"].map((name) => [name, asked.get(name) ?? ""]));
  const is = (row, name) => !chosen[name] || (row[name] ?? "asked") === chosen[name];
  const hint = (row) => `${row.label}\n${row.system}: ${figure(row.predicted)} forecast, ${figure(row.measured)} measured, ${row.unit}
error ${figure(row.error_percent, 2)} %`;
  const redraw = () => {
    note("history", chosen);
    const shown = rows.filter((row) => Object.keys(chosen).every((name) => is(row, name))).map((row) => ({ ...row, at: new Date(row.made_at) }));
    const mean = shown.reduce((sum, row) => sum + Math.abs(row.error_percent), 0) / (shown.length || 1);
    said.replaceChildren(`${group.format(shown.length)} judged forecasts, off by ${figure(mean, 2)} % in the mean.`);
    const holder = el("div");
    box.replaceChildren(holder);
    drawWhenSized(holder, (width) => plot({ width, height: 340, marginLeft: 50, marginBottom: 50, grid: true,
      x: { type: "utc", label: "forecast made →" }, y: { label: "↑ error, %", domain: [-60, 60], clamp: true },
      color: { domain: names(rows, "system"), range: COLOURS.map(colour) },
      marks: [Plot.ruleY([0], { stroke: colour("soft") }), tip(shown, "at", "error_percent", hint),
        Plot.dot(shown, { x: "at", y: "error_percent", stroke: "system", symbol: "system", r: 4 })] },
    `Errors of ${shown.length} judged forecasts over time`));
  };
  redraw();
  const select = (label, name) => selectOf(label, chosen, name, names(rows, name), true, redraw);
  return el("div", {}, el("div", { class: "filters" }, select("Study", "study"), select("Nodes, or member of the fleet", "node_type"), select("System", "system")), said, box,
    key(names(rows, "system").map((name, place) => [name, 0, COLOURS[place % COLOURS.length]]), (name) => name));
}
function queriesOf(queries) {
  const select = el("select", {}, queries.map((query) => el("option", { value: query.name }, query.name)));
  const about = el("div"), rows = el("div", { "aria-live": "polite" });
  const run = (asked, name) => fill(rows, "Reading …", async () => {
    const answer = await asked(), n = group.format(answer.rows.length);
    const file = () => download(`${name}.csv`, csv([answer.columns, ...answer.rows]), "text/csv");
    const more = answer.left_out ? ` and ${group.format(answer.left_out)} more` : "";
    return [el("p", { class: "tools" }, `${n} rows${more}`, button("CSV", file)),
      answer.rows.length > 0 && rowsTable(answer.columns, answer.rows)].filter(Boolean);
  });
  const describe = () => {
    const query = queries.find((each) => each.name === select.value);
    const inputs = query.params.map((name) => el("input", { name, placeholder: "all", autocomplete: "off" }));
    const ask = (event) => {
      event.preventDefault();
      const params = new URLSearchParams(inputs.filter((input) => input.value).map((input) => [input.name, input.value]));
      run(() => call(`v1/history/queries/${query.name}?${params}`), query.name);
    };
    about.replaceChildren(p(query.question),
      el("form", { class: "filters", onsubmit: ask }, inputs.map((input) => el("label", {}, input.name, input)),
        el("button", { class: "ask" }, "Run")),
      el("details", {}, el("summary", {}, "Its SQL"), el("pre", {}, query.sql)));
  };
  select.addEventListener("change", describe);
  describe();
  const free = el("textarea", { rows: 4, "aria-label": "SQL", spellcheck: "false" },
    "SELECT label, predicted, measured FROM report.accuracy LIMIT 100");
  const runFree = () => run(() => call("v1/history/sql", { body: { sql: free.value } }), "rows");
  return el("div", {}, el("div", { class: "filters" }, el("label", {}, "Query", select)), about,
    state.support?.sql && [el("h3", {}, "SQL of your own"), free,
      el("button", { type: "button", class: "ask", onclick: runFree }, "Run")], rows);
}
// Where things begin.
function show(view) {
  for (const each of document.querySelectorAll("[data-of]")) each.hidden = each.dataset.of !== view;
  for (const link of document.querySelectorAll("[data-view]")) link.toggleAttribute("aria-current", link.dataset.view === view);
  if (view === "coverage") showCoverage();
  if (view === "history") showHistory();
}
function route() {
  const asked = new URLSearchParams(location.search), view = asked.get("view") ?? "ask";
  show(view);
  if (view !== "ask") return;
  location.search ? readAddress() : shape(); // what was typed meanwhile stays
  if (asked.get("amount") && (asked.get("dnn") || state.config)) ask();
  else if (state.answers.length) draw();
}
async function readConfig(file) {
  try {
    state.config = JSON.parse(await file.text());
    if (!state.config || typeof state.config !== "object" || Array.isArray(state.config)) throw new Error();
    $("config-name").replaceChildren(`${file.name} (${state.config.model_type ?? "no model_type"}) `, button("Remove", () => {
      state.config = null;
      $("config-name").replaceChildren();
      shape();
    }));
    form.elements.dnn.value = "";
    shape();
  } catch {
    state.config = null;
    fault(new Refused(`${file.name}: expected a config.json of Hugging Face, which is an object of JSON.`));
  }
}
async function begin() {
  const [support, types] = await Promise.all([call("v1/support"), call("v1/node-types")]);
  state.support = support;
  state.types = types.rows.map((row) => Object.fromEntries(types.columns.map((name, at) => [name, row[at]])));
  $("networks").append(...support.traced.map((name) => el("option", { value: name }, "traced here")), ...support.models.map(({ name, words }) => el("option", { value: `hf:${name}` }, words)),
    ...support.networks.filter((each) => each.frameworks.includes("pytorch")).map((each) => el("option", { value: each.name }, each.kind)));
  const fill = (name, options) => form.elements[name].append(...options.map(([of, words]) => el("option", { value: of }, words)));
  fill("precision", support.precisions.map((each) => [each === "float32" ? "" : each, each]));
  fill("optimizer", support.optimizers.map((each) => [each === "sgd" ? "" : each, each]));
  fill("region", support.regions.sort().map((each) => [each, each]));
  fill("gpu", [...new Set(state.types.filter((type) => type.gpu && type.is_observed).map((type) => type.gpu))].sort().map((each) => [each, each]));
  addEventListener("popstate", route);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-view], a[data-to]");
    if (!link || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    history.pushState(null, "", link.dataset.view === "ask" && state.answers.length ? address() : link.getAttribute("href"));
    route();
  });
  form.addEventListener("input", () => {
    shape();
    clearTimeout(waiting);
    if (state.answers.length) waiting = setTimeout(submit, 150);
  });
  $("config").addEventListener("change", (event) => event.target.files[0] && readConfig(event.target.files[0]));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) readConfig(event.dataTransfer.files[0]);
  });
  route();
}
let waiting;
async function submit() {
  clearTimeout(waiting);
  await ready;
  state.open = null;
  history.pushState(null, "", address());
  ask();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.answers.length && draw());
if (given) {
  state.answers = [given];
  draw();
} else {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  ready = begin().catch((error) => fault(error));
}
