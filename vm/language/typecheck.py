"""Type check of expressions: compares the kinds that operators need with the kinds that their operands can have.

An expression that passes has a value in every state in which the references that it reads are defined, unless
arithmetic runs out of digits.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stepward.vm.expressions.facts import Facts, facts
from stepward.vm.expressions.fields import ITEMS
from stepward.vm.expressions.lexer import NAME
from stepward.vm.expressions.operands import kind_of, needs, result_kinds
from stepward.vm.expressions.operators import ANY, ARRAY, BOOLEAN, FUNCTIONS, JOINABLE, NUMBER, OPERATORS, STRING, Kinds
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Compare,
    Constant,
    Expression,
    FunctionCall,
    Logic,
    Reference,
    children,
)
from stepward.vm.language.made import joined_operands
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.type_words import either, shown_value, shown_values

QUOTED_REFERENCE: Final = re.compile(rf"\${NAME}(?:\.{NAME})*")
_NULL: Final = frozenset({"null"})
_PATH: Final = "a path of `set`"
_NOTHING_KNOWN: Final = Facts()


class TypeProblem(NamedTuple):
    """A problem of an expression: the finding's code, message and help, and the location in the text.

    `rewrite`, if not empty, is the whole expression with a safe fix.
    """

    code: str
    message: str
    help: str
    start: int
    end: int
    rewrite: str = ""


class _Operand(NamedTuple):
    """What is known of the values of an operand: their kinds, and the values themselves if they are listed."""

    kinds: Kinds
    enum: tuple[object, ...] | None = None
    is_known: bool = True


def check_expression(
    text: str, tree: Expression, meaning: Meaning, *, is_condition: bool, known: Facts = _NOTHING_KNOWN
) -> list[TypeProblem]:
    """Return the type problems of an expression (SW203, SW204, SW205).

    `known` are the facts about references that hold wherever the expression is evaluated.
    """
    checker = _Checker(text, meaning)
    operand = checker.check(tree, known)
    if is_condition:
        checker.require(tree, operand, BOOLEAN, "a condition")
    return checker.problems


class _Checker:
    def __init__(self, text: str, meaning: Meaning) -> None:
        self.text = text
        self.meaning = meaning
        self.problems: list[TypeProblem] = []

    def shown(self, tree: Expression) -> str:
        return self.text[tree.start : tree.end]

    def check(self, tree: Expression, known: Facts) -> _Operand:
        match tree:
            case Constant():
                return self.constant(tree)
            case Reference():
                return self.reference(tree, known)
            case Compare():
                self.compare(tree, known)
            case Built(parts=parts):
                for operand, kinds, _ in needs(tree):  # the object that a path of `set` changes
                    self.require(operand, self.check(operand, known), kinds, _PATH)
                for part in parts:
                    self.check(part, known)
            case Arithmetic(joins=joins) if joins:
                return self.joined(tree, known)
            case Arithmetic() if self.joins_texts(tree, known):
                return _Operand(ANY, is_known=False)
            case _:
                for operand, kinds, word in needs(tree):
                    is_right = self.require(operand, self.check(operand, known), kinds, f"`{word}`")
                    if is_right and isinstance(tree, FunctionCall) and FUNCTIONS[tree.function].items is not None:
                        self.items(tree, FUNCTIONS[tree.function].items or ANY)
                    if isinstance(tree, Logic):
                        known |= facts(operand, tree.operator == "and")
        return _Operand(result_kinds(tree))

    def items(self, tree: FunctionCall, kinds: Kinds) -> None:
        """Report the items of an array that a function does not take."""
        for array in joined_operands(tree.operand):
            if isinstance(array, Built):
                for part in array.parts:
                    self.require(part, self.check(part, _NOTHING_KNOWN), kinds, f"`{tree.function}`")
                continue
            found = self.item_kinds(array)
            text = self.shown(array)
            help = f"declare the items of `{text}` as {{type: string}}"
            if found is None:
                self.report("SW203", f"nothing says of what type the items of `{text}` are", help, tree)
            elif not found <= kinds:
                verb = "may be" if found & kinds else "are"
                message = f"`{tree.function}` needs items that are {either(kinds)}, but those of `{text}` {verb} "
                self.report("SW203", message + either(found - kinds), help, tree)

    def item_kinds(self, array: Expression) -> Kinds | None:
        """Return the kinds of the items of an array; none where it has none, None where nothing says what they are."""
        if isinstance(array, Constant) and isinstance(array.value, tuple):
            return frozenset().union(*map(kind_of, array.value))
        resolution = self.meaning.names.meaning(array.names) if isinstance(array, Reference) else None
        view = None if resolution is None else self.meaning.typing.view(resolution, ITEMS)
        if view is None or view.never:
            return frozenset()
        return view.kinds if view.is_known else None

    def constant(self, tree: Constant) -> _Operand:
        for item in tree.value if isinstance(tree.value, tuple) else ():
            if isinstance(item, str) and QUOTED_REFERENCE.fullmatch(item):
                help = "a list holds literals only: compare with `==` and join with `or`"
                if self.meaning.program.language > 1:
                    help = f"write `{item}` without the quotes"
                self.report("SW204", f"`'{item}'` in this list is text, not the reference", help, tree)
        if isinstance(tree.value, str) and QUOTED_REFERENCE.fullmatch(tree.value):
            from stepward.vm.expressions.hints import rewritten
            from stepward.vm.expressions.parser import parses

            whole = rewritten(self.text, parses)
            write = whole if whole is not None and whole != self.text else tree.value
            message = f"`{self.shown(tree)}` in quotes is text, not the reference"
            self.problems.append(TypeProblem("SW204", message, f"write `{write}`", tree.start, tree.end, whole or ""))
            return _Operand(ANY, is_known=False)
        return _Operand(kind_of(tree.value), (tree.value,))

    def reference(self, tree: Reference, known: Facts) -> _Operand:
        view = self.meaning.view(tree.names)
        if view is None:
            return _Operand(ANY, is_known=False)
        kinds = view.kinds - _NULL if tree.names in known.not_null else view.kinds
        return _Operand(kinds, view.enum, view.is_known and not view.never)

    def require(self, tree: Expression, operand: _Operand, kinds: Kinds, whose: str) -> bool:
        if not operand.is_known or operand.kinds <= kinds:
            return True
        self.report_kinds(tree, operand, kinds, whose)
        return False

    def report_kinds(self, tree: Expression, operand: _Operand, kinds: Kinds, whose: str) -> None:
        found = operand.kinds - kinds
        text, verb = self.shown(tree), "is" if not operand.kinds & kinds else "may be"
        message = f"{whose} needs {either(kinds)}, but `{text}` {verb} {either(found)}"
        self.report("SW203", message, self.kind_help(tree, text, kinds, found, whose), tree)

    def kind_help(self, tree: Expression, text: str, kinds: Kinds, found: Kinds, whose: str) -> str:
        if found == _NULL:
            return f"test `{text} != null and …` first, or declare a type without null"
        if kinds == BOOLEAN:
            if "string" in found:
                return f"compare it: `{text} == 'yes'`"
            return f"compare it: `{text} == …`" if whose == "a condition" else f"compare `{text}` with a value"
        if isinstance(tree, Constant) and isinstance(tree.value, str) and kinds == NUMBER and _is_number(tree.value):
            return f"write {tree.value} without quotes"
        declared = self.declaration(tree, kinds) or f"`{text}` as {either(kinds)} where it comes from"
        return f"declare {declared}, or {'assign it as a whole' if whose == _PATH else 'compare it with another value'}"

    def declaration(self, tree: Expression, kinds: Kinds) -> str:
        """Return in words how to declare a type at the source of a reference; empty unless there is one such source."""
        resolution = self.meaning.names.meaning(tree.names) if isinstance(tree, Reference) else None
        if resolution is None or len(resolution.sources) != 1 or resolution.fields or len(kinds) != 1:
            return ""
        source, word = resolution.sources[0], next(iter(kinds))
        if source.kind == "input":
            return f"the input as `{source.name}: {{type: {word}}}`"
        if source.kind != "output" or source.step is None:
            return ""
        step = self.meaning.flow.steps[source.step]
        call = step if source.sub is None else step.sub_steps[source.sub]
        if call.type == "tool":
            return f"`returns: {{type: {word}}}` for the tool `{call.tool}`"
        return f"`returns: {{type: {word}}}` on step `{call.id}`" if call.type == "llm" else ""

    def joined(self, tree: Arithmetic, known: Facts) -> _Operand:
        """Check a `+` of language 2: all its operands need one kind."""
        whose, before, first = "`+`", None, tree.first
        for operand in children(tree):
            found = self.check(operand, known)
            if not self.require(operand, found, JOINABLE, whose) or not found.is_known:
                continue
            if before is None:
                before, first = found, operand
            elif len(before.kinds | found.kinds) > 1:
                self.mixes(tree, (first, before), (operand, found))
                break
        return _Operand(result_kinds(tree) if before is None else before.kinds)

    def mixes(self, tree: Arithmetic, left: tuple[Expression, _Operand], right: tuple[Expression, _Operand]) -> None:
        """Report a `+` of operands that may have different kinds."""
        (one, first), (two, second) = left, right
        found = [
            f"`{self.shown(side)}` {'is' if len(operand.kinds) == 1 else 'may be'} {either(operand.kinds)}"
            for side, operand in (left, right)
        ]
        message = f"`+` adds two numbers, or joins two texts or two arrays, but {' and '.join(found)}"
        texts = first.kinds | second.kinds
        help = "join values of one kind"
        if len(first.kinds) > 1 or len(second.kinds) > 1:
            text = self.shown(one if len(first.kinds) > 1 else two)
            help = f"declare `{text}` with one type where it comes from"
        elif texts == STRING | NUMBER:
            help = "write the number beside the text in the prompt or argument that needs it, or declare both as texts"
        elif "array" in texts:
            item = two if first.kinds == ARRAY else one
            help = f"put the item into an array where it comes from: `{self.shown(item)}` is no array"
        self.report("SW203", message, help, tree)

    def joins_texts(self, tree: Arithmetic, known: Facts) -> bool:
        """Report a `+` that is meant to join texts; return whether this is one."""
        operands = (tree.first, *(operand for _, operand in tree.rest))
        texts = [operand for operand in operands if self.is_text(operand, known)]
        is_meant = len(texts) == len(operands) or any(isinstance(operand, Constant) for operand in texts)
        if not is_meant or any(sign != "+" for sign, _ in tree.rest):
            return False
        message = f"`+` adds numbers and joins no texts, but `{self.shown(texts[0])}` is text"
        help = "write the parts side by side in the prompt or argument that needs them"
        if all(self.may_be_text(operand, known) for operand in operands):
            help = "add `language: 2` to the program, where `+` joins texts"
            if "language" in self.meaning.program.model_fields_set:
                help = "write `language: 2` instead of `language: 1`: there `+` joins texts"
        self.report("SW203", message, help, tree)
        return True

    def may_be_text(self, tree: Expression, known: Facts) -> bool:
        """Return whether nothing is known of an operand, or that it is text and nothing else."""
        if isinstance(tree, Reference):
            operand = self.reference(tree, known)
            return not operand.is_known or operand.kinds == STRING
        return result_kinds(tree) == STRING

    def is_text(self, tree: Expression, known: Facts) -> bool:
        """Return whether an operand is certainly text, and no number in quotes."""
        match tree:
            case Constant(value=str() as text):
                return not _is_number(text) and QUOTED_REFERENCE.fullmatch(text) is None
            case Reference():
                operand = self.reference(tree, known)
                return operand.is_known and operand.kinds == STRING
            case _:
                return False

    def compare(self, tree: Compare, known: Facts) -> None:
        left, right = self.check(tree.left, known), self.check(tree.right, known)
        match OPERATORS[tree.operator].takes:
            case "alike":
                self.equality(tree, left, right)
            case "member":
                self.membership(tree, left, right)
            case "contains":
                self.containment(tree, left, right)
            case kinds:
                self.require(tree.left, left, kinds, f"`{tree.operator}`")
                self.require(tree.right, right, kinds, f"`{tree.operator}`")

    def equality(self, tree: Compare, left: _Operand, right: _Operand) -> None:
        if not (left.is_known and right.is_known):
            self.untyped(tree, tree.left, tree.right)
            return
        if _NULL in (left.kinds, right.kinds):
            self.null_equality(tree, left, right)
            return
        for side, operand in ((tree.left, left), (tree.right, right)):
            if operand.kinds & {"array", "object"}:
                text = self.shown(side)
                found = either(operand.kinds & {"array", "object"})
                message = f"`{tree.operator}` compares single values, but `{text}` may be {found}"
                self.report("SW203", message, "compare one field of it, or use `in`, `contains` or `len`", side)
                return
        if _are_unlike(left.kinds, right.kinds):
            self.unlike(tree, left, right)
        else:
            self.impossible(tree, left, right)

    def untyped(self, tree: Compare, *sides: Expression) -> None:
        """Report a comparison of names without a type: their values may not be comparable."""
        names = [side.text() for side in sides if isinstance(side, Reference) and self.is_untyped(side)]
        if len(names) == len(sides):
            message = f"nothing says of what type {' and '.join(f'`{name}`' for name in dict.fromkeys(names))} is"
            self.report("SW203", message, "declare a type where one of them comes from", tree)

    def is_untyped(self, reference: Reference) -> bool:
        view = self.meaning.view(reference.names)
        return view is not None and not view.is_known and not view.never

    def null_equality(self, tree: Compare, left: _Operand, right: _Operand) -> None:  # Lisp asks it of any value
        other, side = (right, tree.right) if left.kinds == _NULL else (left, tree.left)
        if "null" not in other.kinds and getattr(self.meaning.program.document, "format", None) != "lisp":
            text = self.shown(side)
            help = f"write `defined({text})` to test whether it has a value, or allow null in its type"
            self.report("SW203", f"`{text}` is {either(other.kinds)} and never null", help, tree)

    def unlike(self, tree: Compare, left: _Operand, right: _Operand) -> None:
        a, b = self.shown(tree.left), self.shown(tree.right)
        one, other_kinds = either(left.kinds - _NULL), either(right.kinds - _NULL)
        message = f"`{a}` is {one} and `{b}` is {other_kinds}: they can't be compared"
        help = "compare values of one type"
        for side, operand, other in ((tree.left, left, right), (tree.right, right, left)):
            if (
                isinstance(side, Constant)
                and "number" in other.kinds
                and isinstance(side.value, str)
                and _is_number(side.value)
            ):
                help = f"write `{self.with_replaced(side, side.value)}`"
            elif isinstance(side, Constant) and other.kinds - _NULL == STRING and operand.kinds <= NUMBER | BOOLEAN:
                help = f"write `{self.with_replaced(side, repr(self.shown(side)))}`"
        self.report("SW203", message, help, tree)

    def with_replaced(self, part: Expression, text: str) -> str:
        """Return the whole expression with one part replaced."""
        return self.text[: part.start] + text + self.text[part.end :]

    def impossible(self, tree: Compare, left: _Operand, right: _Operand) -> None:
        for side, operand, other, domain in (
            (tree.left, left, right, tree.right),
            (tree.right, right, left, tree.left),
        ):
            if isinstance(side, Constant) and other.enum is not None and isinstance(domain, Reference):
                self.outside(side, (side.value,), other.enum, domain)
            elif isinstance(side, Constant) and isinstance(domain, FunctionCall):
                self.never_given(side, (side.value,), domain)
            elif (
                isinstance(side, Reference)
                and isinstance(domain, Reference)
                and side is tree.left
                and operand.enum is not None
                and other.enum is not None
                and not any(self.meaning.lists(other.enum, member) for member in operand.enum)
            ):
                message = f"`{side.text()}` and `{domain.text()}` have no value in common"
                self.report("SW205", message, "compare values that can be equal, or widen one of the two types", tree)

    def never_given(self, side: Constant, values: tuple[object, ...], call: FunctionCall) -> None:
        """Report texts that a function never gives, such as one in upper case for `lower`."""
        row = FUNCTIONS[call.function]
        for value in values:
            if row.is_idempotent and isinstance(value, str) and row.apply(value) != value:
                message = f"`{self.shown(call)}` is never {shown_value(value)}"
                rewrite = self.respelt(side, value, [row.apply(value)])
                help = f"did you mean `'{row.apply(value)}'`?"
                self.problems.append(TypeProblem("SW205", message, help, side.start, side.end, rewrite))

    def outside(self, side: Constant, values: tuple[object, ...], enum: tuple[object, ...], domain: Reference) -> None:
        for value in values:
            if self.meaning.lists(enum, value):
                continue
            from difflib import get_close_matches

            from stepward.vm.language.similar import MAX_CANDIDATES

            # The search compares each of them, and a program may have a finding for each.
            few = enum if len(enum) <= MAX_CANDIDATES else ()
            texts = [member for member in few if isinstance(member, str)]
            near = get_close_matches(str(value), texts, n=1, cutoff=0.6) or [
                text for text in texts if text.casefold() == str(value).casefold()
            ]
            help = f"did you mean `'{near[0]}'`?" if near else f"it can be {shown_values(enum)}"
            message = f"`{domain.text()}` is never {shown_value(value)}"
            rewrite = self.respelt(side, value, texts) if isinstance(value, str) else ""
            self.problems.append(TypeProblem("SW205", message, help, side.start, side.end, rewrite))

    def respelt(self, side: Constant, value: str, texts: list[str]) -> str:
        """Return the whole expression with a misspelt text of a constant corrected, or "" if no correction is sure."""
        from stepward.vm.language.similar import only_near

        same_letters = [text for text in texts if text.casefold() == value.casefold()]
        near = same_letters[0] if len(same_letters) == 1 else only_near(value, texts)
        shown_side = self.shown(side)
        quoted = [mark + value + mark for mark in "'\"" if shown_side.count(mark + value + mark) == 1]
        if near is None or len(quoted) != 1 or any(sign in near for sign in "'\"\\"):
            return ""
        mark = quoted[0][0]
        return self.with_replaced(side, shown_side.replace(quoted[0], mark + near + mark))

    def membership(self, tree: Compare, left: _Operand, right: _Operand) -> None:
        whose = f"`{tree.operator}`"
        if right.is_known and right.kinds == STRING:
            contains = "not contains" if OPERATORS[tree.operator].is_negated else "contains"
            turned = f"{self.shown(tree.right)} {contains} {self.shown(tree.left)}"
            message = f"{whose} needs an array on the right, but `{self.shown(tree.right)}` is text"
            whole = self.text[: tree.start] + turned + self.text[tree.end :]
            is_safe = left.is_known and left.kinds == STRING
            problem = TypeProblem("SW203", message, f"write `{whole}`", tree.start, tree.end, whole if is_safe else "")
            self.problems.append(problem)
            return
        if not self.require(tree.right, right, ARRAY, whose) or self.has_unlike_items(
            tree, tree.right, tree.left, left
        ):
            return
        if (
            isinstance(tree.right, Constant)
            and isinstance(tree.left, Reference)
            and left.is_known
            and left.enum is not None
        ):
            self.outside(tree.right, tree.right.value, left.enum, tree.left)
        elif isinstance(tree.right, Constant) and isinstance(tree.left, FunctionCall):
            self.never_given(tree.right, tree.right.value, tree.left)
        elif isinstance(tree.right, Built) and isinstance(tree.left, Reference) and left.is_known and left.enum:
            for part in tree.right.parts:
                if isinstance(part, Constant):
                    self.outside(part, (part.value,), left.enum, tree.left)

    def containment(self, tree: Compare, left: _Operand, right: _Operand) -> None:
        whose = f"`{tree.operator}`"
        if left.is_known and left.kinds == ARRAY:
            self.has_unlike_items(tree, tree.left, tree.right, right)
        elif self.require(tree.left, left, STRING, whose):
            self.require(tree.right, right, STRING, whose)

    def array_items(self, tree: Compare, array: Reference, item: Expression, operand: _Operand) -> None:
        resolution = self.meaning.names.meaning(array.names)
        if resolution is None:
            return
        view = self.meaning.typing.view(resolution, ITEMS)
        if not view.is_known and not view.never and isinstance(item, Reference) and self.is_untyped(item):
            self.untyped(tree, item)
        elif not view.is_known and not view.never:
            message = f"nothing says of what type the items of `{array.text()}` are"
            self.report("SW203", message, "declare the items of the arrays that it is joined from", tree)
        elif view.is_known and _are_unlike(operand.kinds, view.kinds):
            self.unlike_items(tree, item, operand, view.kinds)
        elif isinstance(item, Constant) and view.enum is not None:
            self.outside(item, (item.value,), view.enum, array)

    def has_unlike_items(self, tree: Compare, array: Expression, item: Expression, operand: _Operand) -> bool:
        """Check an item against an array; return whether the items of a list literal are of another kind."""
        if isinstance(array, Arithmetic):
            return any(tuple(self.has_unlike_items(tree, part, item, operand) for part in joined_operands(array)))
        if isinstance(array, Reference):
            self.array_items(tree, array, item, operand)
        if isinstance(array, Built):
            return any(tuple(self.is_unlike(tree, part, item, operand) for part in array.parts))
        if not isinstance(array, Constant) or not operand.is_known or not array.value:
            return False
        is_wrong = _are_unlike(operand.kinds, kind_of(array.value[0]))
        if is_wrong:
            self.unlike_items(tree, item, operand, kind_of(array.value[0]))
        return is_wrong

    def is_unlike(self, tree: Compare, part: Expression, item: Expression, operand: _Operand) -> bool:
        """Report an item of a list that can't be compared with another value; return whether it is one."""
        own = self.check(part, _NOTHING_KNOWN)
        if not own.is_known and not operand.is_known:
            self.untyped(tree, part, item)
            return False
        if not own.is_known or not operand.is_known:
            return False
        many = own.kinds & {"array", "object"}
        if many:
            message = f"`{tree.operator}` compares single values, but `{self.shown(part)}` may be {either(many)}"
            self.report("SW203", message, "write one field of it into the list", part)
        elif _are_unlike(operand.kinds, own.kinds):
            self.unlike_items(tree, item, operand, own.kinds - _NULL)
        return bool(many) or _are_unlike(operand.kinds, own.kinds)

    def unlike_items(self, tree: Compare, item: Expression, operand: _Operand, kinds: Kinds) -> None:
        what = f"`{self.shown(item)}` is {either(operand.kinds - _NULL)}"
        message = f"{what}, but the items are {either(kinds)}: they can't be compared"
        self.report("SW203", message, "compare values of one type", tree)

    def report(self, code: str, message: str, help: str, tree: Expression) -> None:
        self.problems.append(TypeProblem(code, message, help, tree.start, tree.end))


def _are_unlike(left: Kinds, right: Kinds) -> bool:
    """Return whether a comparison may get two values of different kinds; null may be compared with anything."""
    a, b = left - _NULL, right - _NULL
    return bool(a and b) and not (len(a) == 1 and a == b)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text) is not None
