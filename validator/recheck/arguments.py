"""Whether a call may start: its arguments are defined, and of the types that its tool accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, assert_never

from stepward.validator.recheck.blocks import UNDEFINED, Block, allows, meet
from stepward.validator.recheck.definite import read_by
from stepward.validator.recheck.filled_texts import is_filled_of
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.public_values import may_hold_sensitive
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.types import allows as allows_kind
from stepward.validator.recheck.types import covers, fits, has_default
from stepward.validator.recheck.whole_numbers import has_whole_numbers
from stepward.vm.expressions.building import built
from stepward.vm.expressions.syntax import Constant, Template
from stepward.vm.expressions.template import embedded
from stepward.vm.language.steps import AnyCall, ComputeStep, InvokeStep, LlmCall, ToolCall
from stepward.vm.language.types import TypeSpec

_ANY_ARRAY: Final = TypeSpec.model_construct(type=("array",))
_ANY_OBJECT: Final = TypeSpec.model_construct(type=("object",))

BlocksOf = Callable[[Names], Sequence[Block]]
"""Returns the possible blocks of a reference where the call starts."""


def starts(reading: Reading, part: AnyCall | ComputeStep, blocks_of: BlocksOf) -> tuple[bool, bool]:
    """Return whether a call may start, and whether it may fail before its start."""
    read = [blocks_of(name) for name in read_by(part)]
    may_start = not any(blocks == (UNDEFINED,) for blocks in read)
    may_fail = isinstance(part, ComputeStep) or any(UNDEFINED in blocks for blocks in read)
    if isinstance(part, LlmCall):
        may_fail = may_fail or may_hold_sensitive(reading, reading.boundary, part)
    if isinstance(part, ToolCall):
        declared = reading.tool(part.tool).args
        # A call that a run before this one has made is refused.
        may_fail = may_fail or any(one.tool == part.tool for policy in reading.policies for one in policy.performed)
        may_fail = may_fail or (declared is not None and not part.args.keys() <= declared.keys())
        for name, spec in (declared or {}).items():
            if name in part.args:
                may_fit, may_misfit = _fits(reading, part.args[name], spec, blocks_of)
                may_start, may_fail = may_start and may_fit, may_fail or may_misfit
            elif not has_default(spec):
                may_fail = True
    return may_start, may_fail


def may_fail_to_call(reading: Reading, step: InvokeStep, blocks_of: BlocksOf) -> bool:
    """Return whether a call of a program may fail before its start: an argument may lack, be undefined, or not fit."""
    if not step.args.keys() <= step.declared.keys():
        return True
    for name, spec in step.declared.items():
        if name not in step.args:
            if not has_default(spec):
                return True
            continue
        value = step.args[name]
        read = [one.reference.names for one in embedded(value)]
        is_masked = isinstance(value, str) and "$$" in value
        if is_masked or any(UNDEFINED in blocks_of(one) for one in read) or _fits(reading, value, spec, blocks_of)[1]:
            return True
    return False


def _fits(reading: Reading, value: Any, spec: TypeSpec, blocks_of: BlocksOf) -> tuple[bool, bool]:
    """Return whether an argument may be of its type, and whether it may not be."""
    references = list(embedded(value))
    if not references:
        is_fit = fits(value, spec)
        return is_fit, not is_fit
    if references[0].path:
        return True, True
    if not references[0].whole:
        return True, not _is_text_sure(reading, value, spec, blocks_of)
    names = references[0].reference.names
    if all(_is_sure(one, spec) for one in reading.origins.behind(names)):
        return True, False
    blocks = [block for block in blocks_of(names) if block != UNDEFINED]
    return any(allows(spec, block) for block in blocks), not all(
        _is_of(reading, block, spec, names) for block in blocks
    )


def _is_text_sure(reading: Reading, text: str, spec: TypeSpec, blocks_of: BlocksOf) -> bool:
    """Return whether a text is of a type when its references are replaced: by their types, or by their blocks here."""
    template = built(text)
    assert isinstance(template, Template), "there is more in it than one reference"
    by_type = [[one] if isinstance(one, Constant) else reading.origins.behind(one.names) for one in template.parts]
    if is_filled_of(by_type, spec):
        return True
    by_block = [
        [one] if isinstance(one, Constant) else _narrowed(reading, one.names, blocks_of) for one in template.parts
    ]
    return is_filled_of(by_block, spec)


def _narrowed(reading: Reading, names: Names, blocks_of: BlocksOf) -> Iterator[Block]:
    """Yield blocks of the values that a reference has here and that its types allow."""
    allowed = reading.origins.of(names).blocks
    is_whole = has_whole_numbers(reading.origins, names)
    for block in blocks_of(names):
        if block.kind not in ("string", "number") or block.single:
            yield from () if block == UNDEFINED else (block,)
            continue
        for possible in allowed:
            if meet(possible, block):
                yield possible if possible.single else _both(block, possible, is_whole=is_whole)


def _both(left: Block, right: Block, *, is_whole: bool) -> Block:
    """Return a block of the values that are in two blocks."""
    lows = [end for end in (left.low, right.low) if end is not None]
    highs = [end for end in (left.high, right.high) if end is not None]
    return left._replace(
        low=max(lows, default=None),
        high=min(highs, default=None),
        whole=left.whole or right.whole or (is_whole and left.kind == "number"),
        answers=left.answers | right.answers,
    )


def _is_sure(given: TypeSpec | Constant | Block | None, spec: TypeSpec) -> bool:
    """Return whether all that gives a reference values is of a type."""
    match given:
        case None:
            return False
        case Constant(value=value):
            return fits(value, spec)
        case Block():
            return _is_within(given, spec)
        case TypeSpec():
            return covers(spec, given)
        case _:
            assert_never(given)


def _is_of(reading: Reading, block: Block, spec: TypeSpec, names: Names) -> bool:
    """Return whether every value of a reference in a block is of a type.

    A block does not know the sources of its values: all of its numbers are whole if no source gives others.
    """
    if block.kind == "number" and not block.single and has_whole_numbers(reading.origins, names):
        block = block._replace(whole=True)
    if _is_within(block, spec):
        return True
    possible = [one for one in reading.origins.of(names).blocks if meet(one, block)]
    if all(_is_within(one, spec) for one in possible):
        return True
    return block.kind == "string" and is_filled_of([list(_narrowed(reading, names, lambda _: (block,)))], spec)


def _is_within(block: Block, spec: TypeSpec) -> bool:
    """Return whether every value of a block is of a type; false where that is not certain."""
    if block.single:
        return fits(block.value, spec)
    if spec.enum is not None or not (
        allows_kind(spec, block.kind) or (block.kind == "number" and block.whole and allows_kind(spec, "integer"))
    ):
        return False
    if block.kind == "number":
        low, high = spec.minimum, spec.maximum
        # The bounds of a block are not in it: the last whole number before one is another.
        before, behind = (1 if block.whole and isinstance(end, int) else 0 for end in (low, high))
        is_above = low is None or (block.low is not None and block.low >= low - before)
        above, below = spec.exclusive_minimum, spec.exclusive_maximum
        return (
            is_above
            and (high is None or (block.high is not None and block.high <= high + behind))
            and (above is None or (block.low is not None and block.low >= above))
            and (below is None or (block.high is not None and block.high <= below))
        )
    if block.kind == "string":
        is_long = not spec.min_length or (block.low is not None and block.low >= spec.min_length - 1)
        is_short = spec.max_length is None or (block.high is not None and block.high <= spec.max_length + 1)
        return spec.pattern is None and is_long and is_short
    if block.contents is not None:
        count = len(block.contents)
        if count < (spec.min_items or 0) or (spec.max_items is not None and count > spec.max_items):
            return False
    if block.contents is not None and spec.items is not None:
        return all(_is_within(member, spec.items) for member in block.contents)
    if block.kind == "array":
        return covers(spec, _ANY_ARRAY)
    return block.kind != "object" or covers(spec, _ANY_OBJECT)
