// The behaviour of the live page, on top of that of the review page: it follows the journal, and acts for the operator.
// Everything that a user wrote comes as text, or in parts that the server has made of text nodes.
"use strict";

const MOST_LISTED = 200;
const CATCH_UP = 1500; // milliseconds in which a run that is followed catches up with its records
const SLOWEST = 400; // milliseconds that a step is lit while its run goes on
const PLOTS = 5000; // milliseconds between two looks at the plots

const byId = (id) => document.getElementById(id);
const rows = new Map();
const desk = document.querySelector(".desk");
let token = "";
let chosen = null;

// -- the server -------------------------------------------------------------------------------------------------------

async function part(address) {
  const answer = await fetch(address);
  const text = await answer.text();
  if (!answer.ok) {
    throw new Error(text || `the studio answered ${answer.status}`);
  }
  const found = new DOMParser().parseFromString(text, "text/html").body.firstElementChild;
  return document.adoptNode(found);
}

async function post(address, data) {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
  const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(data) });
  const text = await answer.text();
  if (!answer.ok) {
    throw new Error(text);
  }
  return text ? JSON.parse(text) : {};
}

// -- the operator -----------------------------------------------------------------------------------------------------

function showRights(words) {
  document.body.classList.toggle("can-act", token !== "");
  byId("may-act").textContent = words || (token ? "You can act." : "You only watch.");
  all(document, ".act button").forEach((one) => { one.disabled = token === ""; });
}

async function useToken(given) {
  token = given;
  try {
    await post("/token", {});
    byId("token").value = "";
    showRights();
  } catch (error) {
    token = "";
    showRights(error.message);
  }
}

function prepareToken() {
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    useToken(byId("token").value.trim());
  });
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", location.pathname);
    useToken(given);
  } else {
    showRights();
  }
}

async function submitted(event) {
  const form = event.target.closest(".act");
  if (!form) {
    return;
  }
  event.preventDefault();
  const said = form.querySelector("output");
  awaitsSandbox = form.dataset.act === "disturb";
  const by = byId("by").value.trim();
  const asked = { what: form.dataset.act, run: form.dataset.run, step: form.dataset.step || "", by };
  new FormData(form).forEach((value, name) => { asked[name] = value; });
  said.textContent = "asking…";
  try {
    const answer = await post(form.dataset.address || "/act", asked);
    said.textContent = answer.said;
  } catch (error) {
    said.textContent = error.message;
  }
}

// -- the list of runs -------------------------------------------------------------------------------------------------

// Keeps an element for each run, so that the focus and the place in the list stay while others come.
function Rows(list) {
  const known = new Map();
  return function fill(found) {
    const wanted = new Set(found.map((row) => row[0]));
    for (const [run, button] of known) {
      if (!wanted.has(run)) {
        button.remove();
        known.delete(run);
      }
    }
    let after = null;
    for (const row of found) {
      let button = known.get(row[0]);
      if (!button) {
        const parts = { type: "button", class: "run-row", "data-run": row[0] };
        const cells = [make("b", {}), make("small", {}), make("span", { class: "run-id" }), make("small", { class: "status" })];
        button = make("button", parts, ...cells);
        button.title = row[0];
        known.set(row[0], button);
      }
      const texts = [row[1], row[3].slice(11), row[0], row[2]];
      texts.forEach((text, number) => {
        const cell = button.children[number];
        if (cell.textContent !== text) {
          cell.textContent = text;
        }
      });
      button.dataset.status = row[2];
      button.setAttribute("aria-pressed", String(chosen !== null && chosen.run === row[0]));
      const place = after ? after.nextSibling : list.firstChild;
      if (place !== button) {
        list.insertBefore(button, place);
      }
      after = button;
    }
  };
}

const fillRuns = Rows(byId("live-list"));
const fillWaiting = Rows(byId("waiting-list"));

function newestFirst(one, other) {
  return other[5] - one[5] || (one[0] < other[0] ? 1 : -1);
}

function listRuns() {
  const text = byId("live-text").value.toLowerCase();
  const program = byId("live-program").value;
  const status = byId("live-status").value;
  const sorted = Array.from(rows.values()).sort(newestFirst);
  const found = sorted.filter((row) => (!status || row[2] === status) && (!program || row[1] === program)
    && (!text || row[0].toLowerCase().includes(text)));
  fillRuns(found.slice(0, MOST_LISTED));
  const waiting = sorted.filter((row) => row[2] === "SUSPENDED" || row[2] === "IN_DOUBT");
  fillWaiting(waiting.slice(0, MOST_LISTED));
  const listed = Math.min(found.length, MOST_LISTED);
  byId("live-count").textContent = `${found.length} of the newest ${rows.size} runs, ${listed} listed`;
  listPrograms(sorted);
}

function listPrograms(sorted) {
  const select = byId("live-program");
  const known = new Set(Array.from(select.options, (one) => one.value));
  for (const row of sorted) {
    if (!known.has(row[1]) && known.size < MOST_LISTED) {
      known.add(row[1]);
      select.append(make("option", { value: row[1] }, row[1]));
    }
  }
}

// -- the run that is chosen -------------------------------------------------------------------------------------------

function choose(run) {
  if (chosen && chosen.run === run) {
    return;
  }
  if (chosen && chosen.stepper) {
    chosen.stepper.stop(); // a run that is left lights nothing any more
  }
  chosen = { run, article: null, stepper: null, picture: "", asking: false, stale: false, follows: true };
  byId("chosen-run").replaceChildren(make("p", { class: "hint" }, `Reading ${run}…`));
  byId("picture").replaceChildren();
  listRuns();
  refresh(chosen);
}

async function refresh(one) {
  if (one.asking) {
    one.stale = true;
    return;
  }
  one.asking = true;
  one.stale = false;
  try {
    const first = one.stepper ? one.first + one.stepper.count() : 0;
    const article = await part(`/run?${new URLSearchParams({ run: one.run, first })}`);
    if (chosen === one) {
      await showRun(one, article, first);
    }
  } catch (error) {
    if (chosen === one) {
      byId("chosen-run").replaceChildren(make("p", { class: "bad" }, error.message));
      one.article = one.stepper = null;
    }
  }
  one.asking = false;
  if (one.stale && chosen === one) {
    refresh(one);
  }
}

async function showRun(one, article, first) {
  if (article.dataset.picture !== one.picture) {
    one.picture = article.dataset.picture;
    await showPicture(one);
  }
  if (one.stepper && Number(article.dataset.first) === first) {
    grow(one, article);
  } else {
    begin(one, article);
  }
  showStranded();
  showRights();
  if (one.stepper && one.stepper.isLast()) {
    markStep(desk, one.article.dataset.step || null);
  }
}

async function showPicture(one) {
  try {
    const picture = await part(`/picture?${new URLSearchParams({ run: one.run })}`);
    byId("picture").replaceChildren(picture);
    prepareDiagram(picture);
  } catch (error) {
    byId("picture").replaceChildren(make("p", { class: "hint" }, error.message));
  }
}

function begin(one, article) {
  one.article = article;
  one.first = Number(article.dataset.first);
  one.sources = Object.fromEntries(CHANGING.map((selector) => [selector, sourceOf(article, selector)]));
  all(article, ".disturb").forEach(offerSteps);
  byId("chosen-run").replaceChildren(article);
  const list = article.querySelector(".stepper ol");
  list.start = one.first;
  const isOver = article.dataset.step === "";
  one.stepper = prepareStepper(article.querySelector(".stepper"));
  if (!one.stepper) {
    return;
  }
  one.stepper.onMove((at, count) => lit(one, at, count));
  // A run that has ended waits for who wants to see it again; another one is followed from where it is.
  one.stepper.go(isOver ? one.stepper.count() - 1 : Math.max(0, one.stepper.count() - 2));
  if (!isOver) {
    one.stepper.run(() => SLOWEST);
  }
}

function lit(one, at, count) {
  const taken = new Set(all(one.article, ".stepper li").slice(0, at + 1).map((item) => item.dataset.step));
  all(byId("picture"), ".step").forEach((step) => step.classList.toggle("taken", taken.has(step.dataset.step)));
  if (at === count - 1 && one.article.dataset.step) {
    markStep(desk, one.article.dataset.step);
  }
}

const CHANGING = ["h3", ".standing", ".waits", ".disturb", "table", ".verdict"]; // parts of a run besides its records

function sourceOf(article, selector) {
  const found = article.querySelector(`:scope > ${selector}`);
  return found ? found.outerHTML : "";
}

// Takes over what is new of a run. A part that is as it was stays, with what somebody types and what was said to it.
function grow(one, article) {
  const wasLast = one.stepper.isLast();
  one.stepper.append(all(article, ".stepper ol > li"));
  for (const selector of CHANGING) {
    const old = one.article.querySelector(`:scope > ${selector}`);
    const fresh = article.querySelector(`:scope > ${selector}`);
    const source = sourceOf(article, selector);
    if (old && fresh && source !== one.sources[selector]) {
      old.replaceWith(fresh);
      keepTyped(old, fresh);
    } else if (!old && fresh) {
      one.article.append(fresh);
    }
    one.sources[selector] = source;
  }
  Object.assign(one.article.dataset, article.dataset);
  if (wasLast && one.stepper.left()) {
    one.stepper.run(() => Math.min(SLOWEST, CATCH_UP / Math.max(1, one.stepper.left())));
  }
}

// Takes over what somebody has typed or chosen, and what was said, into forms for the same.
function keepTyped(old, fresh) {
  const forms = (root) => (root.matches(".act") ? [root] : all(root, ".act"));
  for (const form of forms(fresh)) {
    const before = forms(old).find((one) => one.dataset.act === form.dataset.act && one.dataset.step === form.dataset.step);
    const fields = before ? all(before, "[name]") : [];
    for (const field of fields) {
      const place = form.elements.namedItem(field.name);
      if (place) {
        place.value = field.value;
        if (field.name === "what") {
          offerSteps(form);
        }
      }
    }
    if (before) {
      form.querySelector("output").replaceWith(before.querySelector("output"));
    }
  }
}

// Only a run whose lease is over can be picked up; this page and the studio have one clock.
function showStranded() {
  const form = document.querySelector("#chosen-run .recover");
  if (form) {
    form.hidden = Number(form.closest("article").dataset.leased || 0) * 1000 > Date.now();
  }
}

// -- failures ----------------------------------------------------------------------------------------------------------

// Offers the steps at which the chosen failure can act, and keeps the step that was chosen if it is one of them.
function offerSteps(form) {
  const kind = form.querySelector("select[name=what]").selectedOptions[0];
  const place = form.querySelector("select[name=step]");
  const steps = kind ? JSON.parse(kind.dataset.steps) : [];
  const before = place.value;
  place.replaceChildren(place.options[0], ...steps.map((step) => make("option", { value: step }, step)));
  place.value = steps.includes(before) ? before : "";
}

document.addEventListener("change", (event) => {
  const form = event.target.closest(".disturb");
  if (form && event.target.name === "what") {
    offerSteps(form);
  }
});

// -- sandboxes --------------------------------------------------------------------------------------------------------

const MOST_SANDBOXES = 20;
let awaitsSandbox = false; // whether this browser has asked for one, and wants to see it

function listSandboxes(found) {
  const list = byId("sandbox-list");
  for (const [number, run, what, step, outcome, promise] of found) {
    const texts = [`${number}. ${what} at ${step}`, outcome, run, promise];
    const button = make("button", { type: "button", class: "sandbox-row", "data-outcome": outcome });
    button.append(...texts.map((text) => make("span", {}, text)));
    button.addEventListener("click", () => openSandbox(number, button));
    list.prepend(button);
    if (number === found.at(-1)[0]) {
      openSandbox(number, button);
    }
  }
  while (list.children.length > MOST_SANDBOXES) {
    list.lastChild.remove();
  }
}

async function openSandbox(number, button) {
  all(byId("sandbox-list"), "button").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
  try {
    const found = await part(`/sandbox?number=${number}`);
    byId("sandbox").replaceChildren(found);
    all(found, ".diagram").forEach(prepareDiagram);
    all(found, ".stepper").forEach(prepareStepper);
    if (awaitsSandbox) {
      awaitsSandbox = false;
      byId("sandboxes").scrollIntoView();
    }
  } catch (error) {
    byId("sandbox").replaceChildren(make("p", { class: "bad" }, error.message));
  }
}

// -- what comes -------------------------------------------------------------------------------------------------------

let ended = 0;

function take(data) {
  if (data.all) {
    rows.clear();
    byId("sandbox-list").replaceChildren();
  }
  listSandboxes(data.sandboxes);
  data.gone.forEach((run) => rows.delete(run));
  let isChanged = false;
  for (const row of data.runs) {
    rows.set(row[0], row);
    isChanged = isChanged || (chosen !== null && row[0] === chosen.run);
  }
  byId("waiting-count").textContent = String(data.waiting);
  byId("rate").textContent = data.rate === null ? `${data.going} going on` : `${data.rate} new a second, ${data.going} going on`;
  byId("live").textContent = data.trouble ? `the journal can't be read: ${data.trouble}` : "live";
  listRuns();
  if (isChanged) {
    refresh(chosen);
  }
  ended = data.ended;
}

function listen() {
  const events = new EventSource("/events");
  events.addEventListener("message", (event) => take(JSON.parse(event.data)));
  events.addEventListener("error", () => { byId("live").textContent = "not connected: trying again…"; });
}

// -- plots and programs -----------------------------------------------------------------------------------------------

function preparePlots() {
  const details = byId("analysis-details");
  let seen = -1;
  async function look() {
    if (details.open && seen !== ended) {
      seen = ended;
      try {
        byId("plots").replaceChildren(await part("/analysis"));
      } catch (error) {
        byId("plots").replaceChildren(make("p", { class: "bad" }, error.message));
      }
    }
  }
  details.addEventListener("toggle", look);
  setInterval(look, PLOTS);
}

async function openFile(details) {
  const place = details.querySelector(".part");
  if (!details.open || place.firstChild) {
    return;
  }
  place.append(make("p", { class: "hint" }, "Checking…"));
  try {
    const found = await part(`/program?${new URLSearchParams({ file: details.dataset.file })}`);
    place.replaceChildren(found);
    all(found, ".diagram").forEach(prepareDiagram);
    all(found, ".stepper").forEach(prepareStepper);
    all(found, ".program").forEach(prepareProgram);
  } catch (error) {
    place.replaceChildren(make("p", { class: "bad" }, error.message));
  }
}

// -- the tour ---------------------------------------------------------------------------------------------------------

function prepareTour(section) {
  const stations = all(section, ".station");
  const back = make("button", { type: "button" }, "← station before");
  const on = make("button", { type: "button" }, "next station →");
  const show = make("button", { type: "button" }, "show me where");
  const end = make("button", { type: "button" }, "end the tour");
  let at = 0;

  function go(number) {
    at = Math.max(0, Math.min(stations.length - 1, number));
    stations.forEach((one, index) => { one.hidden = index !== at; });
    back.disabled = at === 0;
    on.disabled = at === stations.length - 1;
    spot(stations[at].dataset.spot, false);
  }

  function spot(id, scrolls) {
    all(document, ".spot").forEach((one) => one.classList.remove("spot"));
    byId(id).classList.add("spot");
    if (scrolls) {
      byId(id).scrollIntoView({ block: "center" });
    }
  }

  back.addEventListener("click", () => go(at - 1));
  on.addEventListener("click", () => go(at + 1));
  show.addEventListener("click", () => spot(stations[at].dataset.spot, true));
  end.addEventListener("click", () => {
    all(document, ".spot").forEach((one) => one.classList.remove("spot"));
    section.remove();
  });
  section.append(make("div", { class: "bar", role: "group", "aria-label": "stations of the tour" }, back, on, show, end));
  go(0);
}

for (const list of all(document, ".rows")) {
  list.addEventListener("click", (event) => {
    const button = event.target.closest(".run-row");
    if (button) {
      choose(button.dataset.run);
    }
  });
}
for (const id of ["live-text", "live-program", "live-status"]) {
  byId(id).addEventListener("input", listRuns);
}
all(document, ".tour").forEach(prepareTour);
all(document, "details.file").forEach((one) => one.addEventListener("toggle", () => openFile(one)));
document.addEventListener("submit", submitted);
setInterval(showStranded, 1000);
prepareToken();
preparePlots();
listen();
