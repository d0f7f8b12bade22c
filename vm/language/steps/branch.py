"""A branch as a point of control flow: the start of its body. No document writes it as a step."""

from __future__ import annotations

from stepward.vm.language.steps.for_each import ForEachStep
from stepward.vm.language.steps.parallel import Branch
from stepward.vm.language.transitions import SUCCESS, Exit


class BranchStep(ForEachStep):
    """The start of a branch: a body that is performed once.

    It is a step with one item that nobody names. `owner` is the id of the parallel step, and `needs` are the branches
    that come before it. Whoever asks where control goes gets the branches one after another, in the order of `needs`:
    what a branch does depends on nothing that its siblings do at the same time. The machine runs them side by side.
    """

    owner: str
    needs: tuple[str, ...]

    is_once = True

    @classmethod
    def of(cls, owner: str, name: str, branch: Branch) -> BranchStep:
        """Return the start of a branch of the parallel step with the id `owner`."""
        return cls._of(
            {
                "id": name,
                "type": "for_each",
                "as": f"{name} item",
                "items": (None,),
                "steps": branch.steps,
                "guardrails": branch.guardrails,
                "on_error": "skip",
                "owner": owner,
                "needs": branch.depends_on,
            }
        )

    @property
    def exits(self) -> tuple[Exit, ...]:
        """The exits of its start: into its body, or past it where a branch that it depends on has failed."""
        return (SUCCESS, Exit("skipped")) if self.needs else (SUCCESS,)
