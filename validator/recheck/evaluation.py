"""Abstract interpretation of expressions: all outcomes that the blocks of the references allow.

Written from the language's page (specs/language.md, "Conditions and expressions"), not from the machine's evaluator. It
may return more outcomes than there are, never fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple, assert_never

from stepward.validator.recheck.blocks import (
    ARRAY,
    FAILS,
    FALSE,
    NUMBER,
    OBJECT,
    OF_KIND,
    TEXT,
    TRUE,
    Block,
    TextQuestion,
    answer_of,
    follows,
    joined_arrays,
    joined_texts,
    may_answer,
    meet,
    of_value,
)
from stepward.validator.recheck.built import changed, filled, together
from stepward.validator.recheck.changed_texts import CHANGES
from stepward.validator.recheck.equivalence import is_itself
from stepward.validator.recheck.types import is_found
from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.letters import WHITE_SPACE, lower, upper
from stepward.vm.expressions.operators import Comparison, FunctionName
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Compare,
    Constant,
    Defined,
    Expression,
    FunctionCall,
    Logic,
    Minus,
    Negation,
    Reference,
    Template,
    all_references,
)
from stepward.vm.values import arithmetic

Names = tuple[str, ...]
Environment = Mapping[Names, Sequence[Block]]
"""The possible blocks of each reference; `undefined` is one of them."""

MAX_SPLITS: Final = 512
"""Combinations of blocks that are evaluated one by one; beyond that all are evaluated together."""

Results = set[Block]


def references(trees: Iterable[Expression]) -> list[Names]:
    """Return the references that expressions read or test, each once."""
    return list(dict.fromkeys(reference.names for tree in trees for reference in all_references(tree)))


def splits(names: Iterable[Names], environment: Environment) -> Iterator[Environment]:
    """Yield environments in which each of some references has one block; together they are all combinations."""
    names = list(names)
    size = 1
    for name in names:
        size *= len(environment[name])
    if size > MAX_SPLITS:
        yield environment
        return
    for chosen in product(*(environment[name] for name in names)):
        yield {**environment, **{name: (block,) for name, block in zip(names, chosen, strict=True)}}


def truths(tree: Expression, environment: Environment, *, may_overflow: bool = True) -> set[bool | None]:
    """Return the possible values of a condition: true, false, or None where it fails."""
    results = values(tree, environment, may_overflow=may_overflow)
    return {block.value if block.kind == "boolean" else None for block in results}


def values(tree: Expression, environment: Environment, *, may_overflow: bool = True) -> Results:
    """Return the blocks of the possible values of an expression, and FAILS where it may fail."""
    return _Evaluation(environment, may_overflow=may_overflow).of(tree)


class _Evaluation:
    def __init__(self, environment: Environment, *, may_overflow: bool) -> None:
        self.environment = environment
        self.may_overflow = may_overflow

    def of(self, tree: Expression) -> Results:
        match tree:
            case Constant(value=value):
                return {of_value(value)}
            case Reference(names=names):
                return {FAILS if block.kind == "undefined" else block for block in self.environment[names]}
            case Defined(reference=reference):
                return {FALSE if block.kind == "undefined" else TRUE for block in self.environment[reference.names]}
            case Negation(operand=operand):
                return {_not(block) for block in self.of(operand)}
            case Logic(operator=operator, operands=operands):
                return self._logic(operands, TRUE if operator == "or" else FALSE)
            case Compare():
                question = _question_of(tree)
                return self._compare(tree) if question is None else self._answers(*question, tree)
            case FunctionCall(function="matches", operand=operand, literal=pattern):
                return self._answers(operand, [("matches", pattern or "")], tree)
            case FunctionCall():
                return self._plainly(tree)
            case Minus(operand=operand):
                return self._computed("-", {of_value(0)}, self.of(operand))
            case Arithmetic():
                return self._calculated(tree)
            case Built() | Template():
                return self._built(tree)
            case _:
                assert_never(tree)

    def _built(self, tree: Built | Template) -> Results:
        parts = [self.of(part) for part in tree.parts]
        if isinstance(tree, Template):
            return filled(parts)
        results = together(parts, is_list=tree.is_list)
        return results if tree.base is None else changed(self.of(tree.base), results)

    def _answers(self, tree: Expression, questions: Sequence[TextQuestion], whole: Compare | FunctionCall) -> Results:
        """Return whether one of some questions about a changed text has the answer yes, as far as its blocks decide it.

        `whole` is the expression that asks. It is evaluated as usual for blocks of other kinds, and of a single text.
        """
        calls, inner = _changes(tree)
        blocks = self.of(inner)
        if not isinstance(inner, Reference) or not any(_is_wide(block) for block in blocks):
            return self._plainly(whole)
        rest = [block for block in self.environment[inner.names] if not _is_wide(block)]
        is_negated = isinstance(whole, Compare) and whole.operator in NEGATED
        results: Results = set()
        if rest:
            environment = {**self.environment, inner.names: rest}
            results |= _Evaluation(environment, may_overflow=self.may_overflow)._plainly(whole)
        full_questions = [(" ".join((*calls, word)), text) for word, text in questions]
        for block in filter(_is_wide, blocks):
            if any(may_answer(block, [(one, True)]) for one in full_questions):
                results.add(_truth(not is_negated))
            if may_answer(block, [(one, False) for one in full_questions]):
                results.add(_truth(is_negated))
        return results

    def _plainly(self, tree: Compare | FunctionCall) -> Results:
        """Return the possible results of a comparison or call, from those of its operands."""
        if isinstance(tree, Compare):
            return self._compare(tree)
        row, results = FUNCTIONS[tree.function], set[Block]()
        for block in self.of(tree.operand):
            results |= row.of(block, tree.literal or "") if block.kind in row.takes else {FAILS}
        return results

    def _logic(self, operands: Sequence[Expression], decisive: Block) -> Results:
        """Evaluate operands from left to right, up to one that decides."""
        results: Results = set()
        for operand in operands:
            part = self.of(operand)
            results |= {
                decisive if block == decisive else FAILS
                for block in part
                if block.kind != "boolean" or block == decisive
            }
            if not any(block.kind == "boolean" and block != decisive for block in part):
                return results
        return results | {FALSE if decisive == TRUE else TRUE}

    def _compare(self, tree: Compare) -> Results:
        lefts, rights = self.of(tree.left), self.of(tree.right)
        if not isinstance(tree.left, Constant) and is_itself(tree.left, tree.right):
            compared = {one for block in lefts - {FAILS} for one in _with_itself(tree.operator, block)}
            return (lefts & {FAILS}) | set(map(_truth, compared))
        is_listed = isinstance(tree.right, Built) and any(is_itself(tree.left, part) for part in tree.right.parts)
        results: Results = {FAILS} if FAILS in lefts or FAILS in rights else set()
        for left, right in product(lefts - {FAILS}, rights - {FAILS}):
            known = {tree.operator != "in"} if is_listed and tree.operator in ("in", "not in") else frozenset[bool]()
            results |= {_truth(one) for one in _compared(tree.operator, left, right) - known}
        return results

    def _calculated(self, tree: Arithmetic) -> Results:
        accepted = JOINED if tree.joins else frozenset({"number"})
        total = {block if block.kind in accepted else FAILS for block in self.of(tree.first)}
        for sign, operand in tree.rest:
            right = self.of(operand)
            total = self._plus(total, right) if tree.joins else self._computed(sign, total, right)
        return total

    def _plus(self, lefts: Results, rights: Results) -> Results:
        """Return the results of `+` in language 2: two numbers, texts or arrays."""
        results: Results = set()
        for left, right in product(lefts, rights):
            if left.kind != right.kind or left.kind not in JOINED:
                results.add(FAILS)
            elif left.kind == "number":
                results |= self._computed("+", {left}, {right})
            else:
                results.add(joined_texts(left, right) if left.kind == "string" else joined_arrays(left, right))
        return results

    def _computed(self, sign: str, lefts: Results, rights: Results) -> Results:
        results: Results = set()
        for left, right in product(lefts, rights):
            if left.kind != "number" or right.kind != "number":
                results.add(FAILS)
            elif left.single and right.single:
                result = _calculated(sign, left, right)
                results |= {result} if self.may_overflow or result != FAILS else set()  # too long, as assumed of none
            else:
                results |= {NUMBER, FAILS} if self.may_overflow else {NUMBER}
        return results


NEGATED: Final = frozenset({"!=", "not in", "not contains"})
"""The operators that hold where the question is answered with no."""


def _changes(tree: Expression) -> tuple[list[str], Expression]:
    """Return the calls that change a text, the last one first, and what they are applied to."""
    calls: list[str] = []
    while isinstance(tree, FunctionCall) and tree.function in CHANGES:
        calls.append(tree.function)
        tree = tree.operand
    return calls, tree


def _question_of(tree: Compare) -> tuple[Expression, list[TextQuestion]] | None:
    """Return the changed text of a comparison, and its questions: it holds if one of them has the answer yes.

    None for any other comparison than one of a changed text with texts that are written down.
    """
    for side, constant in ((tree.left, tree.right), (tree.right, tree.left)):
        if not (isinstance(side, FunctionCall) and side.function in CHANGES and isinstance(constant, Constant)):
            continue
        value, word = constant.value, tree.operator.removeprefix("not ")
        if word in ("==", "!="):
            return (side, [("is", value)]) if isinstance(value, str) else None
        if word == "in":
            is_right = side is tree.left and isinstance(value, tuple) and all(isinstance(one, str) for one in value)
            return (side, [("is", one) for one in value]) if is_right else None
        if not isinstance(value, str) or word not in ("contains", "starts_with", "ends_with"):
            return None
        return side, [(word, value)] if side is tree.left else [("is", part) for part in _parts(word, value)]
    return None


def _is_wide(block: Block) -> bool:
    """Return whether a block has several texts."""
    return block.kind == "string" and not block.single


def _truth(value: bool | None) -> Block:
    return FAILS if value is None else TRUE if value else FALSE


def _not(block: Block) -> Block:
    return _truth(not block.value) if block.kind == "boolean" else FAILS


def result_blocks(tree: Expression) -> tuple[Block, ...]:
    """Return blocks of the possible results of an expression that is neither a constant nor a reference."""
    match tree:
        case FunctionCall(function=function):
            return FUNCTIONS[function].blocks
        case Arithmetic(joins=joins) if joins:
            return tuple(block for word in sorted(joins) for block in OF_KIND[word])
        case Arithmetic() | Minus():
            return (NUMBER,)
        case Built(parts=parts, is_list=is_list):
            return (ARRAY._replace(low=len(parts) - 1, high=len(parts) + 1) if is_list else OBJECT,)
        case Template():
            return (TEXT,)
        case Defined() | Negation() | Logic() | Compare():
            return (TRUE, FALSE)
    raise AssertionError("constants and references have no result blocks")


JOINED: Final = frozenset({"number", "string", "array"})
"""The kinds of operands of `+` in language 2."""


def _length(block: Block, _: str) -> Results:
    if block.kind == "string" and block.single:
        return {of_value(len(block.value))}
    low, high = block.low if block.low is not None else -1, block.high
    if high is not None and high - low == 2:
        return {of_value(low + 1)}
    return {NUMBER._replace(low=low, high=high, whole=True)}


def _in_case(change: Callable[[str], str]) -> Callable[[Block, str], Results]:
    """Return the results of changing the case of each code point: the length stays."""
    return lambda block, _: {of_value(change(block.value)) if block.single else TEXT._replace(high=block.high)}


def _trimmed(block: Block, _: str) -> Results:
    return {of_value(block.value.strip(WHITE_SPACE)) if block.single else TEXT._replace(high=block.high)}


def _joined(array: Block, separator: str) -> Results:
    """Return the results of joining the items of an array; it fails where one of them is no text."""
    if array.contents is not None:
        if any(item.kind != "string" for item in array.contents):
            return {FAILS}
        if all(item.single for item in array.contents):
            return {of_value(separator.join(item.value for item in array.contents))}
        return {TEXT}
    if array.items is not None and all(item.kind == "string" for item in array.items):
        return {TEXT}
    return {TEXT, FAILS}


def _matching(text: Block, pattern: str) -> Results:
    return {_truth(is_found(pattern, text.value))} if text.single else {TRUE, FALSE}


class Function(NamedTuple):
    """A function: the kinds that it takes, blocks of all its results, and the results for one block and literal."""

    takes: frozenset[str]
    blocks: tuple[Block, ...]
    of: Callable[[Block, str], Results]
    items: frozenset[str] | None = None


_TEXT: Final = frozenset({"string"})

FUNCTIONS: Final[dict[FunctionName, Function]] = {
    "len": Function(frozenset({"string", "array"}), (NUMBER,), _length),
    "lower": Function(_TEXT, (TEXT,), _in_case(lower)),
    "upper": Function(_TEXT, (TEXT,), _in_case(upper)),
    "trim": Function(_TEXT, (TEXT,), _trimmed),
    "join": Function(frozenset({"array"}), (TEXT,), _joined, _TEXT),
    "matches": Function(_TEXT, (TRUE, FALSE), _matching),
}

TAKEN: Final[dict[Comparison, frozenset[str]]] = {
    **dict.fromkeys(("<", "<=", ">", ">="), frozenset({"number"})),
    **dict.fromkeys(("starts_with", "ends_with"), frozenset({"string"})),
}
"""The kinds that both sides must have, for operators whose sides do not restrict each other."""


def _calculated(sign: str, left: Block, right: Block) -> Block:
    try:
        return of_value(arithmetic(sign, left.value, right.value))
    except EvaluationError:
        return FAILS


BOTH: Final[frozenset[bool | None]] = frozenset({True, False})
_ANY_CASE: Final[frozenset[bool | None]] = frozenset({True, False, None})
_ONLY_FAILS: Final[frozenset[bool | None]] = frozenset({None})


def _opposite(results: Iterable[bool | None]) -> frozenset[bool | None]:
    return frozenset(None if one is None else not one for one in results)


def _compared(operator: Comparison, left: Block, right: Block) -> frozenset[bool | None]:
    match operator:
        case "==":
            return _equal(left, right)
        case "!=":
            return _opposite(_equal(left, right))
        case "in":
            return _member(left, right)
        case "not in":
            return _opposite(_member(left, right))
        case "contains":
            return _contains(left, right)
        case "not contains":
            return _opposite(_contains(left, right))
        case "starts_with" | "ends_with":
            return _answers(operator, left, right)
        case "<" | "<=":
            return _ordered(left, right, or_equal=operator == "<=")
        case ">" | ">=":
            return _ordered(right, left, or_equal=operator == ">=")
        case _:
            assert_never(operator)


def _equal(left: Block, right: Block) -> frozenset[bool | None]:
    if "null" in (left.kind, right.kind):
        return frozenset({left.kind == right.kind})
    if left.kind != right.kind or left.kind in ("array", "object"):
        return _ONLY_FAILS
    if left.single and right.single:
        return frozenset({bool(left.value == right.value)})
    return BOTH if meet(left, right) else frozenset({False})


def _with_itself(operator: Comparison, block: Block) -> frozenset[bool | None]:
    """Return the results of comparing a value of a block with itself."""
    match operator:
        case "==" | "!=":
            same = _equal(block, block) - {False}
            return same if operator == "==" else _opposite(same)
        case "<" | "<=" | ">" | ">=":
            return frozenset({"=" in operator}) if block.kind == "number" else _ONLY_FAILS
        case "contains" | "not contains" | "starts_with" | "ends_with" if block.kind == "string":
            return frozenset({operator != "not contains"})
        case _:
            return _compared(operator, block, block)


def _ordered(left: Block, right: Block, *, or_equal: bool) -> frozenset[bool | None]:
    if left.kind != "number" or right.kind != "number":
        return _ONLY_FAILS
    if left.single and right.single:
        return frozenset({left.value <= right.value if or_equal else left.value < right.value})
    # One of the two is strictly between its bounds, so equal bounds decide.
    low, high = left.value if left.single else left.low, left.value if left.single else left.high
    first, last = right.value if right.single else right.low, right.value if right.single else right.high
    if high is not None and first is not None and high <= first:
        return frozenset({True})
    if low is not None and last is not None and low >= last:
        return frozenset({False})
    return BOTH


def _member(item: Block, array: Block) -> frozenset[bool | None]:
    """Search an item from left to right; items after a match can't fail."""
    if array.kind != "array":
        return _ONLY_FAILS
    if array.contents is None:
        if array.high is not None and array.high <= 1:
            return frozenset({False})
        if array.items is None:
            return _ANY_CASE
        return frozenset((False, *(one for member in array.items for one in _equal(item, member))))
    results: set[bool | None] = set()
    for member in array.contents:
        same = _equal(item, member)
        results |= same - {False}
        if False not in same:
            return frozenset(results)
    return frozenset(results | {False})


def _contains(holder: Block, item: Block) -> frozenset[bool | None]:
    if holder.kind == "array":
        return _member(item, holder)
    return _answers("contains", holder, item)


def _answers(word: str, text: Block, literal: Block) -> frozenset[bool | None]:
    if text.kind != "string" or literal.kind != "string":
        return _ONLY_FAILS
    if not literal.single:
        if text.single and not any(meet(literal, of_value(part)) for part in _parts(word, text.value)):
            return frozenset({False})
        return BOTH
    full_question = (word, literal.value)
    if text.single:
        return frozenset({answer_of(text.value, full_question)})
    if literal.value == "" or any(answer and follows(one, full_question) for one, answer in text.answers):
        return frozenset({True})
    if text.high is not None and len(literal.value) >= text.high:
        return frozenset({False})
    if any(not answer and follows(full_question, one) for one, answer in text.answers):
        return frozenset({False})
    return BOTH


def _parts(question: str, text: str) -> Iterator[str]:
    """Yield the parts of a text that a question compares: what it contains, starts with or ends with."""
    size = len(text)
    match question:
        case "starts_with":
            yield from (text[:end] for end in range(size + 1))
        case "ends_with":
            yield from (text[start:] for start in range(size + 1))
        case "contains":
            yield from (text[start:end] for start in range(size + 1) for end in range(start, size + 1))
        case _:
            raise AssertionError(f"what is `{question}`?")


def two_may_hold(results: list[set[bool | None]]) -> bool:
    """Return whether a case may be the first that holds while a later one also holds."""
    for position, result in enumerate(results):
        if True in result and any(True in later for later in results[position + 1 :]):
            return True
        if False not in result:
            return False
    return False
