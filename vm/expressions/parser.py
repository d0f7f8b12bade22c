"""Parses tokens into a tree, by operator precedence (Pratt, "Top down operator precedence", 1973).

or  <  and  <  not  <  comparisons  <  + -  <  *  <  unary -
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, cast

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.lexer import Token, tokens
from stepward.vm.expressions.operands import joined_kinds, result_kinds
from stepward.vm.expressions.operators import (
    ASKS_FOR_REFERENCE,
    COMPARE,
    FUNCTION_WORDS,
    FUNCTIONS,
    KEYWORDS,
    LITERALS,
    LOOSEST,
    NOT,
    OPERATORS,
    POWERS,
    UNARY,
    Comparison,
    Connective,
    FunctionName,
    Kinds,
    Sign,
    kind,
)
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
)

MAX_NESTING: Final = 32
"""Maximal nesting of parentheses, `not` and unary minus: the parser recurses over nothing else."""

_POWERS: Final[dict[str, int]] = {**dict.fromkeys(OPERATORS, COMPARE), **POWERS}


@lru_cache(maxsize=4096)
def parse(text: str, language: int = 1) -> Expression:
    """Return the tree of an expression of a program; in `language` 2, its `+` also joins texts and arrays.

    Raises ExpressionError with the location, what was expected, and, for common mistakes, what to write instead.
    """
    try:
        return _Parser(text, language).whole()
    except ExpressionError as error:
        from stepward.vm.expressions.hints import improve

        raise improve(error, parses) from None


def parses(text: str) -> bool:
    """Return whether a text is an expression."""
    try:
        _Parser(text).whole()
    except ExpressionError:
        return False
    return True


class _Parser:
    """The state of parsing one text: its tokens, and the index of the next one."""

    def __init__(self, text: str, language: int = 1) -> None:
        self.text = text
        self.language = language
        self.tokens = tokens(text)
        self.position = 0
        self.depth = 0

    def whole(self) -> Expression:
        if self.peek().kind == "end":
            raise self.error("an expression is expected", self.peek())
        tree = self.expression(LOOSEST)
        rest = self.peek()
        if rest.kind != "end":
            raise self.error(f"expected an operator or the end, found `{rest.text}`", rest)
        return tree

    def peek(self) -> Token:
        return self.tokens[self.position]

    def take(self) -> Token:
        token = self.tokens[self.position]
        if token.kind != "end":  # the last token is never consumed
            self.position += 1
        return token

    def reached(self) -> int:
        """Return the end of the last token taken: a parenthesis belongs to the outer node, not to the inner one."""
        return self.tokens[self.position - 1].end

    def error(self, message: str, token: Token, help: str = "") -> ExpressionError:
        return ExpressionError(self.text, message, token.start, max(token.end, token.start), help)

    def expression(self, least: int) -> Expression:
        start = self.peek().start
        left = self.prefix(least)
        while True:
            operator = self.operator()
            if operator is None:
                return left
            word, power, width = operator
            if power <= least:
                return left
            if power == COMPARE:
                left = self.comparison(start, left, cast(Comparison, word), width)
            elif power < COMPARE:
                left = self.logic(start, left, cast(Connective, word), power)
            else:
                left = self.arithmetic(start, left, power)

    def operator(self) -> tuple[str, int, int] | None:
        """Return the next operator, if any: its name, its binding power, and the number of its tokens."""
        token = self.tokens[self.position]
        if token.kind not in ("word", "sign"):
            return None
        word, width = token.text, 1
        if word == "not":
            word, width = f"not {self.tokens[self.position + 1].text}", 2
        power = _POWERS.get(word)
        return None if power is None else (word, power, width)

    def comparison(self, start: int, left: Expression, operator: Comparison, width: int) -> Expression:
        self.position += width
        middle = self.peek().start
        right = self.expression(COMPARE)
        end = self.reached()
        following = self.operator()
        if following is not None and following[1] == COMPARE:
            token = self.peek()
            raise self.error(
                f"comparisons do not chain: expected `and`, `or` or the end, found `{token.text}`",
                token,
                f"write `{self.text[start:end]} and {self.text[middle:end]} {self.text[token.start :]}`",
            )
        return Compare(start, end, operator, left, right)

    def logic(self, start: int, left: Expression, word: Connective, power: int) -> Expression:
        operands = [left]
        while self.peek().kind == "word" and self.peek().text == word:
            self.take()
            operands.append(self.expression(power))
        return Logic(start, self.reached(), word, tuple(operands))

    def arithmetic(self, start: int, left: Expression, power: int) -> Expression:
        rest: list[tuple[Sign, Expression]] = []
        while self.peek().kind == "sign" and _POWERS.get(self.peek().text) == power:
            sign = cast(Sign, self.take().text)
            rest.append((sign, self.expression(power)))
        return Arithmetic(start, self.reached(), left, tuple(rest), self.joins(left, rest))

    def joins(self, first: Expression, rest: list[tuple[Sign, Expression]]) -> Kinds:
        """Return the kinds that a chain may give if its `+` also joins; none for a chain of numbers only."""
        if self.language == 1 or any(sign != "+" for sign, _ in rest):
            return frozenset()
        return joined_kinds(result_kinds(operand) for operand in (first, *(operand for _, operand in rest)))

    def prefix(self, least: int) -> Expression:
        token = self.peek()
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.error(
                f"nested deeper than {MAX_NESTING} levels", token, "split the condition over several steps"
            )
        try:
            if token.kind == "word" and token.text == "not":
                return self.negation(token, least)
            if token.text == "-" and token.kind == "sign":
                return self.minus(token)
            return self.primary(token)
        finally:
            self.depth -= 1

    def negation(self, token: Token, least: int) -> Expression:
        if least > NOT:
            raise self.error("expected a value, found `not`", token, "put `not …` in parentheses here")
        self.take()
        operand = self.expression(NOT)
        return Negation(token.start, self.reached(), operand)

    def minus(self, token: Token) -> Expression:
        self.take()
        operand = self.expression(UNARY)
        if (
            isinstance(operand, Constant)
            and type(operand.value) is not bool
            and operand.start == self.tokens[self.position - 1].start
        ):
            if isinstance(operand.value, str | tuple) or operand.value is None:
                return Minus(token.start, operand.end, operand)
            return Constant(token.start, operand.end, -operand.value)
        return Minus(token.start, self.reached(), operand)

    def primary(self, token: Token) -> Expression:
        self.take()
        if token.kind in ("number", "text"):
            return Constant(token.start, token.end, token.value)
        if token.kind == "reference":
            return Reference(token.start, token.end, token.value)
        if token.text == "(":
            inner = self.expression(LOOSEST)
            self.expect(")", token)
            return inner
        if token.text == "[":
            return self.list_literal(token)
        if token.text in LITERALS:
            return Constant(token.start, token.end, LITERALS[token.text])
        if token.text in FUNCTION_WORDS:
            return self.function(token)
        raise self.no_value(token)

    def expect(self, sign: str, opened: Token) -> Token:
        token = self.take()
        if token.text != sign or token.kind != "sign":
            found = "the end" if token.kind == "end" else f"`{token.text}`"
            raise self.error(f"expected `{sign}` to close `{opened.text}`, found {found}", token)
        return token

    def list_literal(self, opening: Token) -> Expression:
        items: list[Constant | Reference] = []
        kinds: set[str] = set()
        while self.peek().text != "]":
            start = self.peek()
            item = self.expression(COMPARE)
            # `(1)`, `($x)` and `--1` are a constant or a reference, too, but not written so.
            is_plain = isinstance(item, Reference) or (isinstance(item, Constant) and not isinstance(item.value, tuple))
            if not is_plain or item.start != start.start:
                help = "assign the value to a name of its own first, and write that name here"
                raise self.error("a list holds literals and references only", start, help)
            if isinstance(item, Constant):
                kinds.add(kind(item.value))
            if len(kinds) > 1:
                raise self.error("a list holds literals of one type", start, "split it into two comparisons")
            items.append(item)  # type: ignore[arg-type]
            if self.peek().text != ",":
                break
            self.take()
        closing = self.expect("]", opening)
        if all(isinstance(item, Constant) for item in items):
            return Constant(opening.start, closing.end, tuple(item.value for item in items))  # type: ignore[union-attr]
        names = tuple(f"[{number}]" for number in range(len(items)))
        return Built(opening.start, closing.end, names, tuple(items), is_list=True)

    def function(self, token: Token) -> Expression:
        if self.peek().text != "(":
            raise self.error(f"expected `(` after `{token.text}`", self.peek(), f"write `{token.text}($name)`")
        opening = self.take()
        if self.peek().text == ")":
            raise self.error(f"`{token.text}` needs a value", self.peek(), f"write `{token.text}($name)`")
        argument = self.expression(LOOSEST)
        if token.text != ASKS_FOR_REFERENCE:
            name = cast(FunctionName, token.text)
            literal = self.second(name)
            return FunctionCall(token.start, self.expect(")", opening).end, name, argument, literal)
        closing = self.expect(")", opening)
        if not isinstance(argument, Reference):
            raise ExpressionError(
                self.text, "`defined` asks about a reference", argument.start, argument.end, "write `defined($name)`"
            )
        return Defined(token.start, closing.end, argument)

    def second(self, name: FunctionName) -> str | None:
        """Take the comma and the literal of a function with a second argument; return the text, None without one."""
        literal = FUNCTIONS[name].literal
        if literal is None:
            if self.peek().text == ",":
                raise self.error(f"`{name}` takes one value", self.peek(), f"write `{name}($name)`")
            return None
        what, example = literal
        help = f"write `{name}($name, {example})`"
        if self.peek().text != ",":
            raise self.error(f"`{name}` needs its {what} after a comma", self.peek(), help)
        self.take()
        token = self.peek()
        if token.kind != "text":
            raise self.error(f"the {what} of `{name}` is a text in quotes, not an expression", token, help)
        self.take()
        text: str = token.value
        if what == "pattern":
            self.require_pattern(text, token)
        return text

    def require_pattern(self, text: str, token: Token) -> None:
        """Raise ExpressionError for a pattern that a type would not accept either."""
        from stepward.vm.patterns.acceptance import require_accepted
        from stepward.vm.patterns.syntax import PatternError

        try:
            require_accepted(text)
        except PatternError as error:
            message = f"the pattern is not one that can be used: {error.message}"
            raise self.error(message, token, error.help) from None

    def no_value(self, token: Token) -> ExpressionError:
        found = "the end" if token.kind == "end" else f"`{token.text}`"
        if token.kind == "word" and token.text not in KEYWORDS:
            help = f"write `${token.text}` for the variable, or `'{token.text}'` for text"
            return self.error(f"expected a value, found the bare word {found}", token, help)
        return self.error(f"expected a value, found {found}", token)
