"""Statements of SQLAlchemy, run without its engine: each is compiled once in a process and for a database; from then on
running it is a list of values, one call of the driver, and rows with names.

On PostgreSQL a statement cost 143 µs of CPU through SQLAlchemy's engine, of which 62 were the driver's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy import Dialect, Executable, Row, exc
from sqlalchemy.engine.result import SimpleResultMetaData

from gateway.contracts.errors import StoreError

STATEMENTS_PREPARED: Final = 512  # of one connection: the store has some three hundred
_SHAPES_MAX: Final = 100  # lengths of lists for which the text of one statement is kept

_FLOAT8: Final = 701  # PostgreSQL's number of the only type of fractions in our columns
_REQUIRED: Final = object()

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
Parameters = Mapping[str, Any]
_Bind: TypeAlias = tuple[str, Any, Callable[[Any], Any] | None, int | None]
"""The source of one value of a statement: the parameter of a name, or else a default, made fit for the database by a
function; of a list, the element with an index."""


class Plan:
    """A compiled statement: its text, what is bound to it in which order, and what its rows are. It keeps nothing of
    the statement itself, so that one which was made for a single call goes with it."""

    __slots__ = ("_binds", "_columns", "_dialect", "_expanding", "_shapes", "make_row", "sql")

    def __init__(self, statement: Executable, columns: Sequence[str] | None, dialect: Dialect) -> None:
        compiled = _compiled(statement, columns, dialect)
        self._dialect = dialect
        self._columns = columns
        self._expanding = sorted(bind.key for bind in compiled.binds.values() if bind.expanding)
        self._shapes: dict[tuple[int, ...], tuple[str, list[_Bind]]] = {}
        self.sql = str(compiled)
        self._binds = [] if self._expanding else [_bind(compiled, name) for name in compiled.positiontup or ()]
        self.make_row = _row_maker(compiled)

    def with_values(self, statement: Executable, parameters: Parameters) -> tuple[str, list[Any]]:
        """Return the statement's text and its values in order. Raises `StoreError` if one is missing."""
        sql, binds = self._expanded(statement, parameters) if self._expanding else (self.sql, self._binds)
        values = []
        for name, default, process, index in binds:
            value = parameters.get(name, default)
            if value is _REQUIRED:
                raise StoreError(f"a statement lacks its parameter {name}")
            if index is not None:
                value = value[index]
            values.append(value if process is None else process(value))
        return sql, values

    def _expanded(self, statement: Executable, parameters: Parameters) -> tuple[str, list[_Bind]]:
        """Return the text for lists of these lengths: `IN (?, ?, ?)`. For the same lengths it is made once, or twice if
        two threads need it in one moment; each keeps hold of what it found, as another may clear the table."""
        given = {name: parameters[name] for name in self._expanding if name in parameters}
        shape = tuple(map(len, given.values()))
        found = self._shapes.get(shape)
        if found is None:
            if len(self._shapes) >= _SHAPES_MAX:
                self._shapes.clear()
            found = self._shapes[shape] = _expanded(_compiled(statement, self._columns, self._dialect), given)
        return found


def _compiled(statement: Executable, columns: Sequence[str] | None, dialect: Dialect) -> Any:
    return statement.compile(dialect=dialect, column_keys=columns)  # type: ignore[attr-defined]


def _bind(compiled: Any, name: str, index: int | None = None) -> _Bind:
    parameter = compiled.binds[name]
    default = _REQUIRED if parameter.required else parameter.effective_value
    process = parameter.type.dialect_impl(compiled.dialect).bind_processor(compiled.dialect)
    return parameter.key, default, process, index


def _expanded(compiled: Any, given: Parameters) -> tuple[str, list[_Bind]]:
    required = {bind.key: None for bind in compiled.binds.values() if bind.required}
    state = compiled.construct_expanded_state({**required, **given})
    elements = {
        element: _bind(compiled, name, index)
        for name, expanded in state.parameter_expansion.items()
        for index, element in enumerate(expanded)
    }
    return state.statement, [elements.get(name) or _bind(compiled, name) for name in state.positiontup]


def _row_maker(compiled: Any) -> Callable[[Sequence[Any]], Row[Any]] | None:
    """Return how a row of the driver becomes one of SQLAlchemy, which has names and the types of its columns; None for
    a statement that was written as text."""
    columns = compiled._result_columns
    if not columns:
        return None
    dialect = compiled.dialect
    processors = [column.type.dialect_impl(dialect).result_processor(dialect, _FLOAT8) for column in columns]
    return named_rows([column.keyname for column in columns], processors)


def named_rows(names: Sequence[str], processors: Sequence[Any]) -> Callable[[Sequence[Any]], Row[Any]]:
    """Return how a row of the driver becomes one of SQLAlchemy with these names; a processor changes its value."""
    parent = SimpleResultMetaData(names)
    return partial(Row, parent, processors if any(processors) else None, parent._key_to_index)


_plans: Final[WeakKeyDictionary[Executable, dict[tuple[str, ...], Plan]]] = WeakKeyDictionary()


def plan_of(statement: Executable, parameters: Parameters, dialect: Dialect) -> Plan:
    """Return the plan of a statement, made at its first use. An INSERT or UPDATE has one for each set of columns."""
    plans = _plans.get(statement)
    if plans is None:
        plans = _plans[statement] = {}
    columns = tuple(parameters) if statement.is_insert or statement.is_update else ()
    plan = plans.get((dialect.name, *columns))
    if plan is None:
        plan = plans[(dialect.name, *columns)] = Plan(statement, columns or None, dialect)
    return plan


class FetchedRows:
    """All that a statement returned, with the methods of SQLAlchemy's `Result`; `rowcount` is what it changed."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def __iter__(self) -> Iterator[AnyRow]:
        return iter(self._rows)

    def all(self) -> list[AnyRow]:
        """Return every row."""
        return self._rows

    def first(self) -> AnyRow | None:
        """Return the first row, None if there is none."""
        return self._rows[0] if self._rows else None

    def one_or_none(self) -> AnyRow | None:
        """Return the only row, None if there is none. Raises where there are several."""
        if len(self._rows) > 1:
            raise exc.MultipleResultsFound
        return self.first()

    def one(self) -> AnyRow:
        """Return the only row. Raises unless there is exactly one."""
        row = self.one_or_none()
        if row is None:
            raise exc.NoResultFound
        return row

    def scalars(self) -> Any:
        """Return the first column of every row."""
        return FetchedRows([row[0] for row in self._rows], self.rowcount)

    def scalar_one(self) -> Any:
        """Return the first column of the only row. Raises unless there is exactly one."""
        return self.one()[0]

    def scalar_one_or_none(self) -> Any:
        """Return the first column of the only row, None if there is none. Raises where there are several."""
        row = self.one_or_none()
        return None if row is None else row[0]
