"""Replay: resume tokens that are used again or elsewhere, or were never issued."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.needs import WAIT
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.delivering import MAX_STOPS, refused, stopped, suspended
from stepward.sabotage.playing.interleaving import Work, interleave
from stepward.sabotage.playing.pausing import Paused
from stepward.sabotage.playing.points import Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.variants import lists_in, variant
from stepward.sabotage.target import Target
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.language.program import Program
from stepward.vm.machine.keys import shown
from stepward.vm.machine.refusals import DeliveryRefused, RunBusy
from stepward.vm.machine.run import Run
from stepward.vm.values import to_json

if TYPE_CHECKING:
    from collections.abc import Callable


ON_ITS_WAY: Final = "on its way when it was used"


class TokenAttack(Attack):
    """The base of attacks with resume tokens."""

    family = Family.REPLAY
    surface = "resume token"
    invariant = Invariant.DELIVERY
    needs: ClassVar[tuple[Need, ...]] = (WAIT,)


def _another_payload(trial: Trial, step: str) -> Any:
    """Return a payload of the attacker that the step would accept."""
    target = trial.case.target
    return trial.case.pick(trial.named(f"forged payload for {step}"), target.output(target.calls[step]))


class TokenTwice(TokenAttack):
    """A used token is delivered again, once or several times, at once or after the run has ended. Or a second delivery
    is on its way when the first one comes, and the run then waits at the same step again."""

    action = "delivered again after it was used, or while it is used"
    defence = "a token is valid only for a step that waits, and its delivery ends the wait"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Deliver, deliver again, and check that only the first one counts."""
        from hypothesis import strategies as st

        when = case.pick("the token comes again", st.sampled_from(["at once", "after the end", ON_ITS_WAY]))
        if when == ON_ITS_WAY:
            return self._overtaken(case)
        trial = Trial(case, faults=False)
        machine = trial.machine()
        run = suspended(trial, trial.start(machine))
        token = run.suspensions[0]
        run = trial.deliver(run, machine)
        if when == "after the end":
            run = trial.carry_on(run, machine)
        for _ in range(case.pick("how often", st.integers(1, 3))):
            payload = _another_payload(trial, token.step)
            refused(
                trial,
                f"deliver the used token of `{token.step}` again",
                trial.machine().resume(token.token, payload, by=trial.settler),
            )
        trial.oracle.judge(trial.carry_on(trial.reload()))
        return Outcome.BLOCKED

    def _overtaken(self, case: Case) -> Outcome:
        """Let a delivery stand still before it leases the run, and deliver the same token meanwhile."""
        trial = Trial(case, target=variant(case.target, "waits twice", _wait_twice), faults=False)
        run = suspended(trial, trial.start())
        token = run.suspensions[0]
        payload = _another_payload(trial, token.step)
        case.act(f"resume `{token.step}`")
        with Paused(
            case, 0, lambda points: trial.machine(points).resume(token.token, payload, by=trial.settler)
        ) as late:
            trial.deliver(run, trial.machine())
            result = late.go_on()
        is_refused = isinstance(result, DeliveryRefused)
        case.hold(is_refused, self.invariant, f"the second delivery of a token came to {result}")
        trial.oracle.judge(trial.carry_on(trial.reload()))
        return Outcome.BLOCKED


def _wait_twice(data: dict[str, Any]) -> None:
    """Let each step that suspends be visited twice before the run goes on."""
    waits = {name for name, facts in (data.get("tools") or {}).items() if facts.get("suspends")}
    pairs = [pair for steps in lists_in(data).values() for pair in zip(steps, [*steps[1:], None], strict=True)]
    for step, following in pairs:
        successor = step.get("next_step") or (following and following["id"])
        if step.get("tool") in waits and successor and not step.get("is_terminal"):
            step.update(next_step=step["id"], max_visits=2, error_step=successor)
            for other in ("on_error", "catch"):
                step.pop(other, None)


class TokenRaced(TokenAttack):
    """Two to four processes deliver one token at the same time, in any order of their steps."""

    action = "delivered by several processes at once"
    defence = "the holder of the lease checks again that the run still waits for the token"
    weight = 4

    def play(self, case: Case) -> Outcome:
        """Let them race, and check that exactly one delivery counts, and its consequences happen once."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = suspended(trial, trial.start())
        token = run.suspensions[0]
        payload = trial.payload(token.step)
        count = case.pick("processes", st.integers(2, 4))
        case.act(f"{count} processes resume `{token.step}` at once", count)

        def deliver(points: Points) -> Any:
            return trial.machine(points).resume(token.token, payload, by=trial.settler)

        works: dict[str, Work] = {str(number): deliver for number in range(1, count + 1)}
        results = case.do(interleave(case, works))
        accepted = [name for name, result in results.items() if isinstance(result, Run)]
        others = [result for result in results.values() if not isinstance(result, Run | DeliveryRefused)]
        if others:
            raise Breach(Invariant.REFUSAL, f"{type(others[0]).__name__} was raised: {others[0]}")
        case.hold(len(accepted) == 1, Invariant.DELIVERY, f"one token was taken {len(accepted)} times")
        trial.oracle.judge(trial.carry_on(trial.reload()))
        return Outcome.BLOCKED


class TokenOfAnotherStep(TokenAttack):
    """Tokens of earlier steps and visits are delivered wherever the run waits later."""

    action = "delivered where another step, or another visit, waits"
    defence = "a token is bound to its step and its visit"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Drive the run, and try every old token at every stop."""
        trial = Trial(case, faults=False)
        machine = trial.machine()
        run = trial.start(machine)
        old: list[tuple[str, str]] = []
        tried = False
        for _ in range(MAX_STOPS):
            if run.is_over:
                break
            for step, token in old if run.suspensions else ():
                tried = True
                waiting = run.suspensions[0].step
                payload = _another_payload(trial, waiting)
                what = f"deliver the old token of `{step}` while `{waiting}` waits"
                refused(trial, what, trial.machine().resume(token, payload, by=trial.settler))
            if run.suspensions:
                old.append((run.suspensions[0].step, run.suspensions[0].token))
            run = trial.deliver(run, machine)
        trial.oracle.judge(trial.carry_on(run, machine))
        return Outcome.BLOCKED if tried else Outcome.NOT_APPLICABLE


SIBLINGS: Final = Need("no calls wait beside each other", lambda target: target.program.layout.has_siblings)


class TokensInAnyOrder(TokenAttack):
    """A run waits in several branches or items at once, and is answered in any order. Each token that was used is
    delivered again while the others wait."""

    action = "delivered in any order where a run waits in several places at once, and again while others wait"
    defence = "a token settles the one call that it was made for, and those that wait beside it keep theirs"
    weight = 2
    needs = (WAIT, SIBLINGS)

    def play(self, case: Case) -> Outcome:
        """Answer in any order, and check after each answer that the others still wait, and that the token is used."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = trial.start()
        outcome = Outcome.NOT_APPLICABLE
        for stop in range(MAX_STOPS):
            if run.is_over:
                break
            if run.doubts or not run.suspensions:
                run = trial.deliver(run, trial.machine())
                continue
            waiting = run.suspensions
            one = waiting[case.pick(f"which is answered at stop {stop}", st.integers(0, len(waiting) - 1))]
            payload, place = trial.payload(one.step), shown(one.frame, one.step)
            case.act(f"resume `{place}` with {to_json(payload)}")
            run = case.do(trial.machine().resume(one.token, payload, by=trial.settler))
            left = {other.token for other in waiting if other != one} - {other.token for other in run.suspensions}
            case.hold(run.is_over or not left, self.invariant, f"after an answer to `{place}` others wait no more")
            if len(waiting) > 1 and not run.is_over:
                outcome = Outcome.BLOCKED
                again = _another_payload(trial, one.step)
                refused(
                    trial,
                    f"deliver the used token of `{place}`",
                    trial.machine().resume(one.token, again, by=trial.settler),
                )
        trial.oracle.judge(trial.carry_on(run))
        return outcome


class TokensAtOnce(TokenAttack):
    """A run waits in several branches or items at once, and two processes answer two of them at the same time."""

    action = "two of one run delivered at the same time"
    defence = "whoever has the lease reads the run again, so that an answer changes nothing of the other one"
    weight = 4
    needs = (WAIT, SIBLINGS)

    def play(self, case: Case) -> Outcome:
        """Let two processes answer, interleaved, and check that both answers count."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = stopped(trial, trial.start(), lambda one: len(one.suspensions) > 1)
        waiting = case.needs(run.suspensions if len(run.suspensions) > 1 else ())
        first = case.pick("the first of two neighbours", st.integers(0, len(waiting) - 2))
        pair = waiting[first : first + 2]
        payloads = [trial.payload(pair[0].step)]
        if pair[0].step == pair[1].step:  # whichever comes first
            trial.oracle.known(pair[0].step, trial.oracle.due(pair[0].step) + 1, payloads[0])
            payloads *= 2
        else:
            payloads.append(trial.payload(pair[1].step))
        places = [shown(one.frame, one.step) for one in pair]
        case.act(f"two processes resume `{places[0]}` and `{places[1]}` with {to_json(payloads[0])}", 2)
        works: dict[str, Work] = {
            place: partial(_resumed, trial, one.token, payload)
            for place, one, payload in zip(places, pair, payloads, strict=True)
        }
        results = case.do(interleave(case, works))
        after = trial.reload()
        for place, result in results.items():
            is_known = isinstance(result, Run | RunBusy | DeliveryRefused)
            case.hold(is_known, Invariant.REFUSAL, f"{type(result).__name__} was raised: {result}")
            is_taken = not isinstance(result, DeliveryRefused) or after.is_over
            case.hold(is_taken, self.invariant, f"the answer to `{place}` is refused beside another one")
        trial.oracle.judge(trial.carry_on(after))
        return Outcome.ABSORBED


async def _resumed(trial: Trial, token: str, payload: Any, points: Points) -> Run:
    return await trial.machine(points).resume(token, payload, by=trial.settler)


class TokenOfAnotherRun(TokenAttack):
    """Two runs wait at the same step, and a token of one is turned into a token for the other."""

    action = "made for another run by exchanging the id in it"
    defence = "every performance has its own secret, and the digest of the secret is bound to the run"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Start two equal runs, exchange the halves of their tokens, and check that both are refused."""
        mine, other = Trial(case, faults=False), Trial(case, faults=False)
        own = suspended(mine, mine.start())
        foreign = suspended(other, other.start())
        step = own.suspensions[0].step
        payload = _another_payload(mine, step)
        for trial, run, source in ((other, foreign, own), (mine, own, foreign)):
            forged = f"{run.id}.{secret_of(source.suspensions[0].token)}"
            refused(
                trial,
                f"deliver the token of the other run at `{step}`",
                trial.machine().resume(forged, payload, by=trial.settler),
            )
        for trial, run in ((mine, own), (other, foreign)):
            trial.oracle.judge(trial.carry_on(run))
        return Outcome.BLOCKED


class TokenOfAnotherProgram(TokenAttack):
    """A run with the same id waits in another store, in a program that differs by one character; its token is used
    here."""

    action = "taken from a run with the same id in another program"
    defence = "a token is a new secret, and its digest is bound to the program"
    severity = "high"
    weight = 3

    def play(self, case: Case) -> Outcome:
        """Start the program and its variant in two stores, exchange their tokens, and check that both are refused."""
        here, there = Trial(case, faults=False), Trial(case, faults=False, store=MemoryJournal())
        there.run = here.run
        run = suspended(here, here.start())
        case.act("run a program under the same id in another store that differs by one character")
        started = case.do(there.machine().run(redescribed(case.target), there.inputs, run_id=there.run, by=there.by))
        twin = stopped(there, started, lambda one: one.suspensions)
        assert twin.suspensions, "a program that differs in its description goes the same way"
        payload = _another_payload(here, run.suspensions[0].step)
        what = "deliver the token of the other program"
        refused(here, what, here.machine().resume(twin.suspensions[0].token, payload, by=here.settler))
        refused(there, what, there.machine().resume(run.suspensions[0].token, payload, by=there.settler))
        here.oracle.judge(here.carry_on(run))
        there.oracle.judge(there.carry_on(twin))
        return Outcome.BLOCKED


class GuessedToken(TokenAttack):
    """An attacker who has seen tokens, the journal and the keys of tools makes tokens from them."""

    action = "guessed: edited, cut, exchanged, or taken from the journal"
    defence = "the secret of a token is random, and the journal contains only its digest"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Deliver a forgery where the run waits, and check that it is refused and the true token still counts."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        run = suspended(trial, trial.start())
        waiting = run.suspensions[0]
        how = case.pick("the forgery", st.sampled_from(sorted(FORGERIES)))
        forged = FORGERIES[how](trial, waiting.token)
        case.needs(forged != waiting.token)
        payload = _another_payload(trial, waiting.step)
        refused(trial, f"deliver a token that is {how}", trial.machine().resume(forged, payload, by=trial.settler))
        trial.oracle.judge(trial.carry_on(run))
        return Outcome.BLOCKED


def secret_of(token: str) -> str:
    """Return the secret half of a token."""
    return token.rpartition(".")[2]


def _digest(trial: Trial, token: str) -> str:
    """Return the token with its digest in the journal in place of its secret."""
    intents = [record["note"] for record in trial.oracle.records if "token" in record["note"]]
    return f"{trial.run}.{intents[-1]['token']}" if intents else token


def _key(trial: Trial, token: str) -> str:
    keys = [call.asking.key for call in trial.world.attempts if call.asking.key]
    return f"{trial.run}.{keys[-1]}" if keys else token


_URL_TO_PLAIN: Final = str.maketrans("-_", "+/")

FORGERIES: Final[dict[str, Callable[[Trial, str], str]]] = {
    "a digest from the journal": _digest,
    "an idempotency key": _key,
    "cut by a character": lambda _, token: token[:-1],
    "cut to half of its secret": lambda _, token: token[: -len(secret_of(token)) // 2],
    "empty behind the run": lambda trial, _: f"{trial.run}.",
    "in other letters": lambda trial, token: f"{trial.run}.{secret_of(token).swapcase()}",
    "longer by a character": lambda _, token: f"{token}A",
    "longer by a space": lambda _, token: f"{token} ",
    "of another alphabet": lambda trial, token: f"{trial.run}.{secret_of(token).translate(_URL_TO_PLAIN)}",
    "only the run": lambda trial, _: trial.run,
    "only the secret": lambda _, token: secret_of(token),
    "read backwards": lambda trial, token: f"{trial.run}.{secret_of(token)[::-1]}",
    "the halves exchanged": lambda trial, token: f"{secret_of(token)}.{trial.run}",
    "the name of any file": lambda trial, token: f"../{trial.run}.{secret_of(token)}",
}


def redescribed(target: Target) -> Program:
    """Return a different but equivalent program: it has one more character in its description."""
    return target.once(("redescribed",), lambda: _redescribed(target.program))


def _redescribed(program: Program) -> Program:
    data = program.to_dict()
    return Program.from_dict({**data, "description": f"{data.get('description') or ''}."})
