"""What is wrong with data from outside: the field and the rule, never the value, which may be a secret."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError


def first_fault(error: ValidationError, model: type[BaseModel]) -> tuple[str, str]:
    """Return the field of the first fault, and the rule that it breaks; the field is empty where none has its name."""
    fault = error.errors(include_input=False, include_context=False, include_url=False)[0]
    if fault["type"] == "extra_forbidden":
        return "", "it has a field that is not known"
    # Below a field there may be keys that somebody made up.
    known = [str(part) for part in fault["loc"] if isinstance(part, int) or part in model.model_fields]
    return ".".join(known), fault["msg"][:1].lower() + fault["msg"][1:]
