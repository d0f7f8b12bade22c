"""SW001 to SW006: is the document a program, and does it have one meaning."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.validator.context import Context
from stepward.validator.findings import Finding, Label
from stepward.validator.rules.base import ReportedElsewhere, Rule
from stepward.vm.expressions.paths import Paths
from stepward.vm.language.guardrails import AnyRule
from stepward.vm.language.scopes import crossings
from stepward.vm.language.steps import (
    AnyCall,
    AnyPart,
    BaseStep,
    ConditionStep,
    Failing,
    FailingStep,
    ForEachStep,
    InvokeStep,
    LlmCall,
    Routed,
    Stage,
    ToolCall,
    parts,
)
from stepward.vm.reading.source import Path, Place


class Unreadable(ReportedElsewhere):
    """The file can't be read as a program: it is not UTF-8, or neither YAML nor JSON.

    ## What it does
    Reports a file that is not UTF-8 text, and a text that is not valid YAML 1.2 or JSON. A file with the extension
    `.json` has to be JSON. The finding is at the position where the reader stopped, and says why. Nothing else is
    reported for such a file.

    ## Why it is bad
    There is no program, so nothing can be checked and nothing can run. A reader that guesses the meaning could run a
    different program from the one that the author wrote.

    ## Example
    The list of replies is opened with `[` and closed with `}`:

    ```text
    name: triage
    steps:
      - {id: sort, type: llm, prompt: "Bug or question?", allowed_outputs: [bug, question}
    ```

    ## Use instead
    ```yaml
    name: triage
    steps:
      - {id: sort, type: llm, prompt: "Bug or question?", allowed_outputs: [bug, question]}
    ```
    """

    code = "SW001"
    name = "unreadable"


class Schema(Rule):
    """A field is unknown or missing, has a wrong value, or contradicts another field.

    ## What it does
    Reports unknown fields (and suggests the nearest known one), missing fields, and values of a wrong type. It also
    reports fields that contradict each other (`next_step` beside `is_terminal: true`, `on_error: skip` beside
    `error_step`, `allowed_outputs` beside `returns`), and fields that never apply. These are `outcome` on a step
    after which the run goes on, `fallback` without `on_timeout: fallback`, and `deadline_seconds` for a tool that does
    not suspend. Types without a value (`minimum: 5, maximum: 3`) and allowed outputs that no reply can equal are
    reported too. `depends_on` belongs to the sub-steps of a parallel step; a message of its own says so.

    ## Why it is bad
    If a misspelt field were ignored, a retry, a bound or a guard that its author relies on would be missing without a
    message. If two fields contradict each other, the machine can obey only one of them. If a type allows no value, no
    run gets past the step, so all rules hold for the wrong reason.

    ## Example
    ```yaml
    name: greeting
    steps:
      - {id: greet, type: llm, prompt: "Write a greeting.", max_retry: 2, on_error: retry}
    ```

    ## Use instead
    ```yaml
    name: greeting
    steps:
      - {id: greet, type: llm, prompt: "Write a greeting.", max_retries: 2, on_error: retry}
    ```
    """

    code = "SW002"
    name = "schema"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield fields that contradict each other; the reader reports fields that the models refuse."""
        first: dict[str, Place] = {}
        for rule, place in self._named(context):
            if rule.name in first:
                related = [Label(first[rule.name], "the name is used here first")]
                message = f"two guardrails are called `{rule.name}`"
                yield self.finding(message, "give each its own name", place, related=related)
            first.setdefault(rule.name, place)
        for number, condition in context.facts.conditions:
            if condition.cases is not None:
                yield from self._case_names(condition, Place((*context.facts.flow.layout.path(number), "cases")))
        for number, step in enumerate(context.facts.flow.steps):
            yield from self._routing(context, number, step, Place(context.facts.flow.layout.path(number)))
        for number in context.facts.flow.layout.bodies:
            if context.facts.meaning.most_items(number) is None:
                step, place = context.facts.bodies.each(number), Place(context.facts.flow.layout.path(number))
                message = f"`max_items` is missing in `{step.id}`, and the type of its list has no `maxItems`"
                yield self.finding(message, "add `max_items`", place, step=step.id)
        for site in context.facts.meaning.calls:
            yield from self._failure(site.call, Place(site.path))
            yield from self._deadline(context, site.call, Place(site.path))
            if isinstance(site.call, LlmCall):
                yield from self._replies(site.call, Place(site.path))

    def _deadline(self, context: Context, call: AnyCall, place: Place) -> Iterator[Finding]:
        if not isinstance(call, ToolCall) or call.deadline_seconds is None:
            return
        if call.tool in context.facts.meaning.manifest and not context.facts.meaning.tool(call.tool).suspends:
            message = f"`deadline_seconds` never applies: `{call.tool}` does not suspend"
            help = f"remove it, or write `suspends: true` for `{call.tool}`"
            yield self.finding(message, help, place.child("deadline_seconds"), step=call.id)

    @staticmethod
    def _named(context: Context) -> Iterator[tuple[AnyRule, Place]]:
        """Yield the guardrails of the program and of its bodies."""
        for number, rule in enumerate(context.facts.program.guardrails):
            yield rule, Place(("guardrails", number, "name"))
        for owner in context.facts.flow.layout.bodies:
            for number, rule in enumerate(context.facts.bodies.each(owner).guardrails):
                yield rule, Place((*context.facts.flow.layout.rules_path(owner), number, "name"))

    def _replies(self, step: LlmCall, place: Place) -> Iterator[Finding]:
        for number, reply in enumerate(step.allowed_outputs or ()):
            if reply != reply.strip():
                message = f"no reply is ever `{reply}`: white space at both ends of a reply is left out"
                reply_place = place.child("allowed_outputs", number)
                help = f"write `{reply.strip()}`" if reply.strip() else "remove it"
                yield self.finding(message, help, reply_place, step=step.id)

    def _case_names(self, step: ConditionStep, place: Place) -> Iterator[Finding]:
        """Yield every name that two branches share: a guardrail that names a branch must mean one of them."""
        used = {"then": "`then` and `otherwise` name the branches of every condition", "otherwise": ""}
        used["otherwise"] = used["then"]
        for position, case in enumerate(step.cases or ()):
            if case.name in used:
                message = f"a case can't be called `{case.name}`: {used[case.name]}"
                yield self.finding(message, "give it another name", place.child(position, "name"), step=step.id)
            elif case.name is not None:
                used[case.name] = "another case has this name"

    def _routing(self, context: Context, number: int, step: BaseStep, place: Place) -> Iterator[Finding]:
        if not isinstance(step, Routed):
            return
        if step.next_step is not None and step.is_terminal:
            message = "`next_step` and `is_terminal: true` contradict each other"
            yield self.finding(message, "keep one of the two", place.child("is_terminal"), step=step.id)
        flow = context.facts.flow
        left_at = flow.layout.bodies[number].next if number in flow.layout.bodies else number
        leaving = (one for one in flow.transitions[left_at] if one.kind == "success")
        if step.outcome is not None and not any(one.ending is not None for one in leaving):
            message = "`outcome` is on a step that does not end the run"
            help = "remove it; it belongs on a step that ends the run"
            yield self.finding(message, help, place.child("outcome"), step=step.id)
        if isinstance(step, FailingStep) and step.on_error == "skip" and step.error_step:
            message = "`on_error: skip` and `error_step` contradict each other: a failure can't go on and go elsewhere"
            help = f"remove `on_error: skip`, so that a failure goes to `{step.error_step}`"
            yield self.finding(message, help, place.child("error_step"), step=step.id)

    def _failure(self, step: AnyCall, place: Place) -> Iterator[Finding]:
        if step.on_timeout == "fallback" and step.fallback is None:
            message = "`on_timeout: fallback` has no `fallback`"
            first = step.allowed_outputs[0] if isinstance(step, LlmCall) and step.allowed_outputs else ""
            help = f"write the value out, such as `fallback: '{first}'`"
            yield self.finding(message, help, place.child("on_timeout"), step=step.id)
        if step.on_timeout == "fallback" and step.timeout_seconds is None:
            message = "`on_timeout: fallback` has no `timeout_seconds`, so it never applies"
            yield self.finding(message, "add `timeout_seconds`", place.child("on_timeout"), step=step.id)
        if step.fallback is not None and step.on_timeout != "fallback":
            message = "`fallback` never applies without `on_timeout: fallback`"
            yield self.finding(
                message, "add `on_timeout: fallback`, or remove it", place.child("fallback"), step=step.id
            )
        if isinstance(step, LlmCall) and step.allowed_outputs is not None and step.returns is not None:
            message = "`allowed_outputs` and `returns` are two ways to say what a reply is"
            yield self.finding(message, "keep one of the two", place.child("returns"), step=step.id)


class DuplicateKey(ReportedElsewhere):
    """A mapping has the same key twice, so one of the two values is lost without a message.

    ## What it does
    Reports every key that occurs a second time in a mapping, in YAML, in JSON and in Python source. The finding is at
    the second key.

    ## Why it is bad
    Most readers of YAML and JSON use the last of the two values, and some use the first. The other value has no effect,
    and nobody notices.

    ## Example
    ```yaml
    name: newsletter
    tools: {send_mail: {effect: write, idempotent: true}}
    steps:
      - {id: send, type: tool, tool: send_mail, on_error: retry, max_retries: 2, max_retries: 5}
    ```

    ## Use instead
    ```yaml
    name: newsletter
    tools: {send_mail: {effect: write, idempotent: true}}
    steps:
      - {id: send, type: tool, tool: send_mail, on_error: retry, max_retries: 5}
    ```
    """

    code = "SW003"
    name = "duplicate-key"


class TooLarge(ReportedElsewhere):
    """The document is over a limit on its size, nesting, aliases or steps.

    ## What it does
    Reports a file of more than 32 MiB, nesting deeper than 100 levels, YAML aliases that expand to more than 100,000
    values, a number of more than 4,000 characters, and a program of more than 250,000 steps. The reader checks the
    limits while it reads, before it uses much memory.

    ## Why it is bad
    A few short lines of aliases can expand to a thousand million values, and crash the program that reads them. A
    program near the other limits usually contains data that belongs in another file.

    ## Example
    Each line repeats the line before it ten times, so the last line has a million texts:

    ```yaml
    name: price_list
    tools: {write_rows: {effect: write, idempotent: true}}
    steps:
      - id: write
        type: tool
        tool: write_rows
        args:
          cell: &cell [std, std, std, std, std, std, std, std, std, std]
          row: &row [*cell, *cell, *cell, *cell, *cell, *cell, *cell, *cell, *cell, *cell]
          sheet: &sheet [*row, *row, *row, *row, *row, *row, *row, *row, *row, *row]
          book: &book [*sheet, *sheet, *sheet, *sheet, *sheet, *sheet, *sheet, *sheet, *sheet, *sheet]
          shelf: &shelf [*book, *book, *book, *book, *book, *book, *book, *book, *book, *book]
          room: [*shelf, *shelf, *shelf, *shelf, *shelf, *shelf, *shelf, *shelf, *shelf, *shelf]
    ```

    ## Use instead
    Give the tool a short description, and let it make the rows:

    ```yaml
    name: price_list
    tools: {write_rows: {effect: write, idempotent: true}}
    steps:
      - {id: write, type: tool, tool: write_rows, args: {value: std, count: 1000000}}
    ```
    """

    code = "SW004"
    name = "too-large"


class DuplicateId(Rule):
    """Two steps share an id, so a target that names it is ambiguous.

    ## What it does
    Reports every step and sub-step that has the same id as an earlier one, and shows the earlier one. Steps and
    sub-steps share one set of ids. Also reports a waiver of a policy if several checked programs
    have the name in it, because it would apply to all of them.

    ## Why it is bad
    A branch, a guardrail or a reference such as `$ask.output` could mean either step. The author may mean one, and the
    machine may use the other.

    ## Example
    ```yaml
    name: two_questions
    steps:
      - {id: ask, type: llm, prompt: "Name a colour."}
      - {id: ask, type: llm, prompt: "Name an animal."}
    ```

    ## Use instead
    ```yaml
    name: two_questions
    steps:
      - {id: ask_colour, type: llm, prompt: "Name a colour."}
      - {id: ask_animal, type: llm, prompt: "Name an animal."}
    ```
    """

    code = "SW005"
    name = "duplicate-id"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield every step and sub-step whose id was used before."""
        first: dict[str, Place] = {}
        for path, step in all_steps(context):
            place = Place((*path, "id"))
            if step.id in first:
                related = [Label(first[step.id], "the id is used here first")]
                message = f"the id `{step.id}` is used twice"
                is_step = len(path) == 2 and len(first[step.id].path) > 3
                help = f"give {'the sub-step above' if is_step else 'this step'} an id of its own"
                yield self.finding(message, help, place, step=step.id, related=related)
            first.setdefault(step.id, place)


class NameCollision(Rule):
    """An input or a step id is assigned, or an input and a step share a name.

    ## What it does
    Reports an `output_key` or a name in `set` that is also an input or the id of a step or sub-step. It also reports an
    input with the name of a step, and one name for `as` and `index_as`. The `output_key` of a step may be the step's
    own id. Several steps may assign the same variable.

    ## Why it is bad
    An input has the caller's value during the whole run, and the steps that read it rely on that. If a name is both a
    variable and a step, `$name.output` could be a field of the variable or the output of the step.

    ## Example
    ```yaml
    name: add_fee
    inputs: {amount: {type: number}}
    steps:
      - {id: fee, type: set, set: {amount: $amount + 25}}
      - {id: done, type: end, output: $amount}
    ```

    ## Use instead
    ```yaml
    name: add_fee
    inputs: {amount: {type: number}}
    steps:
      - {id: fee, type: set, set: {total: $amount + 25}}
      - {id: done, type: end, output: $total}
    ```
    """

    code = "SW006"
    name = "name-collision"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield inputs that share a name with a step, and assignments to an input or to another step's id."""
        inputs = {name: Place(("inputs", name), key=True) for name in context.facts.program.inputs or {}}
        for call in context.facts.flow.steps:
            if isinstance(call, InvokeStep):
                inputs |= {call.inside(name): Place((*call.home, "inputs", name), key=True) for name in call.declared}
        ids = {step.id: Place((*path, "id")) for path, step in reversed(list(all_steps(context)))}
        for name, place in inputs.items():
            if name in ids:
                related = [Label(ids[name], "the step is here")]
                message = f"the input `{name}` and a step share one name"
                yield self.finding(message, "rename one of the two", place, related=related)
        for path, step in all_steps(context):
            for name, place in _assigned(path, step):
                if name in inputs:
                    related = [Label(inputs[name], "the input is declared here")]
                    message = f"the input `{name}` is assigned"
                    yield self.finding(message, "assign another name", place, step=step.id, related=related)
                elif name in ids and not (name == step.id and place.path[-1] == "output_key"):
                    related = [Label(ids[name], "the step is here")]
                    message = f"`{name}` is the id of a step, and is assigned"
                    yield self.finding(message, "assign another name", place, step=step.id, related=related)
        yield from self._crossing(context)
        yield from self._same_name(context)

    def _same_name(self, context: Context) -> Iterator[Finding]:
        """Yield the steps whose `as` and `index_as` are one name: the index takes the place of the item."""
        for path, step in all_steps(context):
            if isinstance(step, ForEachStep) and not step.is_once and step.index_as == step.item_name:
                message = f"`{step.item_name}` names an item and its index"
                place, related = Place((*path, "index_as")), [Label(Place((*path, "as")), "it names the item here")]
                yield self.finding(message, "choose another name", place, step=step.id, related=related)

    def _crossing(self, context: Context) -> Iterator[Finding]:
        """Yield the names that a body binds although the steps around it assign them."""
        layout = context.facts.flow.layout
        for binding, around in crossings(context.facts.program):
            if around[0] == "inputs" and not binding.of_item:
                continue  # it is reported as an assignment to an input
            step, place = layout.steps[binding.step], Place(binding.path, key=binding.path[-2] in ("set", "carry"))
            related = [Label(Place(around, key=around[-2] in ("set", "carry", "inputs")), "it is assigned here")]
            message = f"`{binding.name}` belongs to the steps around the body, which must not assign it"
            help = "assign another name, or list it under `carry` of the step with the body"
            if binding.of_item:
                message, help = (
                    f"`{binding.name}` belongs to the steps around, and names an item",
                    "choose another name",
                )
            yield self.finding(message, help, place, step=step.id, related=related)


def all_steps(context: Context) -> Iterator[tuple[Path, AnyPart]]:
    """Yield every step and sub-step with its path, in the order of the list."""
    layout = context.facts.program.layout
    for number, step in enumerate(layout.steps):
        for sub, part in parts(step) if not isinstance(step, Stage) else ():
            yield layout.path(number, sub), part


def _assigned(path: Path, step: AnyPart) -> Iterator[tuple[str, Place]]:
    for name, value in step.assigns.items() if not isinstance(step, InvokeStep) else ():
        word, written = (
            "carry" if isinstance(step, ForEachStep) else "set",
            value if isinstance(value, Paths) else [name],
        )
        yield name, Place((*path, word, next(iter(written))), key=True)
    if isinstance(step, ForEachStep) and not step.is_once:
        yield step.item_name, Place((*path, "as"))
        if step.index_as is not None:
            yield step.index_as, Place((*path, "index_as"))
    if isinstance(step, Failing) and step.output_key is not None:
        yield step.output_key, Place((*path, "output_key"))
