// The behaviour of the live page, on top of that of the review page: it follows the journal, and acts for the operator.
// Everything that a user wrote comes as text, or in parts that the server has made of text nodes.
"use strict";

const MOST_LISTED = 200;
const CATCH_UP = 1500; // milliseconds in which a run that is followed catches up with its records
const SLOWEST = 400; // milliseconds that a step is lit while its run goes on
const PLOTS = 5000; // milliseconds between two looks at the plots

const NARROW = "(max-width: 900px)"; // the columns are below one another
const ONCE = new Set(["resume", "reconcile", "cancel"]); // what is done once: its button stays off

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

// -- what is said -----------------------------------------------------------------------------------------------------

// Returns the parts of a message: what it has in back-ticks is code.
function coded(text) {
  const parts = text.split("`");
  if (parts.length % 2 === 0) { // a back-tick without its other half
    return [text];
  }
  return parts.map((part, number) => (number % 2 ? make("code", {}, part) : part));
}

function say(place, text, isBad = false) {
  place.classList.toggle("bad", isBad);
  place.replaceChildren(...coded(text));
}

function complaint(error) {
  return make("p", { class: "bad" }, ...coded(error.message));
}

// -- the address: which run is chosen, and which station of the tour --------------------------------------------------

function place() {
  return new URLSearchParams(location.hash.slice(1));
}

function setPlace(name, value, replaces = false) {
  const wanted = place();
  if (value) {
    wanted.set(name, value);
  } else {
    wanted.delete(name);
  }
  const address = wanted.size ? `#${wanted}` : location.pathname;
  if (replaces) {
    history.replaceState(null, "", address);
  } else if (place().toString() !== wanted.toString()) {
    history.pushState(null, "", address);
  }
}

function showPlace() {
  takeToken();
  choose(place().get("run"));
  if (tour) {
    tour.show(place().get("station"));
  }
}

// The links of the menu scroll, and leave the address as it is.
function prepareMenu(menu) {
  menu.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (link) {
      event.preventDefault();
      byId(link.hash.slice(1)).scrollIntoView();
    }
  });
}

// -- the operator -----------------------------------------------------------------------------------------------------

function showRights(words) {
  document.body.classList.toggle("can-act", token !== "");
  if (words) {
    say(byId("may-act"), words, true);
  } else {
    say(byId("may-act"), token ? "You can act." : "You only watch.");
  }
  all(document, ".act").forEach(showButtons);
}

function showButtons(form) {
  const why = token === "" ? "This needs the operator's token, at the top of the page." : "";
  for (const one of all(form, "button")) {
    one.disabled = why !== "" || form.dataset.busy !== undefined;
    one.title = why;
  }
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
    const given = byId("token").value.trim();
    if (given) {
      useToken(given);
    }
  });
  const name = byId("by");
  name.value = sessionStorage.getItem("by") || "";
  name.addEventListener("input", () => { sessionStorage.setItem("by", name.value.trim()); });
  showRights();
}

// A token in the address is used, and does not stay there.
function takeToken() {
  const given = place().get("token");
  if (given) {
    setPlace("token", "", true);
    useToken(given);
  }
}

function submitted(event) {
  const form = event.target.closest(".act");
  if (!form) {
    return;
  }
  event.preventDefault();
  if (form.dataset.busy !== undefined) {
    return;
  }
  const said = form.querySelector("output");
  if (ONCE.has(form.dataset.act) && !byId("by").value.trim()) {
    say(said, "Write your name at the top of the page first: the records say who has done this.", true);
    byId("by").focus();
    return;
  }
  const verdict = form.elements.namedItem("verdict");
  const asks = verdict && verdict.value === "abandon" ? "Give up the run for good?" : form.dataset.asks;
  if (asks) {
    askFirst(said, asks);
  } else {
    send(form);
  }
}

function askFirst(said, question) {
  const yes = make("button", { type: "button", class: "yes" }, "Yes");
  const no = make("button", { type: "button", class: "no" }, "No");
  yes.addEventListener("click", () => send(yes.closest(".act")));
  no.addEventListener("click", () => say(said, ""));
  say(said, `${question} `);
  said.append(yes, " ", no);
  no.focus();
}

async function send(form) {
  const said = form.querySelector("output");
  const what = form.dataset.act;
  awaitsSandbox = what === "disturb";
  const by = byId("by").value.trim();
  const asked = { what, run: form.dataset.run, step: form.dataset.step || "", by };
  new FormData(form).forEach((value, name) => { asked[name] = value; });
  form.dataset.busy = "";
  say(said, "asking…");
  showButtons(form);
  let isDone = false;
  try {
    const answer = await post(form.dataset.address || "/act", asked);
    isDone = ONCE.has(what);
    say(said, awaitsSandbox ? `${answer.said}: see Sandboxes, below` : `done: ${answer.said}`);
  } catch (error) {
    say(said, error.message, true);
  }
  if (!isDone) {
    delete form.dataset.busy;
    showButtons(form);
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
        const cells = [make("b", {}), make("small", { class: "time" }), make("span", { class: "run-id" }), make("small", { class: "status" })];
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
  byId("live-count").textContent = countOf(found.length, rows.size);
  byId("live-all").hidden = !(text || program || status);
  listPrograms(sorted);
}

function countOf(found, known) {
  if (!known) {
    return "There is no run yet.";
  }
  if (!found) {
    return `None of the newest ${known} runs is like this.`;
  }
  const shown = found > MOST_LISTED ? `, the first ${MOST_LISTED} are listed` : "";
  return found === known ? `The newest ${known} runs${shown}` : `${found} of the newest ${known} runs${shown}`;
}

function listEverything() {
  for (const id of ["live-text", "live-program", "live-status"]) {
    byId(id).value = "";
  }
  listRuns();
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

const NOTHING_CHOSEN = Array.from(byId("picture").childNodes);

// Shows a run, or none; what was chosen before lights nothing any more.
function choose(run) {
  if ((chosen && chosen.run) === run) {
    return;
  }
  if (chosen && chosen.stepper) {
    chosen.stepper.stop();
  }
  chosen = run && { run, article: null, stepper: null, picture: "", asking: false, stale: false };
  byId("chosen-run").replaceChildren(...(run ? [make("p", { class: "hint" }, `Reading ${run}…`)] : []));
  byId("picture").replaceChildren(...(run ? [] : NOTHING_CHOSEN));
  listRuns();
  if (chosen) {
    refresh(chosen);
  }
}

// Where somebody has chosen a run and would not see it, the page scrolls there.
function bringIntoView() {
  const column = byId("picture");
  const box = column.getBoundingClientRect();
  if (matchMedia(NARROW).matches) {
    column.scrollIntoView();
  } else if (box.bottom > innerHeight || box.top < 0) {
    byId("runs").scrollIntoView();
  }
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
      byId("chosen-run").replaceChildren(complaint(error));
      byId("picture").replaceChildren();
      one.article = one.stepper = null;
      one.picture = "";
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
  if (one.isSought) {
    one.isSought = false;
    bringIntoView();
  }
  if (one.stepper && one.stepper.isLast() && one.article.dataset.step) {
    markStep(desk, one.article.dataset.step);
  }
}

async function showPicture(one) {
  try {
    const picture = await part(`/picture?${new URLSearchParams({ run: one.run })}`);
    byId("picture").replaceChildren(picture);
    prepareDiagram(picture);
  } catch (error) {
    byId("picture").replaceChildren(complaint(error));
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

function leaveTrail(article, picture, at) {
  const items = all(article, ".stepper li");
  reveal(items[at].parentElement, items[at]);
  const taken = new Set(items.slice(0, at + 1).map((item) => item.dataset.step));
  all(picture, ".step").forEach((step) => step.classList.toggle("taken", taken.has(step.dataset.step)));
}

function lit(one, at, count) {
  leaveTrail(one.article, byId("picture"), at);
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
      if (selector === ".disturb") {
        offerSteps(fresh);
      }
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
  const isSame = (one, other) => ["act", "step", "since"].every((name) => one.dataset[name] === other.dataset[name]);
  for (const form of forms(fresh)) {
    const before = forms(old).find((one) => isSame(one, form));
    const isChosen = Boolean(before && before.dataset.touched);
    if (before) {
      all(before, "[name]").filter((one) => one.name !== "what" || isChosen).forEach((one) => keepValue(form, one));
      form.querySelector("output").replaceWith(before.querySelector("output"));
    }
    if (isChosen) {
      form.dataset.touched = before.dataset.touched;
    }
  }
}

function keepValue(form, field) {
  const same = form.elements.namedItem(field.name);
  if (same) {
    same.value = field.value;
  }
  if (field.name === "what") {
    offerSteps(form);
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
    form.dataset.touched = "yes"; // else the first failure that can act is chosen, and that may change
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

// Shows the record at which the disturbance was, with the values there.
function beginAtMark(article, list) {
  const stepper = prepareStepper(list);
  if (stepper) {
    const marked = all(list, "li").findIndex((one) => one.classList.contains("marked"));
    stepper.onMove((at) => leaveTrail(article, article, at));
    stepper.go(marked < 0 ? stepper.count() - 1 : marked);
  }
}

async function openSandbox(number, button) {
  all(byId("sandbox-list"), "button").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
  try {
    const found = await part(`/sandbox?number=${number}`);
    byId("sandbox").replaceChildren(found);
    all(found, ".diagram").forEach(prepareDiagram);
    all(found, ".stepper").forEach((one) => beginAtMark(found, one));
    if (awaitsSandbox) {
      awaitsSandbox = false;
      byId("sandboxes").scrollIntoView();
    }
  } catch (error) {
    byId("sandbox").replaceChildren(complaint(error));
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
        byId("plots").replaceChildren(complaint(error));
      }
    }
  }
  details.addEventListener("toggle", look);
  setInterval(look, PLOTS);
}

async function openFile(details) {
  const inside = details.querySelector(".part");
  if (!details.open || inside.firstChild) {
    return;
  }
  inside.append(make("p", { class: "hint" }, "Checking…"));
  try {
    const found = await part(`/program?${new URLSearchParams({ file: details.dataset.file })}`);
    inside.replaceChildren(found);
    all(found, ".diagram").forEach(prepareDiagram);
    all(found, ".stepper").forEach(prepareStepper);
    all(found, ".program").forEach(prepareProgram);
  } catch (error) {
    inside.replaceChildren(complaint(error));
  }
}

// -- the tour ---------------------------------------------------------------------------------------------------------

// Returns what shows a station by its number, or the end of the tour.
function prepareTour(section) {
  const stations = all(section, ".station");
  const again = byId("tour-again");
  const back = make("button", { type: "button" }, "← station before");
  const on = make("button", { type: "button" }, "next station →");
  const where = make("button", { type: "button" }, "show me where");
  const end = make("button", { type: "button" }, "end the tour");
  let at = 0;

  function show(said) {
    const isOver = said === OVER;
    at = Math.max(0, Math.min(stations.length, Number(said) || 1) - 1);
    section.hidden = isOver;
    again.hidden = !isOver;
    stations.forEach((one, index) => { one.hidden = index !== at; });
    back.disabled = at === 0;
    on.disabled = at === stations.length - 1;
    all(document, ".spot").forEach((one) => one.classList.remove("spot"));
    if (!isOver) {
      spot().classList.add("spot");
    }
    measure();
  }

  function spot() {
    return byId(stations[at].dataset.spot);
  }

  // The columns below take the height that the tour leaves.
  function measure() {
    const isSticky = !section.hidden && !matchMedia(NARROW).matches;
    document.documentElement.style.setProperty("--tour", `${isSticky ? section.offsetHeight : 0}px`);
  }

  function go(station) {
    setPlace("station", station);
    show(station);
  }

  back.addEventListener("click", () => go(String(at)));
  on.addEventListener("click", () => go(String(at + 2)));
  where.addEventListener("click", () => spot().scrollIntoView());
  end.addEventListener("click", () => go(OVER));
  again.addEventListener("click", () => {
    go("1");
    section.scrollIntoView();
  });
  addEventListener("resize", measure);
  section.append(make("div", { class: "bar", role: "group", "aria-label": "stations of the tour" }, back, on, where, end));
  return { show };
}

const OVER = "over";
const tour = all(document, ".tour").map(prepareTour)[0];

for (const list of all(document, ".rows")) {
  list.addEventListener("click", (event) => {
    const button = event.target.closest(".run-row");
    if (button) {
      setPlace("run", button.dataset.run);
      choose(button.dataset.run);
      chosen.isSought = true;
    }
  });
}
for (const id of ["live-text", "live-program", "live-status"]) {
  byId(id).addEventListener("input", listRuns);
}
byId("live-all").addEventListener("click", listEverything);
all(document, ".menu").forEach(prepareMenu);
all(document, "details.file").forEach((one) => one.addEventListener("toggle", () => openFile(one)));
document.addEventListener("submit", submitted);
setInterval(showStranded, 1000);
addEventListener("popstate", showPlace);
prepareToken();
showPlace();
preparePlots();
listen();
