"""The modules that change the instances of some classes, however they came by them."""

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from support.source_code import nodes


def booking_modules(modules: Mapping[str, Path], classes: Collection[str]) -> set[str]:
    """Return the modules that change instances of `classes`, but for those that define these.

    A module has an instance where it makes one, has a parameter for one, or reads an attribute or
    calls a function that any of the modules declares as one, and where it assigns that to a name.
    It changes one where it calls, or passes on, a method that returns nothing, or that writes to
    `self` or to the database.

    Raises:
        LookupError: no module defines one of the classes.
    """
    defining: set[str] = set()
    changing: dict[str, set[str]] = {}
    givers = {name: {name} for name in classes}
    for module, path in modules.items():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and node.name in givers:
                defining.add(module)
                changing[node.name] = _changing_methods(node)
            for name, kind in _declarations(node):
                for part in ast.walk(kind):
                    if isinstance(part, ast.Name) and part.id in givers:
                        givers[part.id].add(name)
    if missing := givers.keys() - changing.keys():
        raise LookupError(f"no module defines {', '.join(sorted(missing))}")
    return {
        module
        for module in modules.keys() - defining
        if any(_changes(modules[module], givers[name], changing[name]) for name in givers)
    }


def _changing_methods(node: ast.ClassDef) -> set[str]:
    return {
        method.name
        for method in node.body
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("__")
        if (isinstance(method.returns, ast.Constant) and method.returns.value is None)
        or any(_writes(part) for part in ast.walk(method))
    }


def _writes(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(ctx=context) | ast.Subscript(ctx=context):
            return not isinstance(context, ast.Load) and ast.unparse(node).startswith("self.")
        case ast.Call(func=ast.Attribute(attr="change" | "save")):
            return True
        case _:
            return False


def _declarations(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield an attribute or a function, with what it is declared as."""
    match node:
        case ast.AnnAssign(target=target, annotation=kind):
            yield from ((name, kind) for name in _names(target))
        case ast.FunctionDef(name=name, returns=ast.expr() as kind):
            yield name, kind
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Call(func=kind)):
            yield name, kind
        case _:
            pass


def _changes(path: Path, givers: Collection[str], methods: Collection[str]) -> bool:
    """Return whether a module calls, or passes on, a method of what has one of the names."""
    held = set(givers)
    before = 0
    while before < len(held):
        before = len(held)
        for node in nodes(path):
            match node:
                case ast.arg(arg=name, annotation=ast.expr() as kind):
                    if any(not held.isdisjoint(_names(part)) for part in ast.walk(kind)):
                        held.add(name)
                case (
                    ast.Assign(targets=[target], value=value)
                    | ast.NamedExpr(target=target, value=value)
                    | ast.withitem(context_expr=value, optional_vars=ast.expr() as target)
                ):
                    if not held.isdisjoint(_names(value)):
                        held |= _names(target)
                case _:
                    pass
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in methods
        and not held.isdisjoint(_names(node.value))
        for node in nodes(path)
    )


def _names(node: ast.AST) -> set[str]:
    """Return the last name of a variable, an attribute or a call, or of each alternative."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return {name}
        case ast.Call(func=inner) | ast.Await(value=inner):
            return _names(inner)
        case ast.BoolOp(values=values):
            return set().union(*map(_names, values))
        case ast.IfExp(body=body, orelse=orelse):
            return _names(body) | _names(orelse)
        case _:
            return set()
