"""Arguments and parameters, in libcst's nodes: one more, in the style of those that are there."""

from __future__ import annotations

import libcst as cst

from gafixer.codemod.plan import DeclinedError

__all__ = ["with_keyword", "with_parameter", "with_spread"]

_NO_SPACE = cst.SimpleWhitespace("")
_EQUAL = cst.AssignEqual(_NO_SPACE, _NO_SPACE)


def with_keyword(node: cst.CSTNode, name: str, code: str, column: int | None = None) -> cst.Call:
    """The call with an argument given by name; one that is given already gets the new value.

    A new one may be put on a line of its own, in a column.
    """
    if not isinstance(node, cst.Call):
        raise DeclinedError("a loss call could not be located")
    value = cst.parse_expression(code)
    for position, arg in enumerate(node.args):
        if arg.keyword is not None and arg.keyword.value == name:
            args = list(node.args)
            args[position] = arg.with_changes(value=value)
            return node.with_changes(args=args)
    return _with_argument(node, cst.Arg(value, cst.Name(name), _EQUAL), column)


def with_spread(node: cst.CSTNode, name: str) -> cst.Call:
    """The call with ``**name`` at its end."""
    if not isinstance(node, cst.Call):
        raise DeclinedError("a call could not be located")
    return _with_argument(node, cst.Arg(cst.Name(name), star="**"))


def _with_argument(node: cst.Call, new: cst.Arg, column: int | None = None) -> cst.Call:
    if not node.args:
        return node.with_changes(args=[new])
    *first, last = node.args
    if isinstance(last.comma, cst.Comma):  # one argument a line, with a comma after the last: keep both habits
        between = first[-1].comma if first else cst.Comma(whitespace_after=node.whitespace_before_args)
        new = new.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
        last = last.with_changes(comma=between, whitespace_after_arg=_NO_SPACE)
    else:
        space: cst.BaseParenthesizableWhitespace = (
            first[-1].comma.whitespace_after
            if first and isinstance(first[-1].comma, cst.Comma)
            else cst.SimpleWhitespace(" ")
        )
        if column is not None:
            space = cst.ParenthesizedWhitespace(last_line=cst.SimpleWhitespace(" " * column))
        new = new.with_changes(whitespace_after_arg=last.whitespace_after_arg)
        last = last.with_changes(comma=cst.Comma(whitespace_after=space), whitespace_after_arg=_NO_SPACE)
    return node.with_changes(args=[*first, last, new])


def with_parameter(node: cst.FunctionDef, name: str, default: str) -> cst.FunctionDef:
    """The function with one more parameter, which may be given by name: the last but for those that catch all."""
    given = node.params
    new = cst.Param(cst.Name(name), default=cst.parse_expression(default), equal=_EQUAL)
    if isinstance(given.star_arg, cst.Param):
        kept = given.kwonly_params
        follows = given.star_kwarg is not None
        if not kept and not follows:
            raise DeclinedError("the function catches all arguments by place")
        return node.with_changes(params=given.with_changes(kwonly_params=[*kept, new]))
    *first, last = given.params
    if given.star_kwarg is not None or given.star_arg is not cst.MaybeSentinel.DEFAULT or given.kwonly_params:
        new = new.with_changes(comma=last.comma)
    elif isinstance(last.comma, cst.Comma):
        between = first[-1].comma if first else cst.Comma(whitespace_after=node.whitespace_before_params)
        new = new.with_changes(comma=last.comma, whitespace_after_param=last.whitespace_after_param)
        last = last.with_changes(comma=between, whitespace_after_param=_NO_SPACE)
    else:
        space = first[-1].comma.whitespace_after if first and isinstance(first[-1].comma, cst.Comma) else None
        comma = cst.Comma(whitespace_after=space or cst.SimpleWhitespace(" "))
        new = new.with_changes(whitespace_after_param=last.whitespace_after_param)
        last = last.with_changes(comma=comma, whitespace_after_param=_NO_SPACE)
    return node.with_changes(params=given.with_changes(params=[*first, last, new]))
