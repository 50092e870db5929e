"""How the sum of a loss is taken, and what counts its items: one term of a site at a time."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

from gafixer.analysis.site import Divisor, Items
from gafixer.analysis.values import Author, Kind, Reduction
from gafixer.codemod.asked import asked
from gafixer.codemod.carried import COUNT, carried
from gafixer.codemod.chain import Step, bring, callers, calls_of, climb
from gafixer.codemod.count import (
    atomic,
    divisor_count,
    guarded,
    is_guarded,
    is_pure,
    selected,
    stripped,
    unparsed,
)
from gafixer.codemod.held import calls_of_held
from gafixer.codemod.plan import DeclinedError, Insert, Keyword, Operand, Replace, Unwrap, Where
from gafixer.codemod.scored import kinds, known_keys, labels_count, made_in_project
from gafixer.codemod.tree import Tree, spelled, spot_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gafixer.analysis.site import LossTerm, ModelLoss, Site
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Function
    from gafixer.declared import OwnLoss

__all__ = ["Summed", "items_of", "merged", "spot_of", "summed"]

_CLASSES = frozenset({"cross_entropy", "nll_loss"})
_POINTWISE = frozenset(
    {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
     "kl_div", "poisson_nll_loss", "gaussian_nll_loss", "soft_margin_loss", "hinge_embedding_loss"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Summed:
    """A term as a sum.

    `count` is code for its items where backward runs; `node` the part of that function which evaluates it. A `boxed`
    loss stays a mean and has to be multiplied by its count. `assumed` tells what was not read in the code.
    `divisor` is what a mean is divided by, given the name of the count: ``max({}, 1)`` where the code guards it so.
    `mean` is the same loss left a mean, where its sum would be asked for. `counting` are parts that count it elsewhere.
    """

    parts: frozenset[Part]
    count: str
    node: ast.AST
    boxed: bool = False
    assumed: str = ""
    divisor: str = "{}"
    mean: Summed | None = None
    counting: frozenset[Part] = frozenset()


def summed(tree: Tree, site: Site, term: LossTerm, home: Function, backward: ast.Call) -> Summed:
    """The sum of a term that is a mean over its microbatch.

    Raises:
        DeclinedError: it can't be taken, or not be counted.
    """
    node = tree.expression(term.atom.spot)
    if node is None or _is_forward(tree.function_of(node), home):
        return _elsewhere(tree, site, term, home, backward)
    try:
        steps, here = climb(tree, node, home)
    except DeclinedError:
        return _carried(tree, tree, term, node, home, backward)
    if term.atom.kind is Kind.HEAD:
        if not isinstance(node, ast.Call) or steps:
            raise DeclinedError("the head is called far from backward")
        return _head(tree, site, term, node, here)
    return _counted(tree, term, node, steps, here)


def _counted(tree: Tree, term: LossTerm, node: ast.expr, steps: Sequence[Step], here: ast.AST) -> Summed:
    match node:
        case ast.Call(func=ast.Attribute(attr="mean" | "sum")):
            return _reduced(tree, term, node, steps, here)
        case ast.Call() if term.atom.own is not None:
            return _declared(tree, term.atom.own, node, steps, here)
        case ast.Call() if term.atom.kind is Kind.LOSS and term.atom.made is not None:
            return _called(tree, term, node, steps, here)
        case _:
            raise DeclinedError("it is not in sight how the loss is averaged")


def _is_forward(function: Function, home: Function) -> bool:
    """Whether a function is run by calling its object, under whatever name that has."""
    return function is not home and isinstance(function, ast.FunctionDef) and function.name in _CALLED


_CALLED = frozenset({"forward", "__call__"})


def _elsewhere(tree: Tree, site: Site, term: LossTerm, home: Function, backward: ast.Call) -> Summed:
    """A loss that a function of another file, or a model, computes.

    It is asked for its sum; where that can't be, it stays a mean, and is weighted by its count.
    """
    text = dict(site.modules).get(term.atom.spot.path)
    if text is None:
        raise DeclinedError("the loss is computed in another file")
    other = tree if term.atom.spot.path == tree.path else tree.other(term.atom.spot.path, text)
    node = other.expression(term.atom.spot)
    if node is None:
        raise DeclinedError("the loss is computed in another file")
    try:
        steps = _way(tree, other, node, home, backward)
    except DeclinedError:
        return _carried(tree, other, term, node, home, backward)
    call = steps[-1].call
    made = _divided_there(other, term, steps, call) or _counted(other, term, node, steps, call)
    callee = tree.text(call.func)
    said = "" if other is tree else f"that `{callee}` averages over these"
    mean = replace(made, parts=frozenset(), boxed=True, assumed=said)
    settings = other.expression(term.atom.made) if term.atom.made is not None else None
    function = steps[0].function
    one = len(steps) == 1 and term.atom.kind is Kind.LOSS and isinstance(function, ast.FunctionDef)
    if not one or not isinstance(node, ast.Call) or not isinstance(settings, ast.Call):
        return mean
    assert isinstance(function, ast.FunctionDef)
    try:
        parts = asked(tree, other, function, node, settings, call)
    except DeclinedError:
        return mean
    return replace(mean, parts=parts, boxed=False, assumed="", mean=mean)


def _carried(tree: Tree, other: Tree, term: LossTerm, node: ast.expr, home: Function, backward: ast.Call) -> Summed:
    """A loss of another method of the object: it stays a mean, and the object brings its count along."""
    count = _counted(other, term, node, (), node).count
    parts = carried(tree, other, node, home, count)
    return Summed(frozenset(), COUNT, backward, boxed=True, counting=parts)


def _way(tree: Tree, other: Tree, node: ast.expr, home: Function, backward: ast.Call) -> tuple[Step, ...]:
    """The calls that lead from a loss to backward: those in the file of the loss, and the one that goes there.

    Raises:
        DeclinedError: it is not the only way.
    """
    inner: list[Step] = []
    for _ in range(4):
        function = other.function_of(node)
        if not isinstance(function, ast.FunctionDef):
            break
        call = _call_for(tree, home, function.name, backward)
        if call is not None:
            return (*inner, Step(function, call, foreign=True))
        calls = calls_of(other, function)
        if len(calls) != 1:
            break
        inner.append(Step(function, calls[0]))
        node = calls[0]
    raise DeclinedError("the loss is computed behind several calls")


def _head(tree: Tree, site: Site, term: LossTerm, call: ast.Call, here: ast.AST) -> Summed:
    """The default loss of a model: it stays a mean. What the nearest code says that the model is holds.

    Raises:
        DeclinedError: it may be models of several kinds, or an output that isn't the model's loss.
    """
    if term.beside:
        raise DeclinedError(
            f"`{term.atom.part}` has a denominator of its own: the head's loss alone is one over its labels"
        )
    known: dict[str, str] = {}
    models = (site.models(term, 0), site.models(term, 1), ())
    for named, seen in zip(kinds(tree, site, call), models, strict=True):
        for model in seen:
            if (made := _of_model(tree, model, call)) is not None:
                known.setdefault(made.count, f"that the model is `{model.name}`, which averages over these")
        options = known | {
            labels_count(tree, call, kind): "that the head's loss is a mean over these" for kind in named
        }
        if len(options) > 1:
            raise DeclinedError("models of several kinds are in sight: it is not clear which labels are scored")
        for count, assumed in options.items():
            return Summed(frozenset(), count, here, boxed=True, assumed=assumed)
    if "labels" not in tree.source and made_in_project(tree, site, call):
        raise DeclinedError("it is not in sight which labels the model scores")
    shifts = "that the head shifts its labels, as causal language models do"
    return Summed(frozenset(), labels_count(tree, call, "shifted"), here, boxed=True, assumed=shifts)


def _of_model(tree: Tree, model: ModelLoss, call: ast.Call) -> Summed | None:
    """What a model's forward averages over, in words of the call; None where that can't be said."""
    files = dict(model.files)
    spread = [k.value for k in call.keywords if k.arg is None]
    keys = frozenset(known_keys(tree, spread[0])) if len(spread) == 1 else frozenset[str]()
    try:
        terms = []
        for term in model.terms:
            source = files.get(term.atom.spot.path)
            if source is None:  # a part of the loss that the model's own files don't make
                return None
            other = tree.other(term.atom.spot.path, source)
            node = other.expression(term.atom.spot)
            forward = _forward(other, model.name)
            if node is None or forward is None:
                return None
            inner, _ = climb(other, node, forward)
            terms.append(_counted(other, term, node, (*inner, Step(forward, call, foreign=True, spread=keys)), call))
        return merged([replace(t, parts=frozenset(), boxed=True) for t in terms])
    except DeclinedError:
        return None


def _forward(tree: Tree, name: str) -> ast.FunctionDef | None:
    for node in tree.root.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "forward"), None)
    return None


def _divided_there(other: Tree, term: LossTerm, steps: Sequence[Step], call: ast.Call) -> Summed | None:
    """A sum that the other file divides by a count, however it was added up."""
    own = [d for d in term.divided_by(Divisor.LOCAL_ITEMS) if d.author is Author.CODE and d.spot is not None]
    if len(own) != 1 or own[0].spot is None or term.atom.reduction is Reduction.MEAN:
        return None
    match other.expression(own[0].spot):
        case ast.BinOp(op=ast.Div(), right=divisor) if is_guarded(divisor):
            return Summed(frozenset(), atomic(bring(other, divisor_count(divisor), steps)), call, boxed=True)
        case _:
            return None


def _call_for(tree: Tree, home: Function, name: str, backward: ast.Call) -> ast.Call | None:
    """The one call, among those that make what goes backward, that may run a function of this name."""
    held = {id(call) for call in calls_of_held(tree, name)}

    def runs(node: ast.AST) -> TypeGuard[ast.Call]:
        return isinstance(node, ast.Call) and (_may_run(node, name) or id(node) in held)

    found = {n for n in ast.walk(backward) if runs(n)}
    seen: set[str] = set()
    wanted = {n.id for n in ast.walk(backward) if isinstance(n, ast.Name)}
    while wanted:
        key = wanted.pop()
        seen.add(key)
        for value in _given(tree, home, key, backward.lineno):
            found |= {n for n in ast.walk(value) if runs(n)}
            wanted |= set(_carriers(value)) - seen
    return found.pop() if len(found) == 1 else None


def _given(tree: Tree, home: Function, name: str, row: int) -> Iterator[ast.expr]:
    """What a name is bound to, up to a row."""
    for statement in tree.assignments(home, name):
        value = getattr(statement, "value", None)
        if isinstance(value, ast.expr) and statement.lineno <= row:
            yield value
    for node in tree.walk(home):
        if isinstance(node, ast.With) and node.lineno <= row:
            yield from (i.context_expr for i in node.items if spelled(i.optional_vars) == name)


def _carriers(value: ast.expr) -> Iterator[str]:
    """The names that a value is made of by arithmetic: not those that a function is given."""
    match value:
        case ast.Name(id=name):
            yield name
        case ast.BinOp(left=left, right=right):
            yield from _carriers(left)
            yield from _carriers(right)
        case ast.UnaryOp(operand=inner) | ast.Attribute(value=inner) | ast.Subscript(value=inner):
            yield from _carriers(inner)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _carriers(body)
            yield from _carriers(orelse)
        case ast.Call(func=ast.Attribute(value=inner, attr=attr), args=args) if attr in _TENSOR:
            yield from _carriers(inner)
            for argument in args:
                yield from _carriers(argument)
        case _:
            pass


def _may_run(call: ast.Call, name: str) -> bool:
    key = spelled(call.func)
    if key is None:
        return False
    last = key.rpartition(".")[2]
    if name in _CALLED:
        return bool(call.args or call.keywords) and last not in _TENSOR and not key.startswith(("torch.", "F.", "nn."))
    return last == name


_TENSOR = frozenset(
    {"backward", "scale", "mean", "sum", "item", "detach", "float", "to", "div", "div_", "mul", "stack", "scale_loss"}
)


# -- reductions written out ------------------------------------------------------------------------------------------


def _reduced(tree: Tree, term: LossTerm, node: ast.Call, steps: Sequence[Step], here: ast.AST) -> Summed:
    own = [d for d in term.divided_by(Divisor.LOCAL_ITEMS) if d.author is Author.CODE and d.spot is not None]
    if len(own) > 1:
        raise DeclinedError("the loss is divided by several counts")
    shared = any(step.foreign or callers(tree, step.function) > 1 for step in steps)
    if own:
        assert own[0].spot is not None
        division = tree.expression(own[0].spot)
        match division:
            case ast.BinOp(op=ast.Div(), right=divisor) if tree.contains(division, node):
                pass
            case _:
                raise DeclinedError("the division by the microbatch's items is not beside the sum")
        count = atomic(bring(tree, divisor_count(divisor), steps))
        if shared or steps:
            if not is_guarded(divisor):
                raise DeclinedError("the masked mean is shared, and its gradient is NaN where nothing is kept")
            return Summed(frozenset(), count, here, boxed=True)
        parts: frozenset[Part] = frozenset({Unwrap(own[0].spot, Operand.LEFT)})
        return Summed(parts, count, here, divisor=guarded(divisor))
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "mean" or node.args or node.keywords:
        raise DeclinedError("it is not in sight over which items the loss is averaged")
    count = _kept(tree, term, node.func.value, steps)
    if shared or steps:
        return Summed(frozenset(), count, here, boxed=True)
    whole = spot_of(tree, node)
    return Summed(frozenset({Replace(whole, f"{tree.text(node.func.value)}.sum()")}), count, here)


def _kept(tree: Tree, term: LossTerm, values: ast.expr, steps: Sequence[Step]) -> str:
    """The count of what ``values.mean()`` averages."""
    if term.atom.samples:
        raise DeclinedError("each sample is a mean of its own: it is not clear whether samples or tokens should count")
    match values:
        case ast.Subscript(slice=ast.Slice() | ast.Tuple() | ast.Constant()):
            raise DeclinedError("it is not in sight over which items the loss is averaged")
        case ast.Subscript(slice=mask):
            return f"{atomic(bring(tree, stripped(mask), steps))}.sum()"
        case ast.Name() if not steps:
            return f"{values.id}.numel()"
        case _:
            raise DeclinedError("it is not in sight over which items the loss is averaged")


# -- losses of the project that its settings declare ---------------------------------------------------------------


def _declared(tree: Tree, own: OwnLoss, node: ast.Call, steps: Sequence[Step], here: ast.AST) -> Summed:
    """It stays a mean, and is weighted by the count of what it scores, as far as that was declared."""
    position = own.target if isinstance(own.target, int) else len(node.args)
    target = _argument(node, position, own.target if isinstance(own.target, str) else "target")
    code = atomic(bring(tree, stripped(target), steps))
    count = f"{code}.numel()" if own.ignored_label is None else f"{code}.ne({own.ignored_label}).sum()"
    name = own.name.rpartition(".")[2]
    return Summed(frozenset(), count, here, boxed=True, assumed=f"that `{name}` averages as the settings declare")


# -- calls of a loss -------------------------------------------------------------------------------------------------


def _called(tree: Tree, term: LossTerm, node: ast.Call, steps: Sequence[Step], here: ast.AST) -> Summed:
    assert term.atom.made is not None
    made = tree.expression(term.atom.made)
    constructed = made is not node
    settings = made if isinstance(made, ast.Call) else None
    if settings is None and term.atom.name in _CLASSES:
        raise DeclinedError("the criterion is made in another file: its ignored label and weights are not in sight")
    count = items_of(tree, term, node, settings, steps)
    if any(step.foreign or callers(tree, step.function) > 1 for step in steps):
        return Summed(frozenset(), count, here, boxed=True)
    if not constructed:
        return Summed(frozenset({Keyword(spot_of(tree, node), "reduction", '"sum"')}), count, here)
    if settings is None:
        return Summed(frozenset(), count, here, boxed=True, assumed="that the criterion averages")
    parts = _criterion(tree, node, settings)
    return Summed(parts or frozenset(), count, here, boxed=parts is None)


def _criterion(tree: Tree, node: ast.Call, made: ast.Call) -> frozenset[Part] | None:
    """Let a criterion object sum: itself, or a second one where others use it; None where neither can be done."""
    key = spelled(node.func)
    statement = tree.statement_of(made)
    match statement:
        case ast.Assign(targets=[target], value=value) if key is not None and spelled(target) == key:
            pass
        case _:
            return None
    scope = tree.class_of(made) if key.startswith("self.") else tree.function_of(made)
    if scope is None or not tree.contains(scope, node) or not tree.alone(statement):
        return None
    if len([s for s in tree.assignments(scope, key) if tree.contains(s, made) or s is not statement]) > 1:
        return None
    others = [n for n in tree.reads(scope, key) if n is not node.func and not tree.contains(statement, n)]
    if not others:
        return frozenset({Keyword(spot_of(tree, made), "reduction", '"sum"')})
    prefix, _, last = key.rpartition(".")
    second = f"{prefix}.train_{last}" if prefix else f"train_{last}"
    if tree.reads(scope, second) or second in tree.taken(scope) or not isinstance(value, ast.Call) or value is not made:
        return None
    twin = ast.Call(made.func, made.args, [*(k for k in made.keywords if k.arg != "reduction"), _SUM])
    code = f"{second} = {unparsed(twin)}"
    return frozenset({Insert(spot_of(tree, statement), Where.AFTER, code), Replace(spot_of(tree, node.func), second)})


_SUM = ast.keyword("reduction", ast.Constant("sum"))


def items_of(tree: Tree, term: LossTerm, node: ast.Call, settings: ast.Call | None, steps: Sequence[Step]) -> str:
    """Code that counts what a torch loss averages over."""
    name = term.atom.name
    target = _argument(node, 1, "target")
    if settings is not None and _word(settings, "reduction") == "batchmean":
        return f"{_rows(tree, target, steps)}"
    if name in _POINTWISE:
        return f"{atomic(bring(tree, stripped(target), steps))}.numel()"
    if name not in _CLASSES:
        raise DeclinedError(f"how {name} averages is not known to the codemod")
    assert settings is not None
    code = atomic(selected(stripped(bring(tree, stripped(target), steps))))
    ignored = _ignored(tree, term, node, settings, steps)
    if term.atom.weighted:
        return _weights(tree, node, settings, code, ignored, steps)
    return f"{code}.numel()" if ignored is None else f"{code}.ne({ignored}).sum()"


def _argument(node: ast.Call, position: int, name: str) -> ast.expr:
    found = next((k.value for k in node.keywords if k.arg == name), None)
    if found is None and len(node.args) > position and not any(isinstance(a, ast.Starred) for a in node.args):
        found = node.args[position]
    if found is None:
        raise DeclinedError("the targets of the loss are not in sight")
    return found


def _word(call: ast.Call, name: str) -> object:
    return next((k.value.value for k in call.keywords if k.arg == name and isinstance(k.value, ast.Constant)), None)


def _ignored(tree: Tree, term: LossTerm, node: ast.Call, settings: ast.Call, steps: Sequence[Step]) -> str | None:
    """Code for the label that isn't scored; None where the project shows none."""
    given = next((k.value for k in settings.keywords if k.arg == "ignore_index"), None)
    if any(k.arg is None for k in (*settings.keywords, *node.keywords)):
        raise DeclinedError("the loss gets settings by **")
    if given is None:
        shown = term.items is Items.TOKENS or (term.varies and not term.atom.weighted) or "-100" in tree.source
        return "-100" if shown else None
    if isinstance(given, ast.Constant | ast.UnaryOp) or (isinstance(given, ast.Name) and tree.is_global(given.id)):
        return ast.unparse(given)
    if settings is node or (steps and tree.function_of(settings) is tree.function_of(node)):
        return unparsed(bring(tree, given, steps))
    if spelled(node.func) is None or steps:
        raise DeclinedError("the ignored label is not known where backward runs")
    return f"{spelled(node.func)}.ignore_index"


def _weights(
    tree: Tree, node: ast.Call, settings: ast.Call, target: str, ignored: str | None, steps: Sequence[Step]
) -> str:
    """The mass of class weights of the targets, which is what a weighted mean divides by."""
    if settings is node:
        given = next((k.value for k in node.keywords if k.arg == "weight"), None)
        if given is None or not is_pure(given):
            raise DeclinedError("the class weights are not in sight")
        weight = atomic(bring(tree, given, steps))
    elif spelled(node.func) is not None and not steps:
        weight = f"{spelled(node.func)}.weight"
    else:
        raise DeclinedError("the class weights are not known where backward runs")
    return f"{weight}[{target}].sum()" if ignored is None else f"{weight}[{target}[{target}.ne({ignored})]].sum()"


def _rows(tree: Tree, node: ast.expr, steps: Sequence[Step]) -> str:
    """Code for the number of rows of a tensor: those that a mask kept, where one made it."""
    home = tree.function_of(node)
    here = node
    for _ in range(8):
        match here:
            case ast.Call(
                func=ast.Attribute(value=inner, attr="softmax" | "log_softmax" | "detach" | "float" | "exp" | "log")
            ):
                here = inner
            case ast.Call(func=ast.Attribute(attr="softmax" | "log_softmax"), args=[inner, *_]):
                here = inner
            case ast.BinOp(left=inner, op=ast.Div() | ast.Mult()):
                here = inner
            case ast.Name(id=name) if len(found := tree.assignments(home, name)) == 1 and isinstance(
                found[0], ast.Assign
            ):
                here = found[0].value
            case ast.Subscript(slice=ast.Name() as mask):
                return f"{atomic(bring(tree, mask, steps))}.sum()"
            case _:
                break
    return f"{atomic(bring(tree, stripped(node), steps))}.size(0)"


def merged(terms: Sequence[Summed]) -> Summed:
    """Several terms as one sum.

    Raises:
        DeclinedError: their denominators differ.
    """
    first, *rest = terms
    if rest and any(t.assumed for t in terms) and any(t.boxed for t in terms):
        raise DeclinedError("a term beside the head's loss has a denominator of its own: divide each by its own")
    if any(t.count != first.count for t in rest):
        raise DeclinedError("its terms have denominators of their own: divide each by its own window count")
    means = [t.mean or t for t in terms]
    if len({t.boxed for t in terms}) > 1:
        terms = means
        if not all(t.boxed for t in terms):
            raise DeclinedError("one of its terms can only be weighted as a whole")
    mean = _together(means) if first.mean is not None and all(t.boxed for t in means) else None
    return replace(_together(terms), mean=mean)


def _together(terms: Sequence[Summed]) -> Summed:
    if len({t.counting for t in terms}) > 1:
        raise DeclinedError("its terms are computed by several methods")
    parts = frozenset(part for t in terms for part in t.parts)
    said = "; ".join(dict.fromkeys(t.assumed for t in terms if t.assumed))
    return replace(terms[0], parts=parts, assumed=said, mean=None)
