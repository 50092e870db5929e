"""Runs training code on symbolic values: statements in order, branches both ways, loops once, calls followed.

What comes out is a list of events, each with the frames around it: loops, branches, ``with`` blocks, calls. Nothing
here knows what a window is; see `gafixer.analysis.windows`.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, assignment, binding, contexts, expressions, statements
from gafixer.analysis.events import Event, EventKind, Frame, Framework, Loop, Suspended
from gafixer.analysis.ledger import Ledger
from gafixer.analysis.names import Names
from gafixer.analysis.spot import Spot
from gafixer.analysis.values import OPAQUE, ClassRef, Const, Func, Listing, Loops, Value
from gafixer.declared import NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence as Many

    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module
    from gafixer.declared import Declared

__all__ = ["Interpreter", "Scope"]

#: Nodes that one root may cost. Beyond it everything is opaque: no code worth a finding needs more.
FUEL = 60_000
#: Calls inside calls that are followed.
DEEPEST_CALL = 9
#: Expressions and blocks inside each other, calls included; what is nested deeper is opaque, or not run. One level
#: takes up to six Python frames, and there are a thousand.
DEEPEST = 110


@dataclasses.dataclass(slots=True)
class Scope:
    """The names of one function call. `assigned` holds the loops around each name's first assignment.

    `beyond` are the names that it binds outside itself, `outer` what they and others were there.
    """

    module: Module
    env: Ledger[str, Value]
    owner: ClassRef | None = None
    assigned: Ledger[str, Loops] = dataclasses.field(default_factory=Ledger)
    returned: list[Value] = dataclasses.field(default_factory=list)
    yielded: list[Value] = dataclasses.field(default_factory=list)
    outer: dict[str, Value] = dataclasses.field(default_factory=dict)
    beyond: tuple[str, ...] = ()


def _bound_outside(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> tuple[str, ...]:
    """The names that a function says it binds outside itself."""
    if isinstance(node, ast.Lambda):
        return ()
    return tuple(n for s in node.body if isinstance(s, ast.Nonlocal | ast.Global) for n in s.names)


class Interpreter:
    """One run over one root. Public attributes are the machine's state; the other modules of the package drive it.

    `dull` holds functions that were followed once, did nothing and gave nothing; they are not followed again.
    """

    def __init__(self, project: Project, module: Module, dull: set[int], declared: Declared = NOTHING) -> None:
        self.names = Names(project, module)
        self.declared = declared
        self.module = module
        self.dull = dull
        self.heap: Ledger[tuple[int, str], Value] = Ledger()
        self.heap_assigned: dict[tuple[int, str], Loops] = {}
        self.frames: list[Frame] = []
        self.events: list[Event] = []
        self.scopes: list[Scope] = []
        self.active: list[int] = []
        self.defined: dict[int, Func] = {}
        self.entered: set[int] = set()
        self.engines: dict[Spot, tuple[Loop, Loop]] = {}
        self.globals: dict[int, Value] = {}
        self.relevant: dict[int, bool] = {}
        self.fuel = FUEL
        self.level = 0
        #: A tuple that goes on with what is not known keeps what it begins with; only where one is looked into.
        self.opens_tuples = False
        self._ids = 0

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        """The scope of the running function."""
        return self.scopes[-1]

    @property
    def loops(self) -> Loops:
        """Ids of the loops around the running statement."""
        return tuple([f.id for f in self.frames if isinstance(f, Loop)])

    def fresh(self) -> int:
        """A new id."""
        self._ids += 1
        return self._ids

    def spot(self, node: ast.expr | ast.stmt) -> Spot:
        """Where a node of the running function stands."""
        return Spot(
            self.scope.module.path,
            node.lineno,
            node.col_offset,
            node.end_lineno or node.lineno,
            node.end_col_offset or node.col_offset,
        )

    def emit(
        self,
        kind: EventKind,
        spot: Spot,
        value: Value | None = None,
        subject: Value | None = None,
        framework: Framework = Framework.TORCH,
        *,
        undivided: bool = False,
    ) -> None:
        """Something happened here."""
        order = len(self.events)
        self.events.append(Event(kind, spot, tuple(self.frames), order, value, subject, framework, undivided))

    def new_scope(self, module: Module) -> Scope:
        """An empty scope of a module's top level."""
        return Scope(module, Ledger())

    def closure(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Func:
        """A function defined inside the running one."""
        seen = {**self.scope.outer, **self.scope.env}
        made = Func(self.scope.module.path, node, id(node), tuple(seen.items()), owner=self.scope.owner)
        self.defined[id(node)] = made
        return made

    # -- running -------------------------------------------------------------------------------------------------

    def run_function(self, func: Func, args: Many[Value], keywords: dict[str, Value]) -> Value:
        """Call a function of the project: its body runs here and now, its events are the caller's."""
        node = func.node
        module = self.names.modules.get(func.module)
        if module is None or id(node) in self.active or len(self.scopes) > DEEPEST_CALL:
            return OPAQUE
        env = binding.bind(self, func, args, keywords)
        around = self.loops
        scope = Scope(
            module,
            Ledger(env),
            func.owner,
            Ledger(dict.fromkeys(env, around)),
            outer=dict(func.closure),
            beyond=_bound_outside(node),
        )
        self.scopes.append(scope)
        self.active.append(id(node))
        self.entered.add(id(node))
        kept = len(self.frames)
        if contexts.without_gradient(node):
            self.frames.append(Suspended("no_grad"))
        try:
            if isinstance(node, ast.Lambda):
                return self.evaluate(node.body)
            statements.block(self, node.body)
            self._write_back(scope)
        finally:
            self.scopes.pop()
            self.active.pop()
            del self.frames[kept:]
        if scope.yielded:
            return Listing(algebra.choose(scope.yielded))
        return algebra.choose(scope.returned) if scope.returned else Const(None)

    def _write_back(self, scope: Scope) -> None:
        """What a function binds outside itself, where the scope that called it is the one around it."""
        outer = self.scopes[-2].env
        for name in scope.beyond:
            if name in outer and name in scope.env:
                outer[name] = scope.env[name]

    def block(self, body: list[ast.stmt]) -> None:
        """Run statements."""
        statements.block(self, body)

    def evaluate(self, node: ast.expr | None) -> Value:
        """The value of an expression."""
        if node is None:
            return Const(None)
        self.fuel -= 1
        if self.fuel < 0 or self.level > DEEPEST:
            return OPAQUE
        self.level += 1
        try:
            return expressions.evaluate(self, node)
        finally:
            self.level -= 1

    def attribute(self, base: Value, attr: str) -> Value:
        """``base.attr``."""
        return expressions.attribute(self, base, attr)

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a target."""
        assignment.assign(self, target, value)
