"""Where a window's code is: the loop over its microbatches, backward, the guarded block, the step, the flush."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis.events import Branch, Call, EventKind, LoopKind
from gafixer.codemod.plan import DeclinedError
from gafixer.codemod.tree import Tree, spelled

if TYPE_CHECKING:
    from gafixer.analysis.events import Event
    from gafixer.analysis.site import Site
    from gafixer.analysis.spot import Spot
    from gafixer.codemod.tree import Function

__all__ = ["Layout", "event_statement", "first_of", "guarded", "layout", "loop_of", "models", "parameters"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The statements of a window.

    `home` is the function that runs backward, `loop` the loop over microbatches where it is in sight, `guard` the
    condition of the step and `guarded` the block that it guards (for ``if not ...: continue``, what follows), `step`
    the statement that steps or leads to the step. `shared` is the class whose methods have these, if it is not one
    function that has them all. `called` is set for a function that an engine calls for every microbatch: itself. What
    steps `apart` from backward, in another file, has its step in the place of that.
    """

    home: Function
    backward: ast.stmt
    call: ast.Call
    loop: ast.For | ast.While | None
    guard: ast.If | None
    guarded: list[ast.stmt] | None
    step: ast.stmt | None
    shared: ast.ClassDef | None = None
    called: ast.FunctionDef | None = None
    apart: bool = False


def layout(tree: Tree, site: Site, *, spread: bool = False) -> Layout:
    """The statements of a site's window; of one that is `spread` over functions those alone that go backward.

    Raises:
        DeclinedError: they are spread over files or unrelated functions.
    """
    call = tree.expression(site.backward.spot)
    if not isinstance(call, ast.Call):
        raise DeclinedError("backward runs in another file")
    backward = tree.statement_of(call)
    assert backward is not None
    home = tree.function_of(call)
    loop = loop_of(tree, site)
    guard, block = guarded(tree, site)
    inside = tree.function_of(guard if guard is not None else loop if loop is not None else backward)
    step = event_statement(tree, site.window.step, inside) if site.window.step is not None else None
    shared = called = None
    places = [n for n in (guard, step) if n is not None]
    apart = loop is not None and tree.function_of(loop) is not home
    if _is_called(tree, site, home) and all(tree.function_of(n) is home for n in places):
        assert isinstance(home, ast.FunctionDef)
        called = home
    elif apart or any(tree.function_of(n) is not home for n in places) or (loop is None and guard is not None):
        shared = tree.class_of(backward)
        if shared is None or not places or any(tree.class_of(n) is not shared for n in places):
            if spread and places and isinstance(home, ast.FunctionDef):
                return Layout(home, backward, call, None, None, None, None)
            raise DeclinedError("the window is spread over several functions")
        if loop is not None and tree.class_of(loop) is not shared:
            loop = None  # whoever calls the method: what it counts lives in the object
    return Layout(home, backward, call, loop, guard, block, step, shared, called)


def _is_called(tree: Tree, site: Site, home: Function) -> bool:
    """Whether an engine calls a function, which is no method, for every microbatch."""
    loop = site.window.loop
    engine = loop is not None and loop.kind is LoopKind.IMPLICIT
    return engine and isinstance(home, ast.FunctionDef) and not isinstance(tree.parent(home), ast.ClassDef)


def loop_of(tree: Tree, site: Site) -> ast.For | ast.While | None:
    """The loop over microbatches, where a file has it."""
    if site.window.loop is None:
        return None
    return next((n for n in tree.at(site.window.loop.spot) if isinstance(n, ast.For | ast.While)), None)


def guarded(tree: Tree, site: Site) -> tuple[ast.If | None, list[ast.stmt] | None]:
    """The condition of the step, and the block that it guards."""
    guard = site.window.guard
    if guard is None or site.window.step is None:
        return None, None
    test = tree.expression(guard.spot)
    found = tree.parent(test) if test is not None else None
    if not isinstance(found, ast.If) or found.test is not test:
        return None, None
    holds = next((f.holds for f in site.window.step.frames if isinstance(f, Branch) and f.spot == guard.spot), True)
    if holds:
        return found, found.body
    if found.orelse:
        return found, found.orelse
    block = tree.block(found)
    position = next(i for i, statement in enumerate(block) if statement is found)
    return found, block[position + 1 :]


def event_statement(tree: Tree, event: Event, function: Function) -> ast.stmt | None:
    """The statement of a function in which an event happens, or which calls what makes it happen."""
    spots: list[Spot] = [event.spot, *(f.spot for f in reversed(event.frames) if isinstance(f, Call))]
    for spot in spots:
        for node in tree.at(spot):
            if tree.function_of(node) is function:
                return tree.statement_of(node)
    return None


def first_of(tree: Tree, site: Site, block: list[ast.stmt], function: Function) -> ast.stmt | None:
    """The first statement of a block that unscales, clips or steps."""
    found = []
    for kind in (EventKind.UNSCALE, EventKind.CLIP, EventKind.STEP):
        for event in site.happening(kind):
            statement = event_statement(tree, event, function)
            inside = tree.within(statement, block) if statement is not None else None
            if inside is not None:
                found.append(inside)
    return min(found, key=lambda s: s.lineno, default=None)


def parameters(tree: Tree, site: Site, place: Layout, node: ast.AST) -> str:
    """Code for the parameters whose gradients the window adds up, in words of the function that steps.

    Raises:
        DeclinedError: it is not clear which they are.
    """
    function = tree.function_of(place.step if place.step is not None else place.backward)
    optimizer = _optimizer(tree, site, function, place.shared)
    grouped = f'(parameter for group in {optimizer}.param_groups for parameter in group["params"])'
    if optimizer is not None and _through_apex(place.home):
        return grouped
    for event in site.happening(EventKind.CLIP):
        for clip in tree.at(event.spot):
            if isinstance(clip, ast.Call) and clip.args and _known(tree, clip, clip.args[0], function, place.shared):
                given = clip.args[0]
                if (
                    isinstance(given, ast.Call)
                    and isinstance(given.func, ast.Attribute)
                    and given.func.attr == "parameters"
                    and not given.args
                ):
                    return tree.text(given)
    found = dict.fromkeys(models(tree, place, node, function))
    if len(found) == 1:
        return f"{next(iter(found))}.parameters()"
    if optimizer is None:
        raise DeclinedError("it is not clear whose gradients to divide")
    return grouped


def _through_apex(home: Function) -> bool:
    """Whether Apex scales the loss: it may keep gradients with copies of the parameters, which the optimizer has."""
    return any(isinstance(n, ast.Call) and (spelled(n.func) or "").endswith("scale_loss") for n in ast.walk(home))


def models(tree: Tree, place: Layout, node: ast.AST, function: Function) -> list[str]:
    """Objects that are called for the loss and used as modules somewhere in the file."""
    scope: ast.AST = place.loop if place.loop is not None and tree.contains(place.loop, place.backward) else place.home
    found = []
    modules = _modules(tree)
    for part in tree.walk(scope):
        if not isinstance(part, ast.Call) or part.lineno > getattr(node, "end_lineno", part.lineno):
            continue
        key = spelled(part.func)
        if isinstance(part.func, ast.Attribute) and key not in modules:
            key = spelled(part.func.value)  # model.logprobs(...)
        if key is None or key not in modules or _without_gradient(tree, part):
            continue
        if key.startswith("self.") or function is place.home:
            found.append(key)
    return found


def _modules(tree: Tree) -> set[str]:
    """Names on which the file calls what only a module has, or which are named as models are."""
    found = set()
    for node in tree.walk(tree.root):
        match node:
            case ast.Call(
                func=ast.Attribute(value=base, attr="parameters" | "train" | "eval" | "zero_grad" | "no_sync")
            ):
                found.add(spelled(base))
            case ast.Call(func=func) if (key := spelled(func)) is not None:
                last = key.rpartition(".")[2].lower()
                if last in _MODEL or last.endswith(("model", "_net")):
                    found.add(key)
                if isinstance(func, ast.Attribute) and (owner := spelled(func.value)) is not None:
                    last = owner.rpartition(".")[2].lower()
                    if last in _MODEL or last.endswith("model"):
                        found.add(owner)
            case _:
                pass
    return {key for key in found if key is not None and "optim" not in key.lower() and key not in {"self", "nn"}}


_MODEL = frozenset({"model", "net", "network", "student", "policy", "clf", "classifier", "actor", "generator"})


def _without_gradient(tree: Tree, node: ast.AST) -> bool:
    for part in tree.around(node):
        if isinstance(part, ast.With) and any(
            "no_grad" in ast.unparse(i) or "inference" in ast.unparse(i) for i in part.items
        ):
            return True
    return False


def _known(tree: Tree, node: ast.AST, given: ast.expr, function: Function, shared: ast.ClassDef | None) -> bool:
    """Whether a function can name what is given at a node: its own, or another method's by what the object has."""
    if tree.function_of(node) is function:
        return True
    return tree.class_of(node) is shared is not None and ast.unparse(given).startswith("self.")


def _optimizer(tree: Tree, site: Site, function: Function, shared: ast.ClassDef | None) -> str | None:
    """The optimizer that ends the window, as the stepping function names it."""
    assert site.window.step is not None
    for node in tree.at(site.window.step.spot):
        match node:
            case ast.Call(func=ast.Attribute(value=base, attr="step"), args=args):
                subject = args[0] if site.window.step.value is not None and args else base
                key = spelled(subject)
                if key is None or not _known(tree, node, subject, function, shared):
                    continue
                if not any(isinstance(s, ast.For) for s in tree.assignments(function, key)):
                    return key
            case _:
                pass
    return None
