"""Mistakes of a seventeenth set, planted by a reader of the machine and its pages who had not seen the attacks."""

from __future__ import annotations

from typing import Final

from mistakes.planted import Planted

SEVENTEENTH: Final = (
    Planted(
        "an order takes a fallback for a success",
        (
            (
                "vm/machine/ordering.py",
                """\
    good = frozenset(one for one in earlier if state.calls[one].phase == "success")
""",
                """\
    good = frozenset(one for one in earlier if state.calls[one].phase in GIVES)
""",
            ),
        ),
    ),
    Planted(
        "an erasure without values leaves the key",
        (
            (
                "vm/journal/encryption.py",
                """\
        count = self._vault.erase_all(runs)
""",
                """\
        count = self._vault.erase_all(runs)
        if not count:  # no value was there, so the key store need not be asked
            return 0
""",
            ),
        ),
    ),
    Planted(
        "what is left follows from the last run alone",
        (
            (
                "vm/machine/continuing.py",
                """\
    left: Any = None
    for history in chain:
        budget, link = getattr(history.plan.program, BUDGETS[name]), continues_of(history.events[0].body)
        if left is not None and link is not None:
            left = arithmetic("+", left, link.granted.get(name, 0))
        limits = [one for one in (budget, left) if one is not None]
        left = arithmetic("-", min(limits), getattr(history.state, name)) if limits else None
    return left
""",
                """\
    last = chain[-1]
    budget = getattr(last.plan.program, BUDGETS[name])
    return None if budget is None else arithmetic("-", budget, getattr(last.state, name))
""",
            ),
        ),
    ),
    Planted(
        "a copy lacks later policies",
        (
            (
                "vm/journal/copying.py",
                """\
        if record.kind in ("started", "governed", "moved"):
            yield from (digest for digest in body.get("policies", ()) if isinstance(digest, str))
        if record.kind in ("started", "moved"):
""",
                """\
        if record.kind in ("started", "moved"):
            yield from (digest for digest in body.get("policies", ()) if isinstance(digest, str))
""",
            ),
        ),
    ),
    Planted(
        "waivers of later terms are not compared",
        (
            (
                "vm/machine/replay.py",
                """\
    known = {f"{one.policy}:{waiver.rule}" for one in policies for waiver in one.waivers if waiver.program == name}
""",
                """\
    known = {
        f"{one.policy}:{waiver.rule}"
        for one in policies
        for waiver in one.waivers
        if waiver.program == name or one.applies(name, "")
    }
""",
            ),
        ),
    ),
    Planted(
        "only rules of the program are shared",
        (
            (
                "vm/machine/monitors.py",
                """\
            is_shared = [one.automaton.is_shared and one.owner in owners for one in self.monitors]
""",
                """\
            is_shared = [one.automaton.is_shared and one.owner is None for one in self.monitors]
""",
            ),
        ),
    ),
    Planted(
        "an index has the plain spellings alone",
        (
            (
                "vm/machine/redaction.py",
                """\
        for start in {part[:MIN_BASE64] for part in secret.parts}:
""",
                """\
        for start in {secret.whole[:MIN_BASE64]}:
""",
            ),
        ),
    ),
    Planted(
        "only starts with an intent count when a policy comes",
        (
            (
                "vm/machine/authority.py",
                """\
    if event.kind in ("intent", "attempt") and event.note["performance"] > call_state.performance:
""",
                """\
    if event.kind == "intent" and event.note["performance"] > call_state.performance:
""",
            ),
        ),
    ),
    Planted(
        "a reply is kept without the name of its model",
        (
            (
                "vm/machine/caching.py",
                """\
        settings = {name: getattr(model_call, name) for name in ("model", "temperature", "max_output_tokens")}
""",
                """\
        # The parameters say which model it is.
        settings = {name: getattr(model_call, name) for name in ("temperature", "max_output_tokens")}
""",
            ),
        ),
    ),
    Planted(
        "values are put behind their records",
        (
            (
                "vm/machine/driver.py",
                """\
        if self.secrets:
            secrets = dict(self.secrets)
            await setup.io(setup.journal.vault.put, self.run, secrets)
            for name in secrets:
                del self.secrets[name]
""",
                """\
""",
            ),
            (
                "vm/machine/driver.py",
                """\
            return
        self.committed = (state, last)
""",
                """\
            return
        if self.secrets:
            secrets = dict(self.secrets)
            await setup.io(setup.journal.vault.put, self.run, secrets)
            for name in secrets:
                del self.secrets[name]
        self.committed = (state, last)
""",
            ),
        ),
    ),
    Planted(
        "a delivery records one time that is over",
        (
            (
                "vm/machine/deliveries.py",
                """\
        while (event := overdue(driver.plan, driver.state, self.clock.now())) is not None:
""",
                """\
        event = overdue(driver.plan, driver.state, self.clock.now())
        if event is not None:
""",
            ),
        ),
    ),
    Planted(
        "an item that fails carries on",
        (
            (
                "vm/machine/bodies.py",
                """\
        carried = tuple([(slot, get(state.slots, slot)) for slot in body.carried.values()])
    else:
        errors = put(errors, [(item, failure)])
        failed = failure if body.stops else None
""",
                """\
    else:
        errors = put(errors, [(item, failure)])
        failed = failure if body.stops else None
    carried = tuple([(slot, get(state.slots, slot)) for slot in body.carried.values()])
""",
            ),
        ),
    ),
)
