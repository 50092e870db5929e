"""What an expression of training code can be, as far as gradient accumulation cares.

Symbolic values (`Sym`, `Attr`, `Item`, `Element`, `Called`) say where something comes from without knowing what it
is. A loss is a `Poly`: a sum of terms, a term being ``coefficient x factors x atom``. An atom is a loss call, the
default loss of a head, or a reduction of something unknown; a factor carries a power and the place that applied it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import ast

__all__ = [
    "OPAQUE",
    "Atom",
    "Attr",
    "Author",
    "Bound",
    "Called",
    "Choice",
    "ClassRef",
    "Compare",
    "Const",
    "Detached",
    "Element",
    "External",
    "Factor",
    "Func",
    "Index",
    "Instance",
    "Item",
    "Kind",
    "Listing",
    "Logic",
    "LogicOp",
    "Loops",
    "LossModule",
    "Mapping",
    "ModuleRef",
    "Modulo",
    "Opaque",
    "Poly",
    "Reduction",
    "Sequence",
    "Spot",
    "Sym",
    "Term",
    "Value",
    "bounded",
    "depth",
    "peel",
    "text",
]

#: Ids of the loops around an expression, outermost first.
Loops: TypeAlias = tuple[int, ...]


class Spot(NamedTuple):
    """A place as `ast` gives it: rows count from 1, columns are UTF-8 bytes from 0."""

    path: str
    row: int
    column: int
    end_row: int
    end_column: int


class Author(enum.Enum):
    """Who wrote a division: the code in sight, or the framework that backward goes through."""

    CODE = "code"
    FRAMEWORK = "framework"


class Kind(enum.Enum):
    """What an atom is."""

    LOSS = "loss call"
    HEAD = "head"
    REDUCED = "reduction"
    UNKNOWN = "unknown"


class Reduction(enum.Enum):
    """How an atom was reduced over its items."""

    MEAN = "mean"
    SUM = "sum"
    NONE = "none"
    UNKNOWN = "unknown"


class LogicOp(enum.Enum):
    """Connectives of a guard."""

    AND = "and"
    OR = "or"
    NOT = "not"


@dataclass(frozen=True, slots=True)
class Const:
    """A literal."""

    value: object


@dataclass(frozen=True, slots=True)
class Sym:
    """A name whose value is not known: a parameter, a global, an element of a batch.

    `origin` is what was assigned to it, `loops` the loops around that assignment.
    """

    key: str
    origin: Value | None = field(default=None, compare=False)
    loops: Loops = field(default=(), compare=False)
    default: Value | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of a value that is not known."""

    base: Value
    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """A subscript of a value that is not known."""

    base: Value
    key: Value


@dataclass(frozen=True, slots=True)
class Element:
    """What a loop draws from `of`."""

    of: Value
    loop: int


@dataclass(frozen=True, slots=True)
class Called:
    """The result of a call that could not be followed."""

    func: Value
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    spot: Spot = field(compare=False)
    loops: Loops = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that the algebra gives up on, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Index:
    """An integer that is ``k + offset`` in iteration k (from 0) of a loop; `offset` is None where it isn't known.

    `restarts` says that it begins anew each time that the loop is entered, as ``enumerate`` does.
    """

    loop: int
    offset: int | None
    restarts: bool = True


@dataclass(frozen=True, slots=True)
class Modulo:
    """``left % right``."""

    left: Value
    right: Value
    spot: Spot = field(compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """``left op right`` with the operator's Python spelling."""

    op: str
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Logic:
    """``and``, ``or``, ``not`` of values."""

    op: LogicOp
    parts: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """A tuple or list whose elements are known."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A list that a loop fills: one `element` per iteration."""

    element: Value
    loop: int | None = None
    length: Value | None = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """A dict with known keys."""

    entries: tuple[tuple[object, Value], ...]

    def get(self, key: object) -> Value | None:
        """The value under `key`, or None."""
        return next((value for name, value in self.entries if name == key), None)


@dataclass(frozen=True, slots=True)
class External:
    """A dotted name of a library, for example ``torch.nn.functional.cross_entropy``."""

    path: str


@dataclass(frozen=True, slots=True)
class ModuleRef:
    """A module of the project."""

    name: str


@dataclass(frozen=True, slots=True)
class ClassRef:
    """A class of the project: the module's dotted name and the class's qualified name."""

    module: str
    name: str
    node: ast.ClassDef = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a project class; its attributes live in the interpreter's heap under `id`."""

    cls: ClassRef
    id: int


@dataclass(frozen=True, slots=True)
class Func:
    """A function of the project, with what it closes over and, for a method, its object."""

    module: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda = field(compare=False, repr=False)
    key: int = 0
    closure: tuple[tuple[str, Value], ...] = field(default=(), compare=False, repr=False)
    bound: Value | None = None
    owner: ClassRef | None = None
    preset: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """A method of a value that is not an object of the project."""

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class LossModule:
    """A loss object, for example ``nn.CrossEntropyLoss(ignore_index=0)``, or a call with these settings to come."""

    name: str
    reduction: Reduction
    spot: Spot = field(compare=False)
    ignore: Value | None = None
    weighted: bool = False


@dataclass(frozen=True, slots=True)
class Detached:
    """A value cut from the graph: what is logged."""

    of: Value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several values, depending on a branch."""

    options: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Atom:
    """The innermost part of a term.

    `target`, `ignore`, `weighted` and `mask` say what its items are; `loops` are the loops around it, `accumulated`
    the loop over which it was summed up; `everywhere` says that it was summed over ranks; `samples` that a sample was
    reduced to one number before, so that the items are samples. `made` is where the loss object was made, the call
    itself for a function.
    """

    kind: Kind
    name: str
    reduction: Reduction
    spot: Spot = field(compare=False)
    loops: Loops = field(default=(), compare=False)
    of: Value | None = None
    target: Value | None = None
    ignore: Value | None = None
    weighted: bool = False
    mask: Value | None = None
    accumulated: int | None = None
    everywhere: bool = False
    samples: bool = False
    made: Spot | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Factor:
    """``value ** power``, applied at `spot`; `via` is where a precomputed factor was made."""

    value: Value
    power: int
    spot: Spot | None = field(default=None, compare=False)
    author: Author = Author.CODE
    via: Spot | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Term:
    """``coefficient x factors x atom``; without an atom it is a plain number."""

    atom: Atom | None
    factors: tuple[Factor, ...] = ()
    coefficient: float = 1.0


@dataclass(frozen=True, slots=True)
class Poly:
    """A sum of terms."""

    terms: tuple[Term, ...]


Value: TypeAlias = (
    Const
    | Sym
    | Attr
    | Item
    | Element
    | Called
    | Opaque
    | Index
    | Modulo
    | Compare
    | Logic
    | Sequence
    | Listing
    | Mapping
    | External
    | ModuleRef
    | ClassRef
    | Instance
    | Func
    | Bound
    | LossModule
    | Detached
    | Choice
    | Atom
    | Poly
)

OPAQUE = Opaque("not followed")


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


def bounded(value: Value) -> Value:
    """The value, or an opaque one where it is too large to be worked with."""
    if isinstance(value, Const | Sym | External | Instance | Opaque | Index):
        return value
    count = 0
    stack: list[tuple[object, int]] = [(value, 0)]
    while stack:
        part, level = stack.pop()
        count += 1
        if count > _MOST_PARTS or level > _DEEPEST:
            return Opaque("too large")
        stack += [(inner, level + 1) for inner in _parts(part)]
    return value


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
