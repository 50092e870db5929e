"""Models of the project behind a call that could not be followed: what the loss is that their forward makes of it.

Which object a script trains is often settled at run time (a checkpoint, a factory, a registry). The classes that the
files in sight name, and whose forward fits the call, are what it can be.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, calls
from gafixer.analysis.interpreter import FUEL, Interpreter
from gafixer.analysis.values import (
    OPAQUE,
    Called,
    Choice,
    ClassRef,
    Element,
    Instance,
    Item,
    Kind,
    Mapping,
    Sequence,
    Sym,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gafixer.analysis.names import Names
    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module
    from gafixer.analysis.values import Atom, Func, Value

__all__ = ["Model", "behind"]

#: Classes of one file that are looked into.
_MOST = 12


@dataclass(frozen=True, slots=True)
class Model:
    """A class that a call may run, and the loss that its forward gives. `modules` are the files that this took."""

    cls: ClassRef
    loss: Value
    modules: dict[str, Module]


def behind(atom: Atom, module: Module, project: Project) -> Iterator[Model]:
    """The models that a file names and that a head's call may run."""
    if not isinstance(atom.of, Called):
        return
    run = Interpreter(project, module, set())
    run.opens_tuples = True  # ``outputs = (loss,) + outputs[2:]``
    # Two scopes: a parameter that the call doesn't give has its default.
    run.scopes += [run.new_scope(module), run.new_scope(module)]
    for cls in itertools.islice(_named(run.names, module), _MOST):
        run.fuel = FUEL
        for output in _outputs(run, _forward(run, cls, atom.of), atom.part):
            for loss in output.options if isinstance(output, Choice) else (output,):
                if _is_loss(loss):
                    yield Model(cls, loss, run.names.modules)


def _named(names: Names, module: Module) -> Iterator[ClassRef]:
    """The modules of the project that a file's code names, imports left out: what is never used makes no model."""
    found = (names.dotted(module, node) for node in module.once(_capitalised))
    for cls in dict.fromkeys(one for one in found if isinstance(one, ClassRef)):
        if names.method(cls, "forward") is not None:
            yield cls


def _capitalised(module: Module) -> list[ast.Name | ast.Attribute]:
    """Where a module's code first names what is called like a class, for each such name."""
    found: dict[str, ast.Name | ast.Attribute] = {}
    for node in itertools.chain.from_iterable(map(ast.walk, module.statements())):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) if name[:1].isupper():
                found.setdefault(ast.dump(node), node)
            case _:
                pass
    return list(found.values())


def _forward(run: Interpreter, cls: ClassRef, call: Called) -> Value:
    """What a class's forward gives for a call; nothing where it doesn't take that."""
    forward = run.names.method(cls, "forward")
    keywords = dict(call.keywords)
    if forward is None or not _takes(forward, len(call.args), keywords):
        return OPAQUE
    obj = calls.instance(run, cls, (), {})
    if not isinstance(obj, Instance):
        return OPAQUE
    args = tuple(map(_surely, call.args))
    given = {name: _surely(value) for name, value in _spread_out(keywords).items()}
    return run.run_function(dataclasses.replace(forward, bound=obj), args, given)


def _spread_out(keywords: dict[str, Value]) -> dict[str, Value]:
    """Arguments by name, those of a dict that is spread into the call among them; of several dicts what all have."""
    match keywords.get("**"):
        case Mapping() as only:
            options = [only]
        case Choice(options=parts) if all(isinstance(part, Mapping) for part in parts):
            options = [part for part in parts if isinstance(part, Mapping)]
        case _:
            return keywords
    *others, last = ({key: value for key, value in o.entries if isinstance(key, str)} for o in options)
    shared = {key: value for key, value in last.items() if all(key in other for other in others)}
    return shared | {name: value for name, value in keywords.items() if name != "**"}


def _surely(value: Value) -> Value:
    """What a call is given is there, even if it is not known what it is: a part of a batch."""
    match value:
        case Item() | Element():
            return Sym("given", origin=value)
        case Choice(options=options):
            return Choice(tuple(map(_surely, options)))
        case _:
            return value


def _takes(forward: Func, given: int, keywords: Iterable[str]) -> bool:
    spec = forward.node.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)][1:]
    known = {*names, *(a.arg for a in spec.kwonlyargs), "**"}
    return (given <= len(names) or spec.vararg is not None) and (spec.kwarg is not None or known >= set(keywords))


def _outputs(run: Interpreter, value: Value, part: str | int | None) -> Iterator[Value]:
    """The output that the code takes for the loss; of an object that has one, its ``loss``."""
    match value:
        case Choice(options=options):
            for option in options:
                yield from _outputs(run, option, part)
        case Sequence(items=items):
            if isinstance(part, int) and -len(items) <= part < len(items):
                yield items[part]
        case Mapping():
            yield value.get(part if isinstance(part, str) else "loss") or OPAQUE
        case Called(keywords=keywords):
            yield dict(keywords).get(part if isinstance(part, str) else "loss", OPAQUE)
        case Instance(id=key):
            yield run.heap.get((key, part if isinstance(part, str) else "loss"), OPAQUE)
        case _:
            yield value


def _is_loss(value: Value) -> bool:
    whole = algebra.poly(value)
    return whole is not None and any(t.atom is not None and t.atom.kind is Kind.LOSS for t in whole.terms)
