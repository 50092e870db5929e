"""What values are called, what they stand for, and how big they may grow."""

from __future__ import annotations

from gafixer.analysis.compound import Compound, Extent
from gafixer.analysis.values import (
    Atom,
    Attr,
    Bound,
    Called,
    Choice,
    ClassRef,
    Compare,
    Const,
    Detached,
    Element,
    External,
    Func,
    Instance,
    Item,
    Listing,
    Logic,
    LossModule,
    Mapping,
    ModuleRef,
    Modulo,
    Opaque,
    Poly,
    Sequence,
    Sym,
    Term,
    Value,
)

__all__ = ["bounded", "depth", "peel", "text"]


def peel(value: Value) -> Value:
    """What a name stands for: its origin, as far back as one is known."""
    for _ in range(20):
        match value:
            case Sym(origin=origin) if origin is not None:
                value = origin
            case _:
                return value
    return value


def depth(value: Value) -> int:
    """How deeply a symbolic value is nested (bounded at 9, which is as deep as anyone asks)."""
    level = 0
    while level < 9:
        match value:
            case Attr(base=base) | Item(base=base) | Element(of=base) | Called(func=base) | Bound(receiver=base):
                value = base
            case _:
                return level
        level += 1
    return level


#: A value of more parts, or of deeper ones, is code that nobody reads a scale out of. Hashing and comparing walk all of
#: a value, and ``x = (x, x)`` doubles it.
_MOST_PARTS, _DEEPEST = 400, 30
_ALONE = Extent(1, 0)


def bounded(value: Value) -> Value:
    """The value, or an opaque one where it is too large to be worked with."""
    extent = _extent(value)
    return Opaque("too large") if extent.parts > _MOST_PARTS or extent.depth > _DEEPEST else value


def _extent(value: object) -> Extent:
    """How large a value is, as far as hashing it walks."""
    if not isinstance(value, Compound):
        return _ALONE
    known = value.extent
    if known is None:
        inner = [_extent(part) for part in _parts(value)]
        known = Extent(1 + sum(e.parts for e in inner), 1 + max((e.depth for e in inner), default=-1))
        value.remember(known)
    return known


def _parts(value: object) -> tuple[object, ...]:
    """What a value is made of, as far as hashing it walks."""
    match value:
        case Attr(base=of) | Element(of=of) | Bound(receiver=of) | Detached(of=of):
            return (of,)
        case Item(base=base, key=key):
            return base, key
        case Called(func=func, args=args, keywords=keywords):
            return func, *args, *(argument for _, argument in keywords)
        case Modulo(left=left, right=right) | Compare(left=left, right=right):
            return left, right
        case Logic(parts=parts) | Sequence(items=parts) | Choice(options=parts):
            return parts
        case Listing(element=element, length=length):
            return element, length
        case Mapping(entries=entries):
            return tuple(entry for _, entry in entries)
        case Atom(of=of, target=target, ignore=ignore, mask=mask):
            return of, target, ignore, mask
        case Poly(terms=terms):
            return tuple(part for t in terms for part in (t.atom, *(f.value for f in t.factors)))
        case Func(bound=receiver, preset=preset):
            return receiver, *(argument for _, argument in preset)
        case _:
            return ()


def text(value: Value | None) -> str:
    """A short spelling of a value for messages and for judging it by its name."""
    match value:
        case None:
            return ""
        case Const(value=int() as literal) if literal.bit_length() > 200:
            return "..."  # Python refuses to spell very long ones
        case Const(value=literal):
            return repr(literal)
        case Sym(key=key):
            return key
        case Attr(base=base, name=name):
            return f"{text(base)}.{name}"
        case Item(base=base, key=key):
            return f"{text(base)}[{text(key)}]"
        case Element(of=of):
            return f"{text(of)}[*]"
        case Called(func=func):
            return f"{text(func)}()"
        case External(path=path):
            return path
        case Bound(receiver=receiver, name=name):
            return f"{text(receiver)}.{name}"
        case Func(node=node):
            return getattr(node, "name", "lambda")
        case ClassRef(name=name) | ModuleRef(name=name):
            return name
        case Instance(cls=cls):
            return cls.name
        case LossModule(name=name) | Atom(name=name):
            return name
        case Detached(of=of):
            return text(of)
        case Modulo(left=left, right=right):
            return f"{text(left)} % {text(right)}"
        case Choice(options=options):
            return text(options[0])
        case Poly(terms=terms):
            return " + ".join(_term_text(term) for term in terms)
        case _:
            return "..."


def _term_text(term: Term) -> str:
    above = [text(f.value) for f in term.factors if f.power > 0]
    below = [text(f.value) for f in term.factors if f.power < 0]
    if term.coefficient != 1.0:
        above.insert(0, f"{term.coefficient:g}")
    if term.atom is not None:
        above.append(text(term.atom))
    return " / ".join([" * ".join(above) or "1", *below])
