"""Signatures: the type of what a session returns, as a model writes it: `{:total :float, :ids [:string]}`."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Braces, Brackets, Form, Literal
from stepward.vm.lisp.reader import read
from stepward.vm.lisp.values import Keyword

_TYPES: Final[dict[str, Any]] = {
    "string": "string",
    "keyword": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "map": "object",
    "list": "array",
    "vector": "array",
    "nil": "null",
    "any": ["null", "boolean", "number", "string", "array", "object"],
}

MAX_LENGTH: Final = 4_000
"""Characters of the longest signature."""


def signature_type(text: str) -> dict[str, Any]:
    """Return the type that a signature means, as plain data; raises ValueError with what is wrong.

    A keyword names a type, `[:int]` is a list, `{:total :float}` a map with this key. `?` behind a name means that the
    value may be nil, or left out of a map.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the signature has more than {MAX_LENGTH:,} characters")
    try:
        forms = read(text)
    except Fault as fault:
        raise ValueError(f"the signature can't be read: {fault.message}") from None
    if len(forms) != 1:
        raise ValueError("a signature is one form")
    return _type(forms[0])


def _type(form: Form) -> dict[str, Any]:
    match form:
        case Literal(value=Keyword(name=name)):
            known = _TYPES.get(name.removesuffix("?"))
            if known is None:
                raise ValueError(f"`:{name}` is no type; the types are {', '.join(f':{one}' for one in _TYPES)}")
            if name.endswith("?") and isinstance(known, str):
                known = [known, "null"]
            return {"type": known}
        case Brackets(items=(item,)):
            return {"type": "array", "items": _type(item)}
        case Braces(items=items) if items:
            fields, required = {}, []
            for key, item in zip(items[::2], items[1::2], strict=True):
                if not isinstance(key, Literal) or not isinstance(key.value, Keyword | str):
                    raise ValueError("a key of a map in a signature is a keyword or a text")
                name = key.value.name if isinstance(key.value, Keyword) else str(key.value)
                fields[name] = _type(item)
                is_optional = (
                    isinstance(item, Literal) and isinstance(item.value, Keyword) and item.value.name.endswith("?")
                )
                required += [] if is_optional else [name]
            return {"type": "object", "properties": fields, **({"required": required} if required else {})}
        case _:
            raise ValueError("a signature is a type such as `:string`, a list `[:int]` or a map `{:total :float}`")
