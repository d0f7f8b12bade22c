"""Blocks: a partition of the values of one reference, computed by this checker itself.

A certificate lists classes of values. Their bounds, literals and lengths partition all values into blocks. Every class
must be one of these blocks, so that no value can be between two classes. A statement about a block is one about each of
its values: where they differ, both answers are possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from math import ceil, floor
from typing import Any, Final, NamedTuple

from stepward.validator.recheck.languages import may_match
from stepward.validator.recheck.refusals import Refused, TooLarge
from stepward.validator.recheck.short_texts import ANSWERS, PATTERN, may_exist
from stepward.validator.recheck.types import allows as allows_kind
from stepward.validator.recheck.types import fits, is_pattern, words
from stepward.vm.language.types import TypeSpec
from stepward.vm.values import Number

MAX_BLOCKS: Final = 1 << 13
"""Blocks of one reference: the engine makes at most half as many."""

MAX_ITEMS: Final = 50
"""Blocks of the items of an array that are distinguished."""

TextQuestion = tuple[str, str]
"""A question of ANSWERS with its literal."""


class Block(NamedTuple):
    """A set of values of one kind.

    A `single` block has the one value `value`. Otherwise numbers, and lengths of texts and arrays, are strictly between
    `low` and `high`; `whole` ones are integers. Texts answer questions as `answers` says. `items` are the blocks of
    possible items of an array, None for any; `contents` are the blocks of its actual items, where these are known. The
    texts, and the arrays by their items, in `but` are excluded.
    """

    kind: str
    single: bool = False
    value: Any = None
    low: Number | None = None
    high: Number | None = None
    whole: bool = False
    but: frozenset[Any] = frozenset()
    answers: frozenset[tuple[TextQuestion, bool]] = frozenset()
    items: frozenset[Block] | None = None
    contents: tuple[Block, ...] | None = None


FAILS: Final = Block("fails")  # the outcome of an evaluation that fails
UNDEFINED: Final = Block("undefined")
NULL: Final = Block("null", True)
TRUE: Final = Block("boolean", True, True)
FALSE: Final = Block("boolean", True, False)
NUMBER: Final = Block("number")
TEXT: Final = Block("string")
ARRAY: Final = Block("array", low=-1)
OBJECT: Final = Block("object")
OF_KIND: Final = {
    "null": (NULL,),
    "boolean": (TRUE, FALSE),
    "number": (NUMBER,),
    "integer": (NUMBER._replace(whole=True),),
    "string": (TEXT,),
    "array": (ARRAY,),
    "object": (OBJECT,),
}
ANYTHING: Final = tuple(block for word, blocks in OF_KIND.items() if word != "integer" for block in blocks)


def of_value(value: Any) -> Block:
    """Return the block of one value: for an array its length and items, for an object its kind."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int | Decimal):
        return Block("number", True, value)
    if isinstance(value, str):
        return Block("string", True, value)
    if isinstance(value, dict):
        return OBJECT
    return list_of(tuple(map(of_value, value)))


def list_of(contents: tuple[Block, ...]) -> Block:
    """Return the block of the arrays whose items are in these blocks, one after the other."""
    return Block("array", low=len(contents) - 1, high=len(contents) + 1, items=frozenset(contents), contents=contents)


def joined_arrays(left: Block, right: Block) -> Block:
    """Return a block with every array that joins one of a block with one of another."""
    if left.contents is not None and right.contents is not None:
        return list_of(left.contents + right.contents)
    items = None if left.items is None or right.items is None else left.items | right.items
    return ARRAY._replace(items=items, **_joined_lengths(left, right))


def joined_texts(left: Block, right: Block) -> Block:
    """Return a block with every text that joins one of a block with one of another."""
    if left.single and right.single:
        return of_value(left.value + right.value)
    answers = {question for question, answer in (*left.answers, *right.answers) if answer and question[0] == "contains"}
    answers |= {question for question, answer in left.answers if answer and question[0] == "starts_with"}
    answers |= {question for question, answer in right.answers if answer and question[0] == "ends_with"}
    answers |= {("starts_with", left.value)} if left.single and left.value else set()
    answers |= {("ends_with", right.value)} if right.single and right.value else set()
    return TEXT._replace(answers=frozenset((question, True) for question in answers), **_joined_lengths(left, right))


def _joined_lengths(left: Block, right: Block) -> dict[str, Any]:
    """Return the bounds of the length of two joined texts or arrays; a length is strictly between them."""
    shortest, longest = 0, 0
    for side in (left, right):
        size = len(side.value) if side.single else None
        shortest += size if size is not None else int(side.low if side.low is not None else -1) + 1
        longest = -1 if longest < 0 or (size is None and side.high is None) else longest
        if longest >= 0:
            longest += size if size is not None else int(side.high or 0) - 1
    return {"low": shortest - 1, "high": None if longest < 0 else longest + 1}


def is_exact(block: Block) -> bool:
    """Return whether a block has exactly one value: a scalar, or an array of such."""
    return block.single or (block.contents is not None and all(map(is_exact, block.contents)))


def meet(left: Block, right: Block) -> bool:
    """Return whether two blocks may have a common value."""
    if left.kind != right.kind:
        return False
    if left.single and right.single:
        return bool(left.value == right.value)
    if left.single or right.single:
        single, wide = (left, right) if left.single else (right, left)
        return _is_text_in(single.value, wide) if left.kind == "string" else _is_between(single.value, wide)
    if not _overlap(left, right):
        return False
    if left.contents is not None and right.contents is not None:
        return all(map(meet, left.contents, right.contents))
    if left.kind == "array":
        return left.contents not in right.but and right.contents not in left.but
    answers = dict(left.answers)
    if any(answers.get(question, answer) is not answer for question, answer in right.answers):
        return False
    return left.kind != "string" or _has_text(left, right)


def common(left: Block, right: Block) -> Block:
    """Return a block with every common value of two blocks. The second has no answers to questions about texts."""
    if is_exact(right):
        return right
    low, high = _bounds(left, right)
    items = left.items if right.items is None else right.items
    return left._replace(low=low, high=high, whole=left.whole or right.whole, items=items, contents=right.contents)


def _has_text(left: Block, right: Block) -> bool:
    """Return whether two blocks with compatible answers may have a common text that is short enough for both."""
    low, high = _bounds(left, right)
    answers, but = left.answers | right.answers, left.but | right.but
    if any(word == PATTERN for (word, _), _ in answers):
        return may_answer(left._replace(low=low, high=high, answers=answers, but=but))
    if high is None:
        return True
    shortest = 0 if low is None else max(0, floor(low) + 1)
    return may_exist(answers, but, shortest, ceil(high) - 1)


def may_answer(block: Block, answers: Iterable[tuple[TextQuestion, bool]] = ()) -> bool:
    """Return whether some text of a block may also give these answers."""
    low, high = block.low, block.high
    return may_match(
        None,
        block.answers.union(answers),
        -1 if low is None else floor(low),
        None if high is None else ceil(high),
        block.but,
    )


def _is_between(number: Number, block: Block) -> bool:
    if block.whole and number != int(number):
        return False
    return (block.low is None or block.low < number) and (block.high is None or number < block.high)


def _bounds(left: Block, right: Block) -> tuple[Number | None, Number | None]:
    """Return the bounds of what two blocks share."""
    lows = [block.low for block in (left, right) if block.low is not None]
    highs = [block.high for block in (left, right) if block.high is not None]
    return max(lows, default=None), min(highs, default=None)


def _overlap(left: Block, right: Block) -> bool:
    return _has_room(*_bounds(left, right), whole=left.whole or right.whole or left.kind != "number")


def _has_room(low: Number | None, high: Number | None, *, whole: bool) -> bool:
    """Return whether there is a number strictly between two bounds."""
    if low is None or high is None:
        return True
    return floor(low) + 1 < high if whole else low < high


def _is_text_in(text: str, block: Block) -> bool:
    if text in block.but or not _is_between(len(text), block):
        return False
    return all(answer_of(text, question) is answer for question, answer in block.answers)


def answer_of(text: str, question: TextQuestion) -> bool:
    """Return the answer of a text to a question."""
    word, literal = question
    return ANSWERS[word](text, literal)


def allows(spec: TypeSpec | None, block: Block) -> bool:
    """Return whether some value of a type may be in a block."""
    if block.kind == "undefined":
        return False
    if spec is None:
        return True
    if block.single:
        return fits(block.value, spec)
    if spec.enum is not None:
        return any(meet(block, of_value(member)) for member in spec.enum if fits(member, spec))
    if block.kind == "number":
        return any(meet(block, one) for one in _numbers(spec))
    if block.kind == "array" and not _overlap(block, _arrays(spec)):
        return False
    if block.kind == "string" and spec.max_length == 0:
        return allows_kind(spec, "string") and meet(block, of_value(""))
    if block.kind == "string":
        return allows_kind(spec, "string") and meet(block, _texts(spec)) and _may_have(block, spec)
    if block.contents is not None and spec.items is not None:
        items = spec.items
        return allows_kind(spec, "array") and all(allows(items, member) for member in block.contents)
    return allows_kind(spec, block.kind)


def _texts(spec: TypeSpec) -> Block:
    """Return the block of the texts of a type."""
    high = None if spec.max_length is None else spec.max_length + 1
    return TEXT._replace(low=spec.min_length - 1 if spec.min_length else None, high=high)


def _arrays(spec: TypeSpec) -> Block:
    """Return the block of the arrays of a type, by the number of their items."""
    return ARRAY._replace(low=(spec.min_items or 0) - 1, high=None if spec.max_items is None else spec.max_items + 1)


def _may_have(block: Block, spec: TypeSpec) -> bool:
    """Return whether some text of a block may match the pattern of a type."""
    if spec.pattern is None:
        return True
    ends = [end for end in (block.high, None if spec.max_length is None else spec.max_length + 1) if end is not None]
    above = max(-1 if block.low is None else floor(block.low), (spec.min_length or 0) - 1)
    return may_match(spec.pattern, block.answers, above, ceil(min(ends)) if ends else None, block.but)


def _numbers(spec: TypeSpec) -> Iterator[Block]:
    """Yield blocks of exactly the numbers of a type. A bound belongs to no block beside it: it is a block by itself."""
    lows = [end for end in (spec.minimum, spec.exclusive_minimum) if end is not None]
    highs = [end for end in (spec.maximum, spec.exclusive_maximum) if end is not None]
    if allows_kind(spec, "number"):
        low, high = max(lows, default=None), min(highs, default=None)
        yield Block("number", low=low, high=high)
        yield from (Block("number", True, bound) for bound in (low, high) if bound is not None and fits(bound, spec))
    elif allows_kind(spec, "integer"):
        first = [ceil(end) - 1 for end in (spec.minimum,) if end is not None]
        first += [floor(end) for end in (spec.exclusive_minimum,) if end is not None]
        last = [floor(end) + 1 for end in (spec.maximum,) if end is not None]
        last += [ceil(end) for end in (spec.exclusive_maximum,) if end is not None]
        yield Block("number", low=max(first, default=None), high=min(last, default=None), whole=True)


def of_type(spec: TypeSpec | None) -> tuple[Block, ...]:
    """Return blocks of all values of a type, as large as possible; one block for each member of an enum."""
    if spec is None:
        return ANYTHING
    if spec.enum is not None:
        return tuple(dict.fromkeys(of_value(member) for member in spec.enum if fits(member, spec)))
    blocks: list[Block] = []
    for kind in sorted(words(spec)):
        if kind == "array":
            arrays = _arrays(spec)
            blocks.append(arrays if spec.items is None else arrays._replace(items=_items(spec.items)))
        elif kind == "string" and spec.max_length == 0:
            blocks.append(of_value(""))
        elif kind == "string":
            blocks.append(_texts(spec))
        elif kind not in ("number", "integer"):
            blocks.extend(OF_KIND[kind])
    blocks.extend(_numbers(spec))
    return tuple(blocks)


def _items(spec: TypeSpec) -> frozenset[Block]:
    """Return blocks of possible items of arrays; for a long enum only the blocks of its kinds."""
    blocks = frozenset(of_type(spec))
    if len(blocks) <= MAX_ITEMS:
        return blocks
    return frozenset(block for kind in {block.kind for block in blocks} for block in OF_KIND[kind])


# -- reading the classes of a certificate ------------------------------------------------------------------------------


OPEN: Final = -1
"""The number of `any`, which stands for all values that the types allow."""

GIVEN: Final = -2
"""The number of a value from outside that is not chosen yet: any value that its type allows."""


def read(described: Any) -> tuple[list[int], tuple[Block, ...]]:
    """Return the block numbers that a certificate lists for one reference, and all blocks of their partition.

    Raises Refused where a listed class is not a block of that partition.
    """
    if not isinstance(described, list):
        raise Refused("the classes of a reference are no list")
    listed = [_described(block) for block in described if block != "any"]
    all_blocks = cut(listed)
    known = {block: number for number, block in enumerate(all_blocks)}
    texts, lists = _known(listed)
    blocks = iter(listed)
    numbers: list[int] = []
    for text in described:
        block = None if text == "any" else next(blocks)
        if block is not None and not is_exact(block):
            block = block._replace(
                but=texts if block.kind == "string" else lists if block.kind == "array" else frozenset()
            )
        if block is not None and block not in known:
            raise Refused(f"the class {text} is not a block of the partition by the listed classes")
        numbers.append(OPEN if block is None else known[block])
    if len(set(numbers)) < len(numbers):
        raise Refused("a class is listed twice")
    return numbers, all_blocks


def _described(data: Any) -> Block:
    simple = {"undefined": UNDEFINED, "null": NULL, "object": OBJECT}
    if isinstance(data, str) and data in simple:
        return simple[data]
    if isinstance(data, bool | int | Decimal):
        return of_value(data)
    if not isinstance(data, dict) or len(data) != 1:
        raise Refused(f"{data} describes no class")
    ((word, body),) = data.items()
    if word == "text" and isinstance(body, str):
        return of_value(body)
    if word == "list" and isinstance(body, list) and is_exact(of_value(body)):
        return of_value(body)
    if word in ("number", "array", "texts") and isinstance(body, dict):
        kind = "string" if word == "texts" else word
        low, high = (_bound(body.get(name)) for name in ("above", "below"))
        if kind != "number":
            low = -1 if low is None else low
        answers = frozenset(
            (question, answer)
            for name, answer in (("yes", True), ("no", False))
            for question in _questions(body.get(name, []))
        )
        if set(body) <= {"above", "below", *(("yes", "no") if kind == "string" else ())}:
            return Block(kind, low=low, high=high, answers=answers)
    raise Refused(f"{data} describes no class")


def _bound(data: Any) -> Number | None:
    if data is not None and (isinstance(data, bool) or not isinstance(data, int | Decimal)):
        raise Refused(f"{data} is no bound of a class")
    return data


def _questions(data: Any) -> Iterator[TextQuestion]:
    for entry in data if isinstance(data, list) else [None]:
        if not (isinstance(entry, list) and len(entry) == 2 and entry[0] in ANSWERS and isinstance(entry[1], str)):
            raise Refused(f"{entry} is no question about a text")
        if entry[0] == PATTERN and not is_pattern(entry[1]):
            raise Refused(f"`{entry[1]}` is no pattern")
        yield entry[0], entry[1]


def cut(blocks: list[Block]) -> tuple[Block, ...]:
    """Return all blocks of the partition by the bounds, literals and lengths of some blocks."""
    return tuple(dict.fromkeys(_cut(blocks)))


def _cut(blocks: list[Block]) -> Iterator[Block]:
    yield from (UNDEFINED, NULL, TRUE, FALSE, OBJECT)
    points = {one.value for one in blocks if one.kind == "number" and one.single}
    for low, point, high in _intervals(_ends(blocks) | points):
        yield Block("number", True, point) if point is not None else Block("number", low=low, high=high)
    texts, lists = _known(blocks)
    # In the order of `blocks`: that of a set hangs on the seed of the process, and so would the state of a refusal.
    for contents in dict.fromkeys(one.contents for one in blocks if one.contents in lists):
        yield list_of(contents)
    for low, high in _lengths(blocks, "array"):
        yield Block("array", low=low, high=high, but=lists)
    for text in dict.fromkeys(one.value for one in blocks if one.kind == "string" and one.value in texts):
        yield of_value(text)
    questions = sorted({question for one in blocks for question, _ in one.answers})
    lengths = list(_lengths(blocks, "string"))
    for answers in _answers(questions):
        for low, high in lengths:
            yield Block("string", low=low, high=high, but=texts, answers=frozenset(answers.items()))


def _known(blocks: Iterable[Block]) -> tuple[frozenset[str], frozenset[tuple[Block, ...]]]:
    """Return the texts, and the items of the arrays, that are blocks of their own."""
    exact = [one for one in blocks if is_exact(one)]
    lists = frozenset(one.contents for one in exact if one.contents is not None)
    return frozenset(one.value for one in exact if one.kind == "string"), lists


def _ends(blocks: Iterable[Block]) -> set[Number]:
    ranges = [one for one in blocks if one.kind == "number" and not one.single]
    return {end for one in ranges for end in (one.low, one.high) if end is not None}


def _intervals(points: set[Number]) -> Iterator[tuple[Number | None, Number | None, Number | None]]:
    ordered = sorted(points)
    for low, high in zip([None, *ordered], [*ordered, None], strict=True):
        yield low, None, high
        if high is not None:
            yield None, high, None


def _lengths(blocks: Iterable[Block], kind: str) -> Iterator[tuple[Number, Number | None]]:
    """Yield the ranges into which the listed lengths divide all lengths, each by the lengths before and after it."""
    ranges = [one for one in blocks if one.kind == kind and not is_exact(one)]
    lows = {floor(one.low) + 1 for one in ranges if one.low is not None}
    starts = sorted({0} | lows | {ceil(one.high) for one in ranges if one.high is not None})
    for first, following in zip(starts, [*starts[1:], None], strict=True):
        yield first - 1, following


def _answers(questions: list[TextQuestion]) -> list[dict[TextQuestion, bool]]:
    """Return every combination of answers that some text can give, and perhaps more."""
    combinations: list[dict[TextQuestion, bool]] = [{}]
    for question in questions:
        combinations = [
            {**known, question: answer}
            for known in combinations
            for answer in (True, False)
            if _is_consistent(known, question, answer)
        ]
        if any(word == PATTERN for word, _ in combinations[0]) if combinations else False:
            combinations = [known for known in combinations if may_match(None, frozenset(known.items()))]
        if len(combinations) > MAX_BLOCKS:
            raise TooLarge("the classes of a text are too many to be looked at")
    return combinations


def _is_consistent(known: dict[TextQuestion, bool], question: TextQuestion, answer: bool) -> bool:
    if question[1] == "" and not answer:
        return False
    for known_question, known_answer in known.items():
        if answer and known_answer and _exclude(question, known_question):
            return False
        if answer and not known_answer and follows(question, known_question):
            return False
        if known_answer and not answer and follows(known_question, question):
            return False
    return True


def follows(first: TextQuestion, second: TextQuestion) -> bool:
    """Return whether each text that answers yes to one question also answers yes to another."""
    (word, literal), (other_word, part) = first, second
    if PATTERN in (word, other_word):
        return first == second
    if other_word == "contains":
        return part in literal
    return word == other_word and answer_of(literal, (other_word, part))


def _exclude(first: TextQuestion, second: TextQuestion) -> bool:
    """Return whether no text answers yes to both questions."""
    (word, literal), (other_word, part) = first, second
    if word != other_word or word in ("contains", PATTERN):
        return False
    return not (answer_of(literal, (other_word, part)) or answer_of(part, (word, literal)))
