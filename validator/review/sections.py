"""The parts of the page as elements: findings, proofs, runs step by step, attacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element

from stepward.validator.findings import Verdict
from stepward.validator.report.text import cut
from stepward.validator.review.elements import add_all, element, table

if TYPE_CHECKING:
    from stepward.validator.findings import Finding, Property
    from stepward.validator.review.moments import Moment
    from stepward.validator.review.programs import FindingView, ProgramView
    from stepward.validator.review.runs import RunsView, RunView

MAX_BEGINNING: Final = 60
"""Characters of a message in the list of findings."""

SIGNS: Final = {Verdict.PROVED: "✓", Verdict.VIOLATED: "✗", Verdict.UNKNOWN: "?"}
"""A sign for each verdict, beside its word: nobody has to tell colors apart."""


# -- one program -------------------------------------------------------------------------------------------------------


def program_section(view: ProgramView, number: int) -> Element:
    """Return the section of a program: a list to choose from, the diagram, and what is chosen."""
    chosen = [finding_article(one, f"p{number}f{index}") for index, one in enumerate(view.findings)]
    picture = view.picture
    if picture is None:
        picture = element("p", "The diagram could not be drawn.")
    lists = (_finding_list(view, number), _proof_list(view))
    title = f"{view.program.name} in {view.file}"
    return element(
        "section",
        element("h2", view.program.name, " ", element("small", view.file)),
        element(
            "div",
            element("nav", *lists, tabindex=0, aria_label=f"findings and verdicts of {title}"),
            element("div", picture, class_="diagram", tabindex=0, role="region", aria_label=f"diagram of {title}"),
            element("div", *chosen, _source(view), class_="chosen"),
            class_="columns",
        ),
        class_="program",
        id=f"p{number}",
    )


def _finding_list(view: ProgramView, number: int) -> Element:
    if not view.findings:
        return element("p", "No findings.", class_="good")
    items = [
        element(
            "li",
            element(
                "button",
                element("b", one.finding.code),
                " ",
                one.finding.step or cut(one.finding.message, MAX_BEGINNING),
                type="button",
                class_=f"pick {one.finding.severity}",
                data_target=f"p{number}f{index}",
                data_step=one.finding.step,
            ),
        )
        for index, one in enumerate(view.findings)
    ]
    return element("div", element("h3", "Findings"), add_all(element("ol"), items))


def _proof_list(view: ProgramView) -> Element | None:
    if not view.properties:
        return None
    items = [
        element(
            "li",
            element("span", SIGNS[one.verdict], class_="sign", aria_hidden="true"),
            " ",
            element("b", one.rule if one.step is None or one.step == one.rule else f"{one.rule} at {one.step}"),
            f" {one.name}: {one.verdict}",
            element("small", _evidence_text(one)),
            class_=str(one.verdict),
        )
        for one in view.properties
    ]
    return element("div", element("h3", "Verdicts"), add_all(element("ul"), items), class_="proofs")


def _evidence_text(one: Property) -> str:
    evidence = one.evidence
    second = ", accepted by the second checker" if one.rechecked else ""
    why = f"; {evidence.reason}" if evidence.reason else ""
    cut = f"; {', '.join(evidence.cut)}" if evidence.cut else ""
    policy = f", rule of policy {one.policy}" if one.policy else ""
    return f" by {evidence.layer}{second}{policy}{why}{cut}"


def finding_article(view: FindingView, id: str) -> Element:
    """Return a finding with its help, the step at which the path leaves the safe one, and the run that shows it."""
    finding = view.finding
    return element(
        "article",
        element("h3", finding.code, " ", finding.name, class_=str(finding.severity)),
        element("p", finding.message, class_="message"),
        element("p", element("b", "Do: "), finding.help, class_="help") if finding.help else None,
        element("p", "Leaves the safe path at ", _step_button(view.parts_at), ".") if view.parts_at else None,
        element("p", "Allowed by the policy: ", finding.waiver) if finding.waiver else None,
        *(_path(finding) if not view.moments else ()),
        stepper(view.moments, "A run of the machine that shows it", finding.step or "") if view.moments else None,
        element("p", element("small", _place_text(finding))),
        id=id,
        class_="finding",
        data_step=finding.step,
    )


def _place_text(finding: Finding) -> str:
    where = f":{finding.span.line}:{finding.span.column}" if finding.span is not None else ""
    return f"{finding.file}{where}"


def _path(finding: Finding) -> Iterable[Element]:
    path = finding.evidence.path if finding.evidence is not None else ()
    if path:
        items = [element("li", _step_button(move.step), f" {move.words}") for move in path]
        yield element("div", element("h4", "Path"), add_all(element("ol"), items))


def _step_button(step: str) -> Element:
    return element("button", step, type="button", class_="step-name", data_step=step)


def _source(view: ProgramView) -> Element | None:
    if not view.text:
        return None
    owners: dict[int, str] = {}
    # Sub-steps come after their step, so that a line belongs to the innermost one.
    for step, (first, last) in view.lines.items():
        owners.update(dict.fromkeys(range(first, last + 1), step))
    lines = [
        element("span", f"{line}\n", class_="line", data_number=number, data_step=owners.get(number))
        for number, line in enumerate(view.text.splitlines(), start=1)
    ]
    code = add_all(element("code"), lines)
    return element(
        "details",
        element("summary", "Source"),
        element("pre", code, tabindex=0, aria_label=f"source of {view.program.name}"),
        open="open",
        class_="source",
    )


# -- step by step ------------------------------------------------------------------------------------------------------


def stepper(moments: Sequence[Moment], title: str, marks: str = "") -> Element:
    """Return a run as a list of its records, which the script shows one at a time, with the values at each."""
    items = []
    for moment in moments:
        values = [part for name, text in moment.values.items() for part in (element("dt", name), element("dd", text))]
        items.append(
            element(
                "li",
                _step_button(moment.step) if moment.step else None,
                f" {moment.words}",
                add_all(element("dl"), values) if values else None,
                data_step=moment.step or None,
                class_="marked" if marks and moment.step == marks else None,
            )
        )
    return element(
        "div", element("h4", title), add_all(element("ol", start=0), items), class_="stepper", data_title=title
    )


# -- attacks -----------------------------------------------------------------------------------------------------------


def sabotage_section(data: Mapping[str, Any]) -> Element:
    """Return the section of a campaign, from the JSON of `stepward sabotage`."""
    rows = []
    for attack in data["attacks"]:
        breach = attack["breach"]
        why = attack["why_not"] if breach is None else f"{breach['invariant']}: {breach['what']}"
        outcome = element("span", attack["outcome"], class_="bad" if breach is not None else "plain")
        rows.append([attack["name"], attack["family"], outcome, str(attack["cases"]), str(attack["events"]), why or ""])
    summary = data["summary"]
    words = (
        f"{summary['ran']} of {summary['attacks']} attacks ran{_where(data)}: {summary['breaches']} breaches, "
        f"{summary['cases']} cases, {summary['events']} events, seed {data['seed']}"
    )
    headings = ("attack", "family", "outcome", "cases", "events", "what")
    return element(
        "section", element("h2", "Attacks on the machine"), table(headings, rows, words), class_="attacks", id="attacks"
    )


def _where(data: Mapping[str, Any]) -> str:
    """Return on what the attacks of a campaign ran. Older files do not say."""
    count = data["summary"].get("ran_on")
    if count is None:
        return f" for {data['program']}"
    words = f"{count['program']} on {data['program']}"
    return f" ({words}, {count['built_in']} only on built-in programs, {count['own']} on what they make themselves)"


# -- runs --------------------------------------------------------------------------------------------------------------


def runs_section(view: RunsView, programs: Sequence[ProgramView]) -> Element:
    """Return the section of a journal: a list that the script fills and filters, and the runs that are shown whole."""
    statuses = sorted({row[2] for row in view.rows})
    options = [element("option", "every status", value="")]
    options += [element("option", status, value=status) for status in statuses]
    articles = [run_article(run, number, programs) for number, run in enumerate(view.shown)]
    return element(
        "section",
        element("h2", "Runs"),
        element(
            "div",
            element("label", "Search ", element("input", type="search", id="runs-text")),
            element("label", "Status ", add_all(element("select", id="runs-status"), options)),
            element("output", id="runs-count", for_="runs-text runs-status"),
            class_="filters",
        ),
        element("div", id="runs-list"),
        *articles,
        class_="runs",
        id="runs",
    )


def run_article(run: RunView, number: int, programs: Sequence[ProgramView]) -> Element:
    """Return one run; `data-program` is the section whose diagram shows its path, if that program is on the page."""
    data = run.program.to_data()
    home = next((f"p{index}" for index, one in enumerate(programs) if one.program.to_data() == data), None)
    costs = table(("step", "tokens", "cost"), run.costs, "What its steps cost") if run.costs else None
    reason = f" ({run.reason})" if run.reason else ""
    return element(
        "article",
        element("p", run.boundary, class_="boundary") if run.boundary else None,
        element("h3", run.id, " ", element("small", f"{run.program.name}: {run.status}{reason}")),
        stepper(run.moments, "Its records"),
        costs,
        id=f"run{number}",
        class_="run",
        data_run=run.id,
        data_chain=run.chain or run.id,
        data_program=home,
    )
