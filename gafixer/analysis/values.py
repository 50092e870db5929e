"""What an expression of training code can be, as far as gradient accumulation cares.

Symbolic values (`Sym`, `Attr`, `Item`, `Element`, `Called`) say where something comes from without knowing what it
is. A loss is a `Poly`: a sum of terms, a term being ``coefficient x factors x atom``. An atom is a loss call, the
default loss of a head, or a reduction of something unknown; a factor carries a power and the place that applied it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from gafixer.analysis.compound import Compound

if TYPE_CHECKING:
    import ast

    from gafixer.analysis.spot import Spot
    from gafixer.declared import OwnLoss

__all__ = [
    "MICROBATCHES",
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
    "Sym",
    "Term",
    "Value",
]

#: Ids of the loops around an expression, outermost first.
Loops: TypeAlias = tuple[int, ...]


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

    `origin` is what was assigned to it, `loops` the loops around that assignment. `cls` is the class of the
    project that an annotation promises.
    """

    key: str
    origin: Value | None = field(default=None, compare=False)
    loops: Loops = field(default=(), compare=False)
    default: Value | None = field(default=None, compare=False)
    cls: ClassRef | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Attr(Compound):
    """An attribute of a value that is not known."""

    __hash__ = Compound.__hash__

    base: Value
    name: str


@dataclass(frozen=True, slots=True)
class Item(Compound):
    """A subscript of a value that is not known."""

    __hash__ = Compound.__hash__

    base: Value
    key: Value


@dataclass(frozen=True, slots=True)
class Element(Compound):
    """What a loop draws from `of`."""

    __hash__ = Compound.__hash__

    of: Value
    loop: int


@dataclass(frozen=True, slots=True)
class Called(Compound):
    """The result of a call that could not be followed."""

    __hash__ = Compound.__hash__

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
class Modulo(Compound):
    """``left % right``."""

    __hash__ = Compound.__hash__

    left: Value
    right: Value
    spot: Spot = field(compare=False)


@dataclass(frozen=True, slots=True)
class Compare(Compound):
    """``left op right`` with the operator's Python spelling."""

    __hash__ = Compound.__hash__

    op: str
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Logic(Compound):
    """``and``, ``or``, ``not`` of values."""

    __hash__ = Compound.__hash__

    op: LogicOp
    parts: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Sequence(Compound):
    """A tuple or list whose elements are known."""

    __hash__ = Compound.__hash__

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Listing(Compound):
    """A list that a loop fills: one `element` per iteration."""

    __hash__ = Compound.__hash__

    element: Value
    loop: int | None = None
    length: Value | None = None


@dataclass(frozen=True, slots=True)
class Mapping(Compound):
    """A dict with known keys."""

    __hash__ = Compound.__hash__

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
class ClassRef(Compound):
    """A class of the project: the path of its module, its name, and its statement, as a name may be given twice."""

    __hash__ = Compound.__hash__

    module: str
    name: str
    node: ast.ClassDef = field(repr=False)


@dataclass(frozen=True, slots=True)
class Instance(Compound):
    """An object of a project class; its attributes live in the interpreter's heap under `id`."""

    __hash__ = Compound.__hash__

    cls: ClassRef
    id: int


@dataclass(frozen=True, slots=True)
class Func(Compound):
    """A function of the project, with what it closes over and, for a method, its object.

    A `plain` one is meant without its decorators: it is what they were given.
    """

    __hash__ = Compound.__hash__

    module: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda = field(compare=False, repr=False)
    key: int = 0
    closure: tuple[tuple[str, Value], ...] = field(default=(), compare=False, repr=False)
    bound: Value | None = None
    owner: ClassRef | None = None
    preset: tuple[tuple[str, Value], ...] = ()
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Bound(Compound):
    """A method of a value that is not an object of the project."""

    __hash__ = Compound.__hash__

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class LossModule(Compound):
    """A loss object, for example ``nn.CrossEntropyLoss(ignore_index=0)``, or a call with these settings to come.

    `own` is what the project declares of it, where it is no loss of PyTorch.
    """

    __hash__ = Compound.__hash__

    name: str
    reduction: Reduction
    spot: Spot = field(compare=False)
    ignore: Value | None = None
    weighted: bool = False
    own: OwnLoss | None = None


@dataclass(frozen=True, slots=True)
class Detached(Compound):
    """A value cut from the graph: what is logged."""

    __hash__ = Compound.__hash__

    of: Value


@dataclass(frozen=True, slots=True)
class Choice(Compound):
    """One of several values, depending on a branch."""

    __hash__ = Compound.__hash__

    options: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Atom(Compound):
    """The innermost part of a term.

    `target`, `ignore`, `weighted` and `mask` say what its items are; `loops` are the loops around it, `accumulated`
    the loop over which it was summed up; `everywhere` says that it was summed over ranks; `samples` that a sample was
    reduced to one number before, so that the items are samples; `whole` that it is a mean over every position, scored
    or not, of losses per item. `made` is where the loss object was made, the call
    itself for a function. `part` says which output of a head's call this is: an attribute, a key, a position.
    `own` is what the project declares of a loss of its own.
    """

    __hash__ = Compound.__hash__

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
    whole: bool = False
    made: Spot | None = field(default=None, compare=False)
    part: str | int | None = None
    own: OwnLoss | None = None


@dataclass(frozen=True, slots=True)
class Factor(Compound):
    """``value ** power``, applied at `spot`; `via` is where a precomputed factor was made."""

    __hash__ = Compound.__hash__

    value: Value
    power: int
    spot: Spot | None = field(default=None, compare=False)
    author: Author = Author.CODE
    via: Spot | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Term(Compound):
    """``coefficient x factors x atom``; without an atom it is a plain number."""

    __hash__ = Compound.__hash__

    atom: Atom | None
    factors: tuple[Factor, ...] = ()
    coefficient: float = 1.0


@dataclass(frozen=True, slots=True)
class Poly(Compound):
    """A sum of terms."""

    __hash__ = Compound.__hash__

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
#: How many microbatches the window at hand really has, as a loader that brings counts tells it.
MICROBATCHES = Sym("microbatches")
