"""Arguments of public functions, checked against their signatures: a wrong one is one sentence."""

import difflib
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from reltucker.errors import ReltuckerError

P = ParamSpec("P")
Found = TypeVar("Found")

_WORDS: dict[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
    Path: "a path",
    PathLike: "a path",
    Sequence: "a list",
    Iterable: "a list",
    dict: "a dict",
    Mapping: "a dict",
}


def checked(**advice: str) -> Callable[[Callable[P, Found]], Callable[P, Found]]:
    """Refuse arguments that are not of the type that the signature names; `advice`, by parameter,
    is added to what is said."""

    def decorate(function: Callable[P, Found]) -> Callable[P, Found]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Found:
            kinds = get_type_hints(function)
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if name in kinds:
                    _check(name, value, list(_members(kinds[name])), advice.get(name))
            return function(*args, **kwargs)

        return call

    return decorate


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse what is none of the choices."""
    if not isinstance(value, str) or value not in choices:
        close = difflib.get_close_matches(value, choices, 1) if isinstance(value, str) else []
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ReltuckerError(
            f"{name} = {_shown(value)}: choose {_either(map(repr, choices))}{hint}"
        )


def check_count(name: str, value: int, what: str) -> None:
    """Refuse less than one."""
    if value < 1:
        raise ReltuckerError(f"{name} = {value}: ask for at least one {what}")


def _check(name: str, value: Any, kinds: list[Any], advice: str | None) -> None:
    if any(_fits(value, kind) for kind in kinds):
        return
    for kind in kinds:
        if get_origin(kind) is Literal and isinstance(value, str):
            check_choice(name, value, get_args(kind))
        if get_origin(kind) in (Sequence, Iterable) and isinstance(value, list | tuple):
            for place, each in enumerate(value):
                _check(f"{name}[{place}]", each, list(_members(get_args(kind)[0])), advice)
    wanted = _either(dict.fromkeys(_said(kind) for kind in kinds))
    more = f" ({advice})" if advice else ""
    raise ReltuckerError(
        f"{name} = {_shown(value)} is of type {type(value).__name__}; give {wanted}{more}"
    )


def _members(kind: Any) -> Iterator[Any]:
    """A kind, or those of a union."""
    if get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from _members(part)
    else:
        yield kind


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind, as far as our signatures go."""
    base = get_origin(kind) or kind
    if base is Any:
        return True
    if base is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if base in (int, float):  # those of numpy, too
        return isinstance(value, Integral if base is int else Real) and not isinstance(value, bool)
    if base in (Sequence, Iterable):
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        # Anything else that holds names, such as a column of a frame, is looked at when it is read.
        one_by_one = value if isinstance(value, list | tuple) else ()
        kinds = list(_members(get_args(kind)[0]))
        return all(any(_fits(each, part) for part in kinds) for each in one_by_one)
    return isinstance(value, base)


def _said(kind: Any) -> str:
    """A kind in words."""
    base = get_origin(kind) or kind
    if base is Literal:
        return _either(map(repr, get_args(kind)))
    if kind in (Sequence[str], Sequence[float]):
        return f"a list of {'strings' if kind == Sequence[str] else 'numbers'}"
    return _WORDS.get(base) or f"a {base.__name__}"


def _either(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _shown(value: Any) -> str:
    """A value on one line, cut where it is long."""
    return " ".join(reprlib.repr(value).split())
