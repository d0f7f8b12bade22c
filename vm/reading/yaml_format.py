"""Reads YAML 1.2 documents from libyaml's events, and finds the locations of paths in the text.

Interpreting the events ourselves gives us the scalars of YAML 1.2, finds repeated keys, counts aliases before they are
expanded, and bounds the depth without recursion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, NoReturn

import yaml

from stepward.vm.errors import Problem, ProgramError
from stepward.vm.reading.document import Document, Extent, PathTree
from stepward.vm.reading.finder import Finder
from stepward.vm.reading.limits import MAX_ALIASED_NODES, MAX_DEPTH
from stepward.vm.reading.quoting import Style
from stepward.vm.reading.scalars import resolve
from stepward.vm.reading.source import LineIndex, Path, Span
from stepward.vm.reading.yaml_hints import quoted_instead

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STYLES: Final[dict[str | None, Style]] = {None: "plain", "": "plain", "'": "single", '"': "double"}
_TAG: Final = "tag:yaml.org,2002:"
_FENCE: Final = re.compile(r"^\s*```", re.MULTILINE)
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*(?:\s+#[^\n]*|\s+)*)*")
"""The anchor and the tag before a value, and the space or comment between."""

_TAGGED_KINDS: Final[dict[str, tuple[type, ...]]] = {
    _TAG + "int": (int,),
    _TAG + "float": (int, Decimal, float),
    _TAG + "bool": (bool,),
    _TAG + "null": (type(None),),
}


def read_yaml(name: str, text: str) -> list[Document]:
    """Return the documents of a YAML text; an empty one has the data None.

    Raises ProgramError (SW001, SW004) if the text is not YAML or exceeds a limit.
    """
    text = text.removeprefix("\ufeff")
    documents: list[Document] = []
    builder = _Builder(name, text)
    try:
        for event in _events(text):
            if isinstance(event, yaml.DocumentStartEvent):
                builder = _Builder(name, text)
            elif isinstance(event, yaml.DocumentEndEvent):
                locator = _Locator(text, len(documents))
                documents.append(Document(name, text, "yaml", builder.root, locator, tuple(builder.problems)))
            else:
                builder.take(event)
    except yaml.YAMLError as error:
        if _is_too_deep(error):
            read_yaml(name, text[: error.problem_mark.index])  # type: ignore[attr-defined] # raises at our own limit
        raise ProgramError(name, (_unreadable(text, error),)) from None
    except UnicodeEncodeError as error:
        span = LineIndex(text).span(error.start, error.start + 1)
        help = "write the whole character"
        raise ProgramError(
            name, (Problem("SW001", "half of a surrogate pair is not a text", help, span=span),)
        ) from None
    return documents


def _events(text: str) -> Iterator[yaml.Event]:
    return yaml.parse(text, Loader=_LOADER)


def _is_too_deep(error: yaml.YAMLError) -> bool:
    """Return whether libyaml has met its own limit of levels. Since 0.2.6 it has one, far above ours.

    It looks ahead for the end of a key, so it may meet its limit before we see the events of the first levels.
    """
    return "exceeded maximum nesting depth" in (getattr(error, "problem", None) or "")


def _unreadable(text: str, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        words = " ".join(part for part in (error.context, error.problem) if part)  # type: ignore[attr-defined]
        offset = mark.index
    else:
        words = str(getattr(error, "reason", error))
        # libyaml's reader counts bytes, its parser counts code points.
        offset = len(text.encode()[: getattr(error, "position", 0)].decode(errors="ignore"))
    line, column = LineIndex(text).position(offset)
    span = Span(line, column, line, column + 1)
    return Problem("SW001", f"not readable as YAML: {words}", _yaml_help(text, offset, words), span=span)


_ESCAPES: Final = {
    "invalid Unicode character escape code": (
        "write the character itself: an escape can be neither half of a surrogate pair nor above `\\U0010FFFF`"
    ),
    "unknown escape character": "write `\\\\` for a backslash between double quotes, or use single quotes",
    "did not find expected hexdecimal number": (
        "an escape has two hexadecimal digits after `\\x`, four after `\\u`, eight after `\\U`"
    ),
}
"""What to do about an escape that libyaml can't read, by its words."""


def _yaml_help(text: str, offset: int, words: str) -> str:
    for problem, help in _ESCAPES.items():
        if problem in words:
            return help
    start, end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
    here = text[start : end if end >= 0 else len(text)]
    if "\t" in here[: len(here) - len(here.lstrip())]:
        return "indent with spaces; YAML does not allow tabs there"
    if "\x00" in text:
        return "remove the NUL byte; a program is a text file"
    if _FENCE.search(text):
        return "remove the code fence and all text outside of it: the file is the program alone"
    quoted = quoted_instead(here, offset - start)
    if quoted:
        return quoted
    if "expected ',' or" in words:
        return "close the bracket, or put a comma between two entries"
    if ": " in here.partition(": ")[2]:
        return "put a text that contains `: ` in quotes"
    return "correct the indentation, a bracket or a quote near this line"


@dataclass(slots=True)
class _Open:
    """A mapping or a sequence that is being read."""

    value: Any
    anchor: str | None
    nodes: int = 1
    key: str | None = None


@dataclass(slots=True)
class _Builder:
    """Turns the events of one document into data."""

    name: str
    text: str
    root: Any = None
    problems: list[Problem] = field(default_factory=list)
    _stack: list[_Open] = field(default_factory=list)
    _anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    _aliased: int = 0
    _lines: LineIndex | None = None

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._open(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._close()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if self._expects_key():
            value = self._stack[-1].key = self._key(event)
        else:
            value = self._value(event)
            self._add(value, 1)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)

    def _value(self, event: yaml.ScalarEvent) -> Any:
        if event.tag is not None and event.tag != "!":
            return self._tagged(event)
        return self._resolved(event) if event.implicit[0] else event.value

    def _resolved(self, event: yaml.ScalarEvent) -> Any:
        try:
            return resolve(event.value)
        except (ValueError, ArithmeticError):
            self._fail(event, "SW004", "a number has too many digits", "write a shorter number, or put it in quotes")

    def _tagged(self, event: yaml.ScalarEvent) -> Any:
        if event.tag == _TAG + "str":
            return event.value
        kinds = _TAGGED_KINDS.get(event.tag or "")
        if kinds is None:
            self._unknown_tag(event, event.tag)
        value = self._resolved(event)
        if type(value) not in kinds:
            message = f"`{event.value}` is not of the tag `{event.tag}`"
            self._fail(event, "SW001", message, "leave the tag out; a program is plain YAML")
        return value

    def _unknown_tag(self, event: yaml.Event, tag: str | None) -> NoReturn:
        self._fail(event, "SW001", f"the tag `{tag}` is not known", "leave the tag out; a program is plain YAML")

    def _key(self, event: yaml.ScalarEvent) -> str:
        mapping = self._stack[-1].value
        key: str = event.value
        if not isinstance(self._value(event), str):
            self._report(event, "SW002", f"the key `{key}` is not text", f'put it in quotes: `"{key}"`')
        elif key == "<<" and event.implicit[0]:
            self._report(event, "SW002", "`<<` is not a field: YAML 1.2 has no merge keys", "write the fields out")
        if key in mapping:
            self._report(
                event, "SW003", f"the key `{key}` occurs twice in one mapping", "remove one of the two, or rename it"
            )
        return key

    def _expects_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        if self._expects_key():
            self._fail(event, "SW001", "a key is a list or a mapping", "write the key as text")
        if event.tag not in (None, "!", _TAG + ("map" if isinstance(event, yaml.MappingStartEvent) else "seq")):
            self._unknown_tag(event, event.tag)
        if len(self._stack) >= MAX_DEPTH:
            self._fail(event, "SW004", f"nested deeper than {MAX_DEPTH} levels", "flatten the document")
        self._stack.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))

    def _close(self) -> None:
        done = self._stack.pop()
        if done.anchor is not None:
            self._anchors[done.anchor] = (done.value, done.nodes)
        self._add(done.value, done.nodes)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if self._expects_key():
            self._fail(event, "SW001", "a key is an alias", "write the key as text")
        if event.anchor not in self._anchors:
            self._fail(event, "SW001", f"the alias `*{event.anchor}` has no anchor before it", "define `&name` first")
        value, nodes = self._anchors[event.anchor]
        self._aliased += nodes
        if self._aliased > MAX_ALIASED_NODES:
            message = f"the aliases expand to more than {MAX_ALIASED_NODES:,} values"
            self._fail(event, "SW004", message, "write the values out, or use fewer aliases")
        self._add(value, nodes)

    def _add(self, value: Any, nodes: int) -> None:
        if not self._stack:
            self.root = value
            return
        top = self._stack[-1]
        top.nodes += nodes
        if isinstance(top.value, list):
            top.value.append(value)
        else:
            top.value[top.key] = value
            top.key = None

    def _report(self, event: yaml.Event, code: str, message: str, help: str) -> None:
        self.problems.append(Problem(code, message, help, span=self._span(event)))

    def _fail(self, event: yaml.Event, code: str, message: str, help: str) -> NoReturn:
        raise ProgramError(self.name, (Problem(code, message, help, span=self._span(event)),))

    def _span(self, event: yaml.Event) -> Span:
        # By offset, because libyaml counts line breaks that nobody else counts (U+0085, U+2028).
        self._lines = self._lines or LineIndex(self.text)
        return self._lines.span(*_offsets(event))


def _offsets(event: yaml.Event) -> tuple[int, int]:
    start, end = event.start_mark, event.end_mark
    assert start is not None, "libyaml marks every event"
    assert end is not None, "libyaml marks every event"
    return start.index, end.index


@dataclass(frozen=True, slots=True)
class _Locator:
    """Finds the extents of paths in one document of a YAML text."""

    text: str
    number: int

    def __call__(self, paths: PathTree) -> dict[Path, Extent]:
        document = -1
        finder = Finder(paths)
        for event in _events(self.text):
            if isinstance(event, yaml.DocumentStartEvent):
                document += 1
            elif document == self.number:
                if isinstance(event, yaml.DocumentEndEvent):
                    break
                self._take(event, finder)
        return finder.found

    def _take(self, event: yaml.Event, finder: Finder) -> None:
        start, end = _offsets(event)
        if isinstance(event, yaml.ScalarEvent) and (event.anchor is not None or event.tag is not None):
            properties = _PROPERTIES.match(self.text, start, end)
            assert properties is not None, "the pattern matches nothing, too"
            start = properties.end()
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            finder.end(end)
        elif finder.expects_key:
            assert isinstance(event, yaml.ScalarEvent), "the builder let only text keys through"
            finder.key(event.value, start, end)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            finder.begin(start, is_mapping=isinstance(event, yaml.MappingStartEvent))
        else:
            finder.scalar(
                start, end, _STYLES.get(event.style, "block") if isinstance(event, yaml.ScalarEvent) else None
            )
