"""Small random programs with every feature, compared with the reference interpreter.

No attack here has a special target. The meaning of a run is decided at hundreds of places in the machine; each shows in
some small program, and the reference predicts the result.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar, Final

from stepward.sabotage.attack import Attack, Family, Severity
from stepward.sabotage.attacks.tampering import receipt_for
from stepward.sabotage.drawn.cases import THEMES, drawn_case
from stepward.sabotage.drawn.lockstep import played
from stepward.sabotage.drawn.machine import DAYS, DrawnCase, Parted, Processes
from stepward.sabotage.drawn.spelled import spelled
from stepward.sabotage.drawn.typed import TypedCalls, drawn_pairs
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.reference.plain import same, to_value
from stepward.vm import Program
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.verify import verify, verify_all
from stepward.vm.machine.replay import cached_plans, replay, replayer
from stepward.vm.values import freeze, to_json

_BROKEN: Final = {
    "inputs": Invariant.DATA,
    "charges": Invariant.BOUNDS,
    "values": Invariant.DATA,
    "arguments": Invariant.DATA,
    "sensitive": Invariant.SECRECY,
    "secrets": Invariant.SECRECY,
    "broken": Invariant.GUARDRAIL,
    "policies and waivers on record": Invariant.PERMISSION,
    "policies of an intent": Invariant.PERMISSION,
    "performance": Invariant.ONCE,
    "key": Invariant.ONCE,
    "start that is due": Invariant.BOUNDS,
    "due": Invariant.BOUNDS,
    "performances under one key": Invariant.ONCE,
    "state when read again": Invariant.REPLAY,
    "misfits of an honest journal": Invariant.REPLAY,
}
"""The invariant that a difference of machine and reference breaks, by subject; GRAPH for all others."""


class _Drawn(Attack):
    """Random programs of one theme, each with its world."""

    surface = "program, inputs, answers and deliveries"
    invariant = Invariant.GRAPH
    defence = "the machine follows the page of the language, and the reference interpreter agrees"
    severity: ClassVar[Severity] = "high"
    weight = 5
    draws = True
    enumerates = "generated programs, one after the other"
    theme: ClassVar[str]
    programs: ClassVar[int] = 10

    def play(self, case: Case) -> Outcome:
        """Draw programs, and play each on the machine and on the reference. Raises Breach if they differ."""
        seed = case.seed()
        for number in case.each("program", range(self.programs)):
            try:
                self._play(case, f"{seed} {number}")
            except Parted as error:
                raise Breach(_BROKEN.get(error.about, Invariant.GRAPH), str(error)) from None
        return Outcome.ABSORBED

    def _play(self, case: Case, seed: str) -> None:
        drawn = drawn_case(self.theme, seed, case.weakness.options)
        if drawn is None:
            return
        try:
            case.count(case.do(played(drawn)).records)
        except Exception:
            _log_program(case, drawn)
            raise


def _log_program(case: Case, drawn: DrawnCase) -> None:
    case.log(f"run this program, as answers drawn from `{drawn.seed}` say: {to_json(freeze(drawn.program.to_dict()))}")
    for words, policies in (("under", drawn.policies), ("machines that go on with it have", drawn.later)):
        for policy in policies:
            case.log(f"{words} this policy: {to_json(freeze(policy.to_data()))}")


class DrawnPrograms(_Drawn):
    """Programs of every feature of the language, with faults, cancellations and deliveries."""

    family = Family.TRANSITIONS
    action = "small programs with every feature"
    theme = "all"


class DrawnTypes(_Drawn):
    """Programs whose inputs, arguments, outputs and replies have random types. Values lie at their bounds, or look like
    a value of another kind."""

    family = Family.INJECTION
    action = "values at the bounds of random types, and just outside them"
    invariant = Invariant.DATA
    theme = "types"

    def _play(self, case: Case, seed: str) -> None:
        super()._play(case, seed)
        table = TypedCalls(drawn_pairs(Random(f"typed {seed}")))
        machine = case.machine(table)
        run = case.do(machine.run(table.program, table.inputs))
        has = run.view("tool")
        for name, (spec, value, is_output, is_fine) in table.pairs.items():
            what = f"{value!r} as {'output' if is_output else 'argument'} of type {spec}"
            is_taken = f"{name}.output" in has
            case.hold(is_taken == is_fine, self.invariant, f"{what} is {'taken' if is_taken else 'refused'}")
            if is_taken and is_output:
                is_same = same(has[f"{name}.output"], to_value(value))
                case.hold(is_same, self.invariant, f"{what} becomes {has[f'{name}.output']!r}")


SPELLED: Final = 12
"""The number of expressions of a program whose values are known without a parser."""


class DrawnExpressions(_Drawn):
    """Programs of conditions and computed variables over values of every kind, and expressions that are written with
    few parentheses and in every spelling of literals."""

    family = Family.INJECTION
    action = "random conditions and computations"
    invariant = Invariant.DATA
    theme = "expressions"

    def _play(self, case: Case, seed: str) -> None:
        super()._play(case, seed)
        chance = Random(f"spelled {seed}")
        due = {f"v{number}": spelled(chance) for number in range(SPELLED)}
        steps = [{"id": "all", "type": "set", "set": {name: one.text for name, one in due.items()}}]
        program = Program.from_dict({"name": "spelled", "language": 2, "inputs": {}, "steps": steps})
        run = case.do(case.machine().run(program))
        has = run.view("tool")
        for name, one in due.items():
            is_so = name in has and same(has[name], to_value(one.value))
            case.hold(is_so, self.invariant, f"`{one.text}` is {has.get(name, run.error)!r}, and not {one.value!r}")


class DrawnRules(_Drawn):
    """Programs under guardrails, and under policies with guardrails, allow-lists and waivers."""

    family = Family.TRANSITIONS
    action = "random guardrails, allow-lists and waivers"
    invariant = Invariant.GUARDRAIL
    severity = "critical"
    theme = "rules"


class DrawnDeliveries(_Drawn):
    """Programs that wait repeatedly, under `four_eyes`, and on machines with other policies each time."""

    family = Family.INJECTION
    action = "people with and without names, and policies that are new to a run"
    invariant = Invariant.PERMISSION
    severity = "critical"
    theme = "people"


class DrawnPolicies(_Drawn):
    """Programs that wait, under policies whose names and rules begin alike, with waivers. Machines that have more
    policies, by the name or the path of the program, continue them."""

    family = Family.INJECTION
    action = "policies with names that begin alike, their waivers, and the programs that they apply to"
    invariant = Invariant.PERMISSION
    severity = "critical"
    theme = "policies"
    programs = 5


class DrawnErrors(_Drawn):
    """Programs whose tools fail with errors by name, with `catch` and `retry`. Processes die before late attempts."""

    family = Family.TRANSITIONS
    action = "errors by name, their catches, and delayed attempts across deaths"
    defence = "an error goes where its name leads, no write is tried again that may not be, and a delay survives"
    theme = "errors"


class DrawnBudgets(_Drawn):
    """Programs of retries, rounds and siblings whose budgets of steps, tokens and idle steps are small."""

    family = Family.LOAD
    action = "small budgets, retries, rounds and waves"
    invariant = Invariant.BOUNDS
    theme = "budgets"


class DrawnOrder(_Drawn):
    """Programs whose parallel steps have sub-steps with `depends_on`. Their calls return one at a time, in a drawn
    order."""

    family = Family.TRANSITIONS
    action = "sub-steps that depend on each other, and return in any order"
    theme = "order"


class DrawnBodies(_Drawn):
    """Programs with `for_each` steps, one within another, with carried variables, errors of items, rounds, and rules of
    their own."""

    family = Family.TRANSITIONS
    action = "small programs with steps that are performed for each item of a list"
    theme = "bodies"


class DrawnBranches(_Drawn):
    """Programs with parallel steps whose branches run at once, wait for each other and hold others, within bodies and
    around them. Some have outputs that do not all fit into a run."""

    family = Family.TRANSITIONS
    action = "small programs with branches, whose calls return in any order"
    theme = "branches"
    programs = 5


class DrawnItems(_Drawn):
    """Programs with `for_each` steps whose items run at once, a few at a time, beside and within other bodies."""

    family = Family.TRANSITIONS
    action = "small programs with items that run at once, whose calls return in any order"
    theme = "items"
    programs = 5


class DrawnRounds(_Drawn):
    """Small programs whose items add to what they carry on, fail, and are tried again, also within other bodies."""

    family = Family.TRANSITIONS
    action = "items that carry values on and fail, in several attempts and visits of their step"
    defence = "each item starts with what the last good one left, and each attempt with the first values"
    theme = "rounds"
    programs = 15


class DrawnJoins(_Drawn):
    """Small programs whose branches wait for each other and fail with different errors, in another order than that of
    their names."""

    family = Family.TRANSITIONS
    action = "branches that fail with different errors, in any order"
    defence = "the names of branches decide what a join comes to, not the time and not what depends on what"
    theme = "joins"
    programs = 15


class DrawnFlows(_Drawn):
    """Small programs in which sensitive values, and objects with sensitive fields, go through each construct that
    copies values. At each stop the parts that are sensitive are compared, not only the names."""

    family = Family.INJECTION
    action = "sensitive values in lists, fields, items, branches, called programs and what is carried on"
    invariant = Invariant.SECRECY
    defence = "a copy is as sensitive as what it was made of, part by part, and what a type marks besides"
    theme = "flows"
    programs = 15


class DrawnCalls(_Drawn):
    """Programs that call another program twice, or for each item, and go on where that fails or refuses its inputs."""

    family = Family.TRANSITIONS
    action = "small programs that call others"
    theme = "calls"
    programs = 5


class DrawnTime(_Drawn):
    """Programs that wait, whose suspended calls have deadlines, and whose runs may take a limited time. Clocks leap."""

    family = Family.TIME
    action = "small programs with waits, deadlines and limits of time"
    invariant = Invariant.BOUNDS
    theme = "time"
    programs = 5


class DrawnSizes(_Drawn):
    """Outputs, payloads and variables as large as allowed, or a byte larger, in characters of one to four bytes."""

    family = Family.LOAD
    action = "values at the limit of size"
    invariant = Invariant.BOUNDS
    theme = "sizes"


class DrawnSecrets(_Drawn):
    """Programs with one sensitive value or with dozens, which outputs, errors and requests repeat in each spelling."""

    family = Family.INJECTION
    action = "few and many sensitive values, repeated in each spelling"
    invariant = Invariant.SECRECY
    theme = "secrets"


class DrawnStore(_Drawn):
    """A store has runs of random programs, each played on the last day of waivers and on the day after, by processes
    that stay alive. Then the whole store is verified, with receipts, in any order."""

    family = Family.HASHES
    surface = "store of many runs"
    action = "nearly identical runs, verified together"
    invariant = Invariant.REPLAY
    defence = "each run is checked only against its own records"
    theme = "waivers"
    programs = 2

    def _play(self, case: Case, seed: str) -> None:
        store = MemoryJournal()
        chance = Random(seed)
        for number, theme in enumerate(("waivers",) * 4 + tuple(chance.sample(list(THEMES), 2))):
            drawn = drawn_case(theme, f"{seed} {number}", case.weakness.options)
            if drawn is None:
                continue
            processes: Processes = {}
            for day in chance.sample(list(DAYS), 2):
                played_then = drawn._replace(day=day)
                try:
                    case.count(case.do(played(played_then, store, f"{number} on {day}", processes)).records)
                except Exception:
                    _log_program(case, played_then)
                    raise
        self._audit(case, store, chance)

    def _audit(self, case: Case, store: MemoryJournal, chance: Random) -> None:
        """Verify all runs, then each alone in another order. Raises Breach if one is reported as damaged."""
        rows = store.rows()
        found = [replay(store, row.run) for row in rows]
        receipts = [receipt_for(again.run) for again in found if again is not None and chance.random() < 0.5]
        plans = cached_plans(store)
        verdicts = list(verify_all(store, receipts=receipts, replay=lambda run, own: replayer(store, run, own, plans)))
        for row in chance.sample(rows, len(rows)):
            verdicts.append(verify(store, row.run, replay=replayer(store, row.run, (), plans)))
        for verdict in verdicts:
            case.count()
            what = f"an honest run `{verdict.run}` among others is told of {verdict.faults[:1]}"
            case.hold(verdict.is_intact, self.invariant, what)
