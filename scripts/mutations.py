"""Changes that mutmut does not make: clauses of SQL, rows and cells of tables, constants of modules, regular expressions.

`extra_changes` returns them for a syntax tree of libcst; `mutate.py` tries them as it tries the others. SQL is parsed by sqlglot. Names
stand in for the expressions of f-strings while a statement is parsed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import libcst as cst
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Change", "changes_only_case_of_sql", "extra_changes", "regex_changes", "sql_changes"]

_STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|BEGIN|PRAGMA|SET|WITH|COMMIT|ROLLBACK) ")
_WORDS = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|PRAGMA|SET|WHERE|FROM|VALUES|ORDER BY)\b|\w = excluded\."
)
_CONDITION = re.compile(r"\s*\(?[\w.]+ (=|<>|!=|<=?|>=?|IS|IN|LIKE) ")
_FRAGMENTS = (  # how a part of a statement begins, and what makes it a whole one
    (re.compile(r"\s*,\s*\w+ = "), "UPDATE t SET z = 0"),
    (re.compile(r"\s*(AND|OR) "), "SELECT 1 FROM t WHERE z = 0"),
    (re.compile(r"\s*(WHERE|ORDER BY|GROUP BY|LIMIT|JOIN|LEFT JOIN) "), "SELECT 1 FROM t"),
    (re.compile(r"\s*[\w.]+(,\s*[\w.]+)*\s+FROM \w"), "SELECT"),
)
# A parser may know a type by another name, and prints that one.
_TYPE = re.compile(r"\b(TEXT|INTEGER|BIGINT|REAL|BLOB|DOUBLE PRECISION)\b", re.IGNORECASE)
_KEPT = re.compile(r"kept_(\d+)_")
_LOCK = re.compile(r"pg_advisory_\w+\(")
_HOLE = re.compile(r"hole_(\d+)_")
_WITHOUT_ROWID = re.compile(r"\s*WITHOUT ROWID\s*$")
_PLAIN = {  # statements that no parser has to understand
    "AND": " OR ",
    "BEGIN IMMEDIATE": "BEGIN",
    "COMMIT": "ROLLBACK",
    "ROLLBACK": "COMMIT",
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY": "SELECT 1",
}
_SWAPPED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.LTE,
    exp.LTE: exp.LT,
    exp.GT: exp.GTE,
    exp.GTE: exp.GT,
    exp.Max: exp.Min,
    exp.Min: exp.Max,
    exp.Greatest: exp.Least,
    exp.Sum: exp.Max,
}
_CLAUSES = ("order", "limit", "offset", "group", "having", "distinct", "conflict", "alternative", "locks", "returning")


@dataclass
class Change:
    """A node of a syntax tree, and the one in its place. The attributes have the names of mutmut.

    Attributes:
        original_node: the node.
        mutated_node: the node in its place.
        contained_by_top_level_function: None for a change that takes effect at import.
        kind: `sql`, `regex` or `table`.
    """

    original_node: cst.CSTNode
    mutated_node: cst.CSTNode
    contained_by_top_level_function: cst.CSTNode | None
    kind: str


# -- SQL ---------------------------------------------------------------------------------------------------------------


def changes_only_case_of_sql(change: Any) -> bool:
    """Return whether a change of mutmut writes SQL in upper or lower case: no database makes a difference."""
    old, new = change.original_node, change.mutated_node
    if not isinstance(old, cst.SimpleString) or not isinstance(new, cst.SimpleString):
        return False
    return old.value.casefold() == new.value.casefold() and _WORDS.search(old.value) is not None


def sql_changes(text: str, dialect: str = "sqlite") -> list[str]:
    """Return a statement, condition or part of a statement with each of its clauses changed; empty for other texts.

    Args:
        text: the statement, with `:name`, `?` or `%s` for values and `hole_N_` for what is put in later.
        dialect: `sqlite` or `postgres`.
    """
    if (plain := _PLAIN.get(" ".join(text.split()))) is not None:
        return [plain]
    if pragma := re.fullmatch(r"\s*PRAGMA (\w+) = .+", text, re.DOTALL):
        return [f"PRAGMA {pragma[1]}"]
    start, found = "", []
    if not _STATEMENT.match(text):
        start = next((before for begins, before in _FRAGMENTS if begins.match(text)), "")
        if not start and not _CONDITION.match(text):
            return []
        found += [] if start else [f"({text} OR 1 = 1)"]
    whole = f"{start} {text}" if start else text
    kept: list[str] = []
    parts = [part for part in _TYPE.sub(lambda at: _name(kept, "kept", at[0]), whole).split(";") if part.strip()]
    for number, part in enumerate(parts):
        tail = _WITHOUT_ROWID.search(part)
        body = part[: tail.start()] if tail else part
        changes = list(_changed(body, dialect))
        if tail:  # SQLite refuses such a table without a primary key
            changes = [changed + tail.group() * ("PRIMARY KEY" in changed) for changed in changes]
        changes += [_LOCK.sub("(", part)] if _LOCK.search(part) else []
        changes += [""] if len(parts) > 1 and not re.match(r"\s*(BEGIN|CREATE INDEX)\b", part) else []
        for changed in changes:
            whole = ";".join(each for each in (*parts[:number], changed, *parts[number + 1 :]) if each)
            if whole.startswith(start):
                found.append(_KEPT.sub(lambda at: kept[int(at[1])], whole[len(start) :]))
    return list(dict.fromkeys(found))


def _changed(text: str, dialect: str) -> Iterator[str]:
    try:
        tree = sqlglot.parse_one(text, dialect=dialect)
    except SqlglotError:
        return
    if isinstance(tree, exp.Command):
        return
    same = tree.sql(dialect=dialect)
    values = _values(tree)
    for number, node in enumerate(tree.walk()):
        for change in _edits(node):
            copy = tree.copy()
            at = next(each for place, each in enumerate(copy.walk()) if place == number)
            replaced = change(at)
            after = replaced if at is copy and replaced is not None else copy
            changed = after.sql(dialect=dialect)
            if changed != same and _values(after) == values:  # the program passes so many
                yield changed


def _edits(node: Any) -> Iterator[Callable[[Any], Any]]:
    """Yield functions that change a node of a copy of the tree, and return what stands in for it."""
    kind = type(node)
    if isinstance(node, exp.Connector):
        neutral = _always if isinstance(node, exp.And) else _never
        yield lambda at: neutral(at.left)
        yield lambda at: neutral(at.right)
    elif kind in _SWAPPED and not isinstance(node.parent, (exp.Update, exp.OnConflict, exp.Pragma, exp.SetItem)):
        yield lambda at: at.replace(_SWAPPED[type(at)](**at.args))
    elif isinstance(node, exp.Not):
        yield lambda at: at.replace(at.this)
    elif isinstance(node, (exp.Is, exp.In, exp.Like)) and not isinstance(node.parent, exp.Not):
        yield lambda at: at.replace(exp.Not(this=at.copy()))
    elif isinstance(node, exp.Where):
        yield lambda at: _always(at.this)
    elif isinstance(node, exp.Delete) and not node.args.get("where"):
        yield lambda at: at.set("where", exp.Where(this=exp.condition("1 = 0")))
    elif isinstance(node, exp.Join) and node.side:
        yield lambda at: at.set("side", None)
    elif isinstance(node, exp.Union) and node.args.get("distinct"):
        yield lambda at: at.set("distinct", False)
    elif isinstance(node, exp.Coalesce):
        yield lambda at: at.replace(at.this)
    elif isinstance(node, (exp.Limit, exp.Offset)) and _values(node):
        yield lambda at: at.set("expression", exp.Add(this=at.expression, expression=exp.Literal.number(1)))
    elif isinstance(node, exp.Ordered) and node.args.get("desc"):
        yield lambda at: at.set("desc", False)
    elif isinstance(node, (exp.Add, exp.Sub)):
        other = exp.Sub if isinstance(node, exp.Add) else exp.Add
        yield lambda at: at.replace(other(**at.args))
    elif isinstance(node, (exp.Update, exp.OnConflict)) and node.expressions:
        if isinstance(node, exp.OnConflict):
            yield lambda at: at.replace(exp.OnConflict(action=exp.Var(this="DO NOTHING")))
        for place in range(len(node.expressions)):
            if len(node.expressions) > 1:
                yield lambda at, place=place: _unassigned(at.expressions[place])  # type: ignore[misc]
    elif isinstance(node, exp.ColumnDef):
        for place, constraint in enumerate(node.constraints):
            if isinstance(constraint.kind, exp.NotNullColumnConstraint):
                continue  # a guard against statements that nobody wrote: no test can tell
            yield lambda at, place=place: _dropped(at.constraints[place])  # type: ignore[misc]
    elif isinstance(node, (exp.PrimaryKey, exp.Check)):
        yield _dropped
    elif isinstance(node, exp.Create) and node.args.get("unique"):
        yield lambda at: at.set("unique", False)
    whole = isinstance(node, exp.Select) and node.parent is None
    if (whole or (isinstance(node, exp.Schema) and isinstance(node.parent, exp.Insert))) and len(node.expressions) > 1:
        yield lambda at: at.set("expressions", [at.expressions[1], at.expressions[0], *at.expressions[2:]])
    for clause in _CLAUSES:
        if node.args.get(clause) and isinstance(node, (exp.Select, exp.Insert, exp.Update, exp.Delete, exp.Subquery)):
            yield lambda at, clause=clause: at.set(clause, None)  # type: ignore[misc]
    if isinstance(node, exp.Literal) and not node.is_string and not isinstance(node.parent, exp.Select):
        yield lambda at: at.replace(exp.Literal.number(int(float(at.this)) + 1))


def _dropped(node: Any) -> None:
    node.pop()


def _values(node: Any) -> int:
    """Return how many values without a name a node takes."""
    return sum(not each.this for each in node.find_all(exp.Placeholder))


# What takes values is left out by changes that keep them, as a database refuses a statement with too many.


def _always(node: Any) -> None:
    node.replace(exp.paren(exp.Or(this=node.copy(), expression=exp.condition("1 = 1"))))


def _never(node: Any) -> None:
    node.replace(exp.paren(exp.And(this=exp.paren(node.copy()), expression=exp.condition("1 = 0"))))


def _unassigned(node: Any) -> None:
    if not _values(node):
        node.pop()
        return
    same = exp.Case(ifs=[exp.If(this=exp.condition("1 = 1"), true=node.this.copy())], default=node.expression.copy())
    node.expression.replace(same)


# -- regular expressions -----------------------------------------------------------------------------------------------


def regex_changes(pattern: str) -> list[str]:
    """Return a regular expression with an alternative, quantifier or assertion left out, as far as the results are valid.

    A possessive sign stays: without it the same is found, later.
    """
    found = [
        pattern[: at.start()] + pattern[at.end() :]
        for at in re.finditer(r"(?<!\\)[*+?](?!\?|:|<|=|!|P)|\\b|\(\?i\)", pattern)
        if at[0] != "+" or pattern[at.start() - 1] not in "*+?}"
    ]
    depth = inside = 0
    bars: list[tuple[int, int]] = []
    starts = [0]
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            at += 1
        elif inside:
            inside = int(sign != "]")
        elif sign == "[":
            inside = 1
            at += pattern[at + 1 : at + 2] in ("]", "^")
        elif sign == "(":
            depth += 1
            starts.append(at + 1)
        elif sign == ")":
            depth -= 1
            starts.pop()
        elif sign == "|":
            bars.append((starts[-1], at))
            starts[-1] = at + 1
        at += 1
    found += [pattern[:start] + pattern[bar + 1 :] for start, bar in bars if not pattern[start:bar].startswith("?")]
    valid = []
    for each in dict.fromkeys(found):
        try:
            re.compile(each)
        except (re.error, RecursionError):
            continue
        valid.append(each)
    return [each for each in valid if each != pattern]


# -- syntax trees ------------------------------------------------------------------------------------------------------


def extra_changes(module: cst.Module, dialect: str = "sqlite") -> list[Change]:
    """Return the changes of a module whose SQL is in this dialect, in the order of the source."""
    visitor = _Visitor(dialect)
    module.visit(visitor)
    return visitor.found


class _Visitor(cst.CSTVisitor):
    def __init__(self, dialect: str) -> None:
        self.found: list[Change] = []
        self._dialect = dialect
        self._function: cst.CSTNode | None = None

    def _add(self, kind: str, old: cst.CSTNode, new: cst.CSTNode) -> None:
        self.found.append(Change(old, new, self._function, kind))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        outer = self._function
        self._function = outer or node
        for part in (*node.decorators, node.params):
            part.visit(self)
        node.body.visit(self)
        self._function = outer
        return False

    def visit_Annotation(self, node: cst.Annotation) -> bool:  # noqa: N802
        return False

    def visit_Expr(self, node: cst.Expr) -> bool:  # noqa: N802
        return not isinstance(node.value, (cst.SimpleString, cst.ConcatenatedString))  # docstrings

    def visit_Call(self, node: cst.Call) -> bool:  # noqa: N802
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else getattr(node.func, "value", "")
        if (
            name == "compile"
            and node.args
            and isinstance(node.args[0].value, (cst.SimpleString, cst.ConcatenatedString))
        ):
            pattern = node.args[0].value
            value = pattern.evaluated_value
            if isinstance(value, bytes):
                changed = [repr(each.encode("latin-1")) for each in regex_changes(value.decode("latin-1"))]
            else:
                changed = [repr(each) for each in regex_changes(value or "")]
            for text in changed:
                self._add("regex", pattern, cst.parse_expression(text))
            return False
        return True

    def visit_Integer(self, node: cst.Integer) -> None:  # noqa: N802
        if self._function is None:
            self._add("table", node, node.with_changes(value=str(node.evaluated_value + 1)))

    def visit_Float(self, node: cst.Float) -> None:  # noqa: N802
        if self._function is None:
            self._add("table", node, node.with_changes(value=str(node.evaluated_value * 2)))

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
        if self._function is None and node.value in ("True", "False"):
            self._add("table", node, node.with_changes(value=str(node.value == "False")))

    def visit_AnnAssign(self, node: cst.AnnAssign) -> bool:  # noqa: N802
        if node.value is not None:
            node.value.visit(self)
        return False

    def visit_Assign(self, node: cst.Assign) -> bool:  # noqa: N802
        names = {getattr(target.target, "value", "") for target in node.targets}
        return not names & {"__all__", "__slots__", "T"}

    def visit_Subscript(self, node: cst.Subscript) -> bool:  # noqa: N802
        return self._function is not None  # type aliases and generic bases at import

    def _rows(self, node: Any) -> None:
        """Leave out each row of a table of a module; give each cell of a table the value of the next row."""
        if self._function is not None or len(node.elements) < 2:
            return
        for number, row in enumerate(node.elements):
            rest = [each for place, each in enumerate(node.elements) if place != number]
            self._add("table", node, node.with_changes(elements=rest))
            following = node.elements[(number + 1) % len(node.elements)]
            if (
                isinstance(row, cst.DictElement)
                and isinstance(following, cst.DictElement)
                and not row.value.deep_equals(following.value)
            ):
                self._add("table", row, row.with_changes(value=following.value))

    visit_Dict = visit_Set = visit_Tuple = visit_List = _rows  # noqa: N815

    def _string(self, node: Any) -> bool:
        holes: list[str] = []
        text = _with_holes(node, holes) or ""
        # Queries of both databases have the placeholders of the driver of PostgreSQL.
        for changed in sql_changes(text, "postgres" if "%s" in text else self._dialect):
            self._add("sql", node, cst.parse_expression(_literal(changed, holes)))
        return False

    visit_SimpleString = visit_ConcatenatedString = visit_FormattedString = _string  # noqa: N815


def _with_holes(node: cst.BaseExpression, holes: list[str]) -> str | None:
    """Return the text of a string, with a name in the place of each expression; None for bytes."""
    if isinstance(node, cst.SimpleString):
        value = node.evaluated_value
        if not isinstance(value, str):
            return None
        # A placeholder of `str.replace` or `str.format` is a name for the parser as well.
        return re.sub(r"\{(\w*)\}", lambda found: _name(holes, "hole", "{{" + found[1] + "}}"), value)
    if isinstance(node, cst.ConcatenatedString):
        left, right = _with_holes(node.left, holes), _with_holes(node.right, holes)
        return None if left is None or right is None else left + right
    if not isinstance(node, cst.FormattedString):
        return None
    text = ""
    for part in node.parts:
        if isinstance(part, cst.FormattedStringText):
            plain = cst.SimpleString('"""' + part.value.replace('"""', '\\"\\"\\"') + ' """').evaluated_value
            text += re.sub(
                r"\{\{(\w*)\}\}", lambda found: _name(holes, "hole", "{{" + found[1] + "}}"), str(plain)[:-1]
            )
        else:
            text += _name(holes, "hole", cst.Module([]).code_for_node(part))
    return text


def _name(known: list[str], kind: str, source: str) -> str:
    """Keep a text in a list; return the name that stands in for it."""
    known.append(source)
    return f"{kind}_{len(known) - 1}_"


def _literal(text: str, holes: list[str]) -> str:
    """Return the source of a string with its expressions."""
    formatted = any(not hole.startswith("{{") for hole in holes)
    safe = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if formatted:
        return 'f"""' + _HOLE.sub(lambda found: holes[int(found[1])], safe) + ' """'
    return '"""' + _HOLE.sub(lambda found: holes[int(found[1])][1:-1], safe) + ' """'
