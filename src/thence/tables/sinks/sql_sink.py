"""Whole transactions into a relational database: each in one target transaction, together with its position.

*Invariant.* Between two target transactions the target holds whole source transactions and nothing else; its
constraints are never switched off. A crash anywhere leaves the position and the rows of the same transactions, so that
reading the source again from an earlier place repeats nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Literal

import sqlalchemy as sa

from thence.core.model.plain import Fields
from thence.errors import MisuseError, TraceError
from thence.tables.sinks.positions import Positions, changes_table, positions_table, stored_name
from thence.tables.sinks.steps import Statements, TableStep, steps
from thence.tables.sinks.target import Target, TargetTables
from thence.tables.sinks.values import Unusable
from thence.tables.sources import WholeTransaction

OnRefusal = Literal["stop", "dead-letter"]
DIALECTS = ("postgresql", "mysql", "mariadb", "sqlite")
_REFUSALS = (sa.exc.IntegrityError, sa.exc.DataError, sa.exc.ProgrammingError, sa.exc.NotSupportedError)
_MYSQL_REFUSALS = {1118, 1241, 1264, 1292, 1364, 1366, 1406, 1411, 1441, 1526, 1644, 1690, 1748, 3140, 3819, 4025}
"""no default, out of range, no partition, a trigger's SIGNAL: errors of the row that its drivers call operational"""
_TOO_LARGE = "54"
"""the class of PostgreSQL's codes for rows and index entries that are too large, which its drivers call operational"""


class RowRefused(TraceError):
    """The target refused a row; nothing of its transaction was written."""

    def __init__(self, transaction: WholeTransaction, number: int | None, change: Fields | None, reason: str) -> None:
        """Name the transaction, the row and the reason.

        Args:
            transaction: the transaction that the target refused.
            number: the place of the refused change in it, from 1; None if the check at its end failed.
            change: the refused change.
            reason: what the target said.
        """
        self.transaction, self.number, self.change, self.reason = transaction, number, change, reason
        super().__init__(str(self))

    def __str__(self) -> str:
        unit = self.transaction
        where = f"{unit.kind} {unit.name} of {unit.source}"
        if self.change is None:
            return f"the target refuses {where} at its end: {self.reason}. Nothing of it was written"
        row = self.change.get("after") or self.change.get("before") or self.change.get("key")
        table = (self.change.get("source") or {}).get("table")
        shown = json.dumps(row, default=str)
        shown = shown if len(shown) <= 300 else shown[:300] + "..."
        return (
            f"the target refuses change {self.number} of {len(unit)} of {where}, op {self.change.get('op')!r} on "
            f"{table}, {shown}: {self.reason}. Nothing of the transaction was written"
        )


def sql(
    engine: sa.Engine | sa.URL | str,
    tables: TargetTables,
    *,
    positions: str = "thence_positions",
    refused: OnRefusal = "stop",
    dead_letters: str = "thence_dead_letters",
) -> SqlSink:
    """Return a sink that applies whole transactions to PostgreSQL, MariaDB, MySQL or SQLite.

        with sql(sqlalchemy.create_engine("postgresql+psycopg://..."), ["customer", "orders"]) as sink:
            for transaction in transactions.push(record):
                sink.apply(transaction)

    Raises `MisuseError` if a table is missing or has no primary key, or if the connection does not check foreign keys
    or commits each statement by itself.

    Args:
        engine: SQLAlchemy's, for the target, or its URL.
        tables: names of the source's tables, where the target's are called the same, or a mapping from the source's
            names (`customer` or `public.customer`) to the target's; a table that maps to None is left out. Every table
            of the target needs a primary key.
        positions: the table that says how far the target is; it is created if missing.
        refused: what happens if the target refuses a row. `stop` raises `RowRefused`. `dead-letter` writes the whole
            transaction into the table `dead_letters`, with the reason beside the refused row, and goes on.
        dead_letters: the name of that table.
    """
    if refused not in ("stop", "dead-letter"):
        raise MisuseError(f"refused is {refused!r}; 'stop' and 'dead-letter' are accepted")
    if isinstance(engine, str | sa.URL):
        try:
            engine = sa.create_engine(engine)
        except sa.exc.NoSuchModuleError as error:
            raise MisuseError(f"engine is a URL of a database that SQLAlchemy does not know: {error}") from error
        except ImportError as error:
            raise MisuseError(f"engine is a URL whose driver is not installed: {error}") from error
        except sa.exc.ArgumentError:  # its text may hold a password
            wanted = "one as 'postgresql+psycopg://user:password@host/database' or an engine is expected"
            raise MisuseError(f"engine is a text that is not a URL of SQLAlchemy; {wanted}") from None
    if not isinstance(engine, sa.Engine):
        raise MisuseError(f"engine is a {type(engine).__name__}; an engine of SQLAlchemy or its URL is expected")
    if engine.dialect.name not in DIALECTS:
        raise MisuseError(f"the target is {engine.dialect.name}; {', '.join(DIALECTS)} are accepted")
    return SqlSink(engine, tables, positions, dead_letters if refused == "dead-letter" else None)


class SqlSink:
    """A target and how far it is. One thread at a time; several processes may apply the same transactions."""

    def __init__(self, engine: sa.Engine, tables: TargetTables, positions: str, dead_letters: str | None) -> None:
        """Connect, check the target, and create the tables that the sink keeps; use `sql`.

        Args:
            engine: SQLAlchemy's, for the target.
            tables: the tables, as in `sql`.
            positions: the table that says how far the target is.
            dead_letters: the table of refused transactions; None to stop at the first.
        """
        self._connection = engine.connect()
        try:
            _check(self._connection)
            own = sa.MetaData()
            self._positions = Positions(positions_table(positions, own))
            self._dead_letters = (
                None
                if dead_letters is None
                else changes_table(dead_letters, own, "transaction_id", sa.Column("reason", sa.Text))
            )
            own.create_all(self._connection)
            self._target = Target(self._connection, tables)
            self._connection.commit()
        except BaseException:
            self._connection.close()
            raise
        self._statements = Statements(engine.dialect.name)
        self.applied = self.repeated = self.refused = 0
        """transactions that were written, were there already, and went to the dead letters"""

    def apply(self, transaction: WholeTransaction) -> bool:
        """Write a transaction with its position; return False if the target has it, or took it as a dead letter.

        Raises `MisuseError` for an update, a delete or a truncate of `order="transaction"`.

        Args:
            transaction: the next one, from `WholeTransactions.push` or `whole_transactions`.
        """
        try:
            written = self._write(transaction, single=False)
        except RowRefused:
            try:  # once more, row by row, to find the row
                written = self._write(transaction, single=True)
            except RowRefused as error:
                if self._dead_letters is None:
                    raise
                self._bury(transaction, error, self._dead_letters)
                self.refused += 1
                return False
        self.applied += written
        self.repeated += not written
        return written

    def write(self, transactions: Iterable[WholeTransaction]) -> int:
        """Apply transactions in their order; return how many were written.

        Args:
            transactions: from `WholeTransactions.push` or `whole_transactions`.
        """
        return sum(map(self.apply, transactions))

    def has(self, transaction: WholeTransaction) -> bool:
        """Return whether the target has a transaction.

        Args:
            transaction: one that was read; its changes are not looked at.
        """
        try:
            return self._positions.has(self._connection, transaction)
        finally:
            _undo(self._connection)

    def since(self, source: str) -> int | str | None:
        """Return how far the target is, for `since=`; None without transactions of this source in commit order.

        Args:
            source: the connector's topic prefix.
        """
        try:
            return self._positions.since(self._connection, source)
        finally:
            _undo(self._connection)

    def close(self) -> None:
        """Close the connection to the target."""
        self._connection.close()

    def __enter__(self) -> SqlSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- one transaction -------------------------------------------------------------------------------------------

    def _write(self, unit: WholeTransaction, *, single: bool) -> bool:
        connection = self._connection
        number: int | None = None
        try:
            if not self._positions.claim(connection, unit):
                return False
            _defer(connection)
            for step in steps(unit, self._target):
                _check_order(unit, step)
                for part in _rows(step) if single else (step,):
                    number = part.numbers[0]
                    self._statements.run(connection, part)
            number = None
            connection.commit()
        except Exception as error:
            reason = _reason(error, connection)
            if reason is None:
                raise
            number = error.number or number if isinstance(error, Unusable) else number
            change = None if number is None else next(each for n, each in enumerate(unit, 1) if n == number)
            raise RowRefused(unit, number, change, reason) from error
        finally:
            _undo(connection)  # after a commit it does nothing
        return True

    def _bury(self, unit: WholeTransaction, refusal: RowRefused, table: sa.Table) -> None:
        """Write a transaction to the dead letters, with its position."""
        connection = self._connection
        with connection.begin():
            if not self._positions.claim(connection, unit):
                return
            for number, change in enumerate(unit, 1):
                last = number == (refusal.number or len(unit))
                values = {
                    "source": stored_name(unit.source), "number": number,
                    "transaction_id": stored_name(unit.id or unit.name),
                    "change": json.dumps(change, default=str), "reason": refusal.reason if last else None,
                }  # fmt: skip
                connection.execute(sa.insert(table), values)


def _rows(step: TableStep) -> Iterator[TableStep]:
    for row, number in zip(step.rows, step.numbers, strict=True):
        yield TableStep(step.action, step.table, step.columns, [row], [number])


def _check_order(unit: WholeTransaction, step: TableStep) -> None:
    """Refuse what is only right in an order that is not known: the older of two updates could come last."""
    if unit.order == "transaction" and unit.kind == "transaction" and step.action != "upsert":
        raise MisuseError(
            f"{unit.name} ({unit.id}) changes rows of {step.table.name} that may be another transaction's, and "
            "order='transaction' does not say which of two transactions came first. Read the records with "
            "order='commit' or order='keys'; order='transaction' is for tables that only gain rows"
        )


def _check(connection: sa.Connection) -> None:
    """Switch on what the target checks, and refuse a connection that checks nothing or commits by itself."""
    dialect = connection.dialect.name
    if connection.dialect.detect_autocommit_setting(connection.connection.dbapi_connection):  # type: ignore[arg-type]
        raise MisuseError("the engine commits each statement by itself (AUTOCOMMIT); a sink needs transactions")
    if dialect == "sqlite":
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        on = connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    elif dialect == "postgresql":
        on = connection.exec_driver_sql("SHOW session_replication_role").scalar() != "replica"
    else:
        on = connection.exec_driver_sql("SELECT @@foreign_key_checks").scalar() == 1
    if not on:
        raise MisuseError("the connection does not check foreign keys; a sink needs them switched on")


def _defer(connection: sa.Connection) -> None:
    """Defer the constraints that can be deferred to the end of this transaction."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET CONSTRAINTS ALL DEFERRED")
    elif connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")


def _undo(connection: sa.Connection) -> None:
    """Roll back what was not committed.

    SQLAlchemy counts a transaction as ended when its COMMIT has failed; SQLite keeps it open.
    """
    if connection.invalidated:
        connection.rollback()
        return
    driver = connection.connection
    connection.rollback()
    driver.rollback()


def _reason(error: BaseException, connection: sa.Connection) -> str | None:
    """Return why the target refuses a row; None for anything else: a lost connection, a mistake of the caller."""
    if isinstance(error, Unusable):
        return str(error)
    if not isinstance(error, sa.exc.DBAPIError) or error.connection_invalidated:
        return None
    code = error.orig.args[0] if error.orig is not None and error.orig.args else None
    state = str(getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None) or "")
    if not isinstance(error, _REFUSALS) and code not in _MYSQL_REFUSALS and not state.startswith(_TOO_LARGE):
        return None
    reason = " ".join(str(error.orig).split())
    if connection.dialect.name == "sqlite" and "FOREIGN KEY" in reason:
        driver = (
            connection.connection.cursor()
        )  # the commit has failed, and SQLAlchemy would run nothing before a rollback
        driver.execute("PRAGMA foreign_key_check")
        lacking = driver.fetchone()
        if lacking is not None:
            reason += f" (a row of {lacking[0]} refers to a row of {lacking[2]} that is not there)"
    elif "foreign key" in reason.lower():
        reason += "; if the source defers this constraint, the target must declare it DEFERRABLE"
    return reason
