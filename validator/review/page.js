// The behaviour of the review page: choosing findings and steps, going through runs, filtering the list of runs.
// Without it everything on the page is shown at once.
"use strict";

const MOST_ROWS = 200;
const LARGEST = 1.5; // how many times wider than its frame a drawing is shrunk to fit

function all(root, selector) {
  return Array.from(root.querySelectorAll(selector));
}

function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// -- steps ------------------------------------------------------------------------------------------------------------

function pickStep(section, step) {
  for (const one of all(section, ".diagram .step, .line")) {
    one.classList.toggle("picked", one.dataset.step === step);
  }
  const line = section.querySelector(".line.picked");
  const code = line && line.closest("pre");
  if (code) {
    code.scrollTop = line.offsetTop - code.offsetTop - 20;
  }
  showNode(section, "picked");
}

function markStep(section, step) {
  for (const one of all(section, ".diagram .step")) {
    one.classList.toggle("here", one.dataset.step === step);
  }
  showNode(section, "here");
}

function showNode(section, name) {
  show(section, section.querySelector(`.diagram .step.${name}`));
}

// Scrolls the frames around a node, up to the section, so that it is seen.
function show(section, node) {
  for (let frame = node && node.parentElement; frame && frame !== section.parentElement; frame = frame.parentElement) {
    const isCut = frame.scrollHeight > frame.clientHeight + 1 || frame.scrollWidth > frame.clientWidth + 1;
    if (isCut && frame instanceof HTMLElement && getComputedStyle(frame).overflowY !== "visible") {
      reveal(frame, node);
    }
  }
}

function reveal(frame, node) {
  const box = node.getBoundingClientRect();
  const around = frame.getBoundingClientRect();
  if (box.top < around.top || box.bottom > around.bottom) {
    frame.scrollTop += box.top - around.top - around.height / 3;
  }
  if (box.left < around.left || box.right > around.right) {
    frame.scrollLeft += box.left - around.left - around.width / 3;
  }
}

function prepareDiagram(diagram) {
  const drawing = diagram.querySelector("svg");
  if (!drawing) {
    return;
  }
  const size = make("button", { type: "button", class: "size" });
  function set(real) {
    diagram.classList.toggle("real", real);
    size.textContent = real ? "fit" : "real size";
  }
  size.addEventListener("click", () => set(!diagram.classList.contains("real")));
  diagram.prepend(size);
  // A wide drawing would be too small to read.
  set(drawing.viewBox.baseVal.width > LARGEST * diagram.clientWidth);
}

function findingOf(section, step) {
  return all(section, ".finding").find((one) => one.dataset.step === step);
}

// -- findings ---------------------------------------------------------------------------------------------------------

function pickFinding(section, id) {
  for (const one of all(section, ".finding")) {
    one.hidden = one.id !== id;
  }
  for (const one of all(section, ".pick")) {
    one.setAttribute("aria-pressed", String(one.dataset.target === id));
  }
  const chosen = document.getElementById(id);
  markStep(section, null);
  if (chosen && chosen.dataset.step) {
    pickStep(section, chosen.dataset.step);
  }
}

function prepareProgram(section) {
  section.addEventListener("click", (event) => {
    const button = event.target.closest(".pick");
    const step = event.target.closest(".step, .step-name, .line");
    if (button) {
      pickFinding(section, button.dataset.target);
    } else if (step && step.dataset.step) {
      chooseStep(section, step);
    }
  });
  section.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target.matches(".diagram .step")) {
      event.preventDefault();
      chooseStep(section, event.target);
    }
  });
  show(section, section.querySelector(".diagram .step"));
  const first = section.querySelector(".pick");
  if (first) {
    pickFinding(section, first.dataset.target);
  }
}

function chooseStep(section, element) {
  const finding = element.matches(".diagram .step") && findingOf(section, element.dataset.step);
  if (finding) {
    pickFinding(section, finding.id);
  } else {
    pickStep(section, element.dataset.step);
  }
}

// -- step by step -----------------------------------------------------------------------------------------------------

// Returns what moves the stepper: the live page appends records to it.
function prepareStepper(stepper) {
  const list = stepper.querySelector("ol");
  let items = all(list, ":scope > li");
  if (!items.length) {
    return null;
  }
  const back = make("button", { type: "button" }, "← back");
  const on = make("button", { type: "button" }, "on →");
  const count = make("output", { "aria-live": "polite" });
  const play = make("button", { type: "button", class: "play" }, "play");
  const speed = make("input", { type: "number", class: "speed", min: "0.1", max: "1000", step: "any", value: "2", required: "" });
  const rate = make("label", {}, speed, " records a second");
  const state = make("dl", { class: "state" });
  const parts = [back, on, count, play, rate];
  const bar = make("div", { class: "bar", role: "group", "aria-label": stepper.dataset.title }, ...parts);
  let at = -1;
  let now = null;
  let known = new Map();
  let timer = null;
  let told = () => {};

  function take(number) {
    for (const name of all(items[number], "dt")) {
      known.set(name.textContent, [name.nextElementSibling.textContent, number]);
    }
  }

  function show() {
    back.disabled = at <= 0;
    on.disabled = at === items.length - 1;
    const first = Number(list.start);
    count.textContent = `record ${first + at} of ${first}–${first + items.length - 1}`;
    state.replaceChildren();
    for (const [name, [text, since]] of known) {
      state.append(make("dt", {}, name), make("dd", since === at ? { class: "new" } : {}, text));
    }
  }

  function move(number) {
    const next = Math.max(0, Math.min(items.length - 1, number));
    if (next < at) {
      known = new Map();
      at = -1;
    }
    while (at < next) {
      at += 1;
      take(at);
    }
    if (now) {
      now.classList.remove("now");
    }
    now = items[at];
    now.classList.add("now");
    show();
    markStep(stepper.closest(".desk") || stepper.closest(".run, .program"), now.dataset.step || null);
    told(at, items.length);
  }

  function go(number) {
    const before = document.activeElement;
    stop();
    move(number);
    if (before && before.disabled) {
      (back.disabled ? on : back).focus();
    }
  }

  function stop() {
    clearTimeout(timer);
    timer = null;
    play.textContent = "play";
  }

  // Goes on by itself to the last record; `wait` returns the milliseconds until the next one.
  function run(wait) {
    clearTimeout(timer);
    play.textContent = "stop";
    timer = setTimeout(() => {
      move(at + 1);
      if (at === items.length - 1) {
        stop();
      } else {
        run(wait);
      }
    }, wait());
  }

  let pause = 500;

  // A speed that can't be is not used: what was before stays.
  function pace() {
    pause = speed.checkValidity() ? 1000 / Number(speed.value) : pause;
    return pause;
  }

  function listen(item, number) {
    all(item, "dl").forEach((one) => { one.hidden = true; });
    item.addEventListener("click", () => go(number));
  }

  back.addEventListener("click", () => go(at - 1));
  on.addEventListener("click", () => go(Math.max(at, 0) + 1));
  play.addEventListener("click", () => {
    if (timer !== null) {
      stop();
      return;
    }
    if (!speed.reportValidity()) {
      return;
    }
    if (at === items.length - 1) {
      move(0);
    }
    run(pace);
  });
  bar.addEventListener("keydown", (event) => {
    if (event.target !== speed && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      event.preventDefault();
      go(Math.max(at, 0) + (event.key === "ArrowRight" ? 1 : -1));
    }
  });
  items.forEach(listen);
  stepper.querySelector("h4").after(bar, make("h4", {}, "Values here"), state);
  back.disabled = true;
  count.textContent = `${items.length} records`;

  return {
    go,
    run,
    stop,
    isLast: () => at === items.length - 1,
    left: () => items.length - 1 - at,
    count: () => items.length,
    onMove(listener) { told = listener; },
    append(more) {
      more.forEach((item, index) => listen(item, items.length + index));
      list.append(...more);
      items = items.concat(more);
      on.disabled = at === items.length - 1;
    },
  };
}

// -- runs -------------------------------------------------------------------------------------------------------------

function prepareRuns(section) {
  const rows = JSON.parse(document.getElementById("runs-data").textContent);
  const text = document.getElementById("runs-text");
  const status = document.getElementById("runs-status");
  const list = document.getElementById("runs-list");
  const count = document.getElementById("runs-count");
  const articles = new Map(all(section, ".run").map((one) => [one.dataset.run, one]));

  function drawPath(article) {
    const home = document.getElementById(article.dataset.program || "");
    const diagram = home && home.querySelector(".diagram");
    if (!diagram || article.querySelector(".diagram")) {
      return;
    }
    const copy = diagram.cloneNode(true);
    const taken = new Set(all(article, "li[data-step]").map((one) => one.dataset.step));
    all(copy, ".size").forEach((one) => one.remove());
    all(copy, ".step").forEach((one) => {
      one.classList.remove("picked", "here");
      one.classList.toggle("taken", taken.has(one.dataset.step));
    });
    copy.setAttribute("aria-label", `path of run ${article.dataset.run}`);
    article.append(copy);
    prepareDiagram(copy);
  }

  function pick(run) {
    const chosen = articles.get(run);
    articles.forEach((one) => {
      one.hidden = !chosen || one.dataset.chain !== chosen.dataset.chain;
      if (!one.hidden) {
        drawPath(one);
      }
    });
    all(list, ".run-row").forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.run === run)));
  }

  function fill() {
    const wanted = text.value.toLowerCase();
    const found = rows.filter((row) => (!status.value || row[2] === status.value)
      && (row[0].toLowerCase().includes(wanted) || row[1].toLowerCase().includes(wanted)));
    list.replaceChildren(...found.slice(0, MOST_ROWS).map((row) => {
      const button = make("button", { type: "button", class: "run-row", "data-run": row[0], "aria-pressed": "false" });
      button.append(...row.map((cell) => make("span", {}, cell)));
      button.disabled = !articles.has(row[0]);
      button.addEventListener("click", () => pick(row[0]));
      return button;
    }));
    const shown = Math.min(found.length, MOST_ROWS);
    count.textContent = `${found.length} of ${rows.length} runs, ${shown} listed, ${articles.size} with their records`;
  }

  text.addEventListener("input", fill);
  status.addEventListener("change", fill);
  fill();
  pick(section.querySelector(".run") ? section.querySelector(".run").dataset.run : null);
}

all(document, ".diagram").forEach(prepareDiagram);
all(document, ".stepper").forEach(prepareStepper);
all(document, ".program").forEach(prepareProgram);
all(document, ".runs").forEach(prepareRuns);
