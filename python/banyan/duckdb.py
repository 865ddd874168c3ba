"""Banyan in DuckDB: questions, choices, extraction and vectors as SQL functions.

>>> import duckdb, banyan.duckdb
>>> con = duckdb.connect("boats.db")
>>> banyan.duckdb.register(con)
>>> con.sql("SELECT name, ask(page, 'Who steers it?') AS skipper FROM 'pages/*.parquet'")

Rows run together, and rows with the same text share it. What was answered is kept in the table
``banyan_cache`` of the database, by a hash of model, options, text and question: asked again, no model runs. NULL in,
NULL out; a row that cannot be answered is NULL, and ``FROM banyan_errors()`` says why.
"""
from __future__ import annotations

import json
import os
import weakref
from typing import Any, Mapping, Sequence

from ._answers import Answers, Cache, Cell, MemoryCache, cells_of
from ._embed import Encoder
from ._errors import Error
from ._model import Model
from ._options import EngineOptions
from ._schema_types import sql_structure
from ._tables import pyarrow

CACHE_TABLE = "banyan_cache"
_FUNCTIONS = ("ask", "ask_choice", "extract_json", "embed", "banyan_error_list", "banyan_map_json", "banyan_filter_json",
              "banyan_score_json", "banyan_pairs")
# Rows of tables: a struct is one, and a text is its column `text`. Whole tables come by their names.
_MACROS = (
    "banyan_map(r, prompt) AS banyan_map_json(to_json(r), prompt, []), "
    "(r, prompt, labels) AS banyan_map_json(to_json(r), prompt, labels)",
    "banyan_score(r, statement) AS banyan_score_json(to_json(r), statement)",
    "banyan_filter(r, statement) AS banyan_filter_json(to_json(r), statement)",
    """banyan_rank(tbl, statement) AS TABLE
    SELECT r.*, banyan_score_json(to_json(r), statement) AS score FROM query_table(tbl) AS r ORDER BY score DESC NULLS LAST""",
    """banyan_group(tbl, question, labels) AS TABLE
    SELECT banyan_map_json(to_json(r), question, labels) AS "group", count(*) AS rows, list(r) AS members
    FROM query_table(tbl) AS r GROUP BY ALL ORDER BY rows DESC, "group" ASC""",
    """banyan_join(left_table, right_table, statement) AS TABLE
    WITH a AS MATERIALIZED (SELECT row_number() OVER () - 1 AS i, r FROM query_table(left_table) AS r),
        b AS MATERIALIZED (SELECT row_number() OVER () - 1 AS i, r FROM query_table(right_table) AS r),
        p AS MATERIALIZED (SELECT unnest(banyan_pairs((SELECT list(to_json(r)::VARCHAR ORDER BY i) FROM a),
            (SELECT list(to_json(r)::VARCHAR ORDER BY i) FROM b), statement), recursive := true))
    SELECT a.r AS "left", b.r AS "right", p.probability FROM p JOIN a ON a.i = p.l JOIN b ON b.i = p.r ORDER BY p.n""")


class TableCache:
    """Results in a table of the database, on a connection of its own, so that a running query can use it. Of a database
    that cannot be written to: what its table has, and memory for the rest."""

    def __init__(self, con: Any, table: str) -> None:
        self._con = con.cursor()
        database, schema, self._read_only = con.execute(
            "SELECT current_database(), current_schema(), readonly FROM duckdb_databases() "
            "WHERE database_name = current_database()").fetchall()[0]
        self._memory = MemoryCache()
        self._table = ".".join('"' + name.replace('"', '""') + '"' for name in (database, schema, table))
        self._exists = True
        if self._read_only:
            self._exists = self._con.execute(
                "SELECT count(*) > 0 FROM duckdb_tables() WHERE (database_name, schema_name, table_name) = (?, ?, ?)",
                [database, schema, table]).fetchall()[0][0]
        else:
            self._con.execute(f"CREATE TABLE IF NOT EXISTS {self._table} (key VARCHAR PRIMARY KEY, value VARCHAR)")

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        found = self._memory.get(keys)
        if self._exists:
            rows = self._con.execute(f"SELECT key, value FROM {self._table} WHERE key IN (SELECT unnest(?))", [list(keys)])
            found.update(rows.fetchall())
        return found

    def put(self, results: Mapping[str, str]) -> None:
        if self._read_only:
            self._memory.put(results)
        elif results:
            self._con.execute(f"INSERT OR REPLACE INTO {self._table} SELECT unnest(?), unnest(?)",
                              [list(results), list(results.values())])


def _cache(con: Any, cache: bool | str) -> Cache:
    return MemoryCache() if cache is False else TableCache(con, CACHE_TABLE if cache is True else cache)


class Registered:
    """What `register` made: `answers` counts and keeps errors; `close` takes the functions away."""

    def __init__(self, con: Any, answers: Answers, own_encoder: bool) -> None:
        self._con, self.answers = con, answers
        self._own_encoder = own_encoder

    def close(self) -> None:
        for name in _FUNCTIONS:
            try:
                self._con.remove_function(name)
            except Exception:  # of a connection that is closed, or a function that is gone
                pass
        if self._own_encoder and self.answers.encoder is not None:
            self.answers.encoder.close()

    def __enter__(self) -> Registered:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def register(con: Any, *, model: Model | str | os.PathLike[str] | None = None,
             encoder: Encoder | str | os.PathLike[str] | None = None,
             schemas: Mapping[str, str | Mapping[str, Any]] | None = None, ask: Mapping[str, Any] | None = None,
             extract: Mapping[str, Any] | None = None, engine: EngineOptions | None = None,
             cache: bool | str = True) -> Registered:
    """Gives the connection these functions; an earlier `register` on it is replaced.

    >>> import duckdb, banyan.duckdb
    >>> con = duckdb.connect()
    >>> with banyan.duckdb.register(con):
    ...     con.sql("SELECT ask('Anna steers the ferry.', 'Who steers the ferry?')").fetchall()
    [('Anna',)]

    | SQL | result |
    |---|---|
    | `ask(text, question)` | VARCHAR |
    | `ask_choice(text, question, labels)` | STRUCT(label VARCHAR, probability DOUBLE) |
    | `extract_NAME(text)`, for each of `schemas` | STRUCT of the schema's types |
    | `extract_json(text, schema)` | the values as JSON, by a schema that stands in the query |
    | `embed(text)` | FLOAT[], with `encoder` |
    | `banyan_map(row, prompt)`, `banyan_map(row, prompt, labels)` | VARCHAR; a row is a struct, or a text |
    | `banyan_filter(row, statement)` | BOOLEAN |
    | `banyan_score(row, statement)` | DOUBLE: the probability that it is true |
    | `FROM banyan_rank('table', statement)` | its rows by falling `score` |
    | `FROM banyan_group('table', question, labels)` | `group`, `rows`, `members` |
    | `FROM banyan_join('left', 'right', statement)` | `left`, `right`: rows as structs; `probability` |
    | `banyan_errors()` | a table: task, about, text, reason |

    `model` and `encoder` are loaded ones, or names and paths; without a model each function has the default that
    `banyan.ask` and `banyan.extract` have. ``con.interrupt()`` ends a function that is answering. `ask` and `extract` have options of `banyan.ask` and
    `banyan.extract` for all calls: ``ask={"max_new": 32, "copy": True}``. `cache`: True keeps results in the table
    ``banyan_cache``, a text names another table, False forgets them with the process. (A function called ``extract``
    cannot be: SQL's own EXTRACT has that name.)
    """
    if not hasattr(con, "create_function"):
        raise Error(f"expected a connection of DuckDB, found {type(con).__name__}; duckdb.connect(PATH) opens one")
    structures = {name: sql_structure(schema) for name, schema in (schemas or {}).items()}
    for name in structures:
        if not name.isidentifier():
            raise Error(f"schemas: '{name}': expected a name of letters, digits and underscores")
    arrow = pyarrow()
    vectors = encoder if encoder is None or isinstance(encoder, Encoder) else Encoder(encoder)
    answers = Answers(model, vectors, options={"ask": ask or {}, "extract": extract or {}}, engine=engine,
                      cache=_cache(con, cache))
    registered = Registered(con, answers, vectors is not None and vectors is not encoder)
    _create(con, answers, arrow)
    _hear_interrupts(type(con))
    _answers_of[id(con)] = answers
    for name, structure in structures.items():
        text = schemas[name]  # type: ignore[index]
        con.execute(f"CREATE OR REPLACE TEMP MACRO extract_{name}(text) AS json_transform(extract_json(text, "
                    f"{_literal(text if isinstance(text, str) else json.dumps(text))}), {_literal(json.dumps(structure))})")
    return registered


# By the identity of the connection, whose functions keep them.
_answers_of: weakref.WeakValueDictionary[int, Answers] = weakref.WeakValueDictionary()


def _hear_interrupts(connections: Any) -> None:
    """DuckDB tells a function that runs nothing of `interrupt()`, and looks itself only between chunks of 2048 rows. So
    the method of connections tells the answers of the connection too."""
    original = connections.interrupt
    if getattr(original, "tells_banyan", False):
        return

    def interrupt(con: Any) -> None:
        original(con)
        answers = _answers_of.get(id(con))
        if answers is not None:
            answers.interrupt()
    interrupt.__doc__ = original.__doc__
    interrupt.tells_banyan = True  # type: ignore[attr-defined]
    connections.interrupt = interrupt


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _create(con: Any, answers: Answers, arrow: Any) -> None:
    choice = arrow.struct([("label", arrow.string()), ("probability", arrow.float64())])

    def ask_texts(text: Any, question: Any) -> Any:
        return arrow.array(answers(cells_of("ask", text.to_pylist(), question.to_pylist())), arrow.string())

    def ask_labels(text: Any, question: Any, labels: Any) -> Any:
        return arrow.array(answers(cells_of("choice", text.to_pylist(), question.to_pylist(), labels.to_pylist())), choice)

    def extract_json(text: Any, schema: Any) -> Any:
        values = answers(cells_of("extract", text.to_pylist(), schema.to_pylist()))
        return arrow.array([None if value is None else json.dumps(value, ensure_ascii=False) for value in values], arrow.string())

    def embed_texts(text: Any) -> Any:
        cells = [None if one is None else Cell("embed", one) for one in text.to_pylist()]
        return arrow.array(answers(cells), arrow.list_(arrow.float32()))

    def error_list() -> list[dict[str, str]]:
        return [vars(error) for error in answers.errors]

    def map_rows(row: Any, prompt: Any, labels: Any) -> Any:
        return arrow.array(answers(cells_of("map", row.to_pylist(), prompt.to_pylist(), labels.to_pylist())), arrow.string())

    def score_rows(row: Any, statement: Any) -> Any:
        return arrow.array(answers(cells_of("score", row.to_pylist(), statement.to_pylist())), arrow.float64())

    def filter_rows(row: Any, statement: Any) -> Any:
        return arrow.array(answers(cells_of("filter", row.to_pylist(), statement.to_pylist())), arrow.bool_())

    def pairs(left: Any, right: Any, statement: Any) -> Any:
        tables = [json.dumps([a or [], b or []], ensure_ascii=False) for a, b in zip(left.to_pylist(), right.to_pylist())]
        found = arrow.struct([("n", arrow.int64()), ("l", arrow.int64()), ("r", arrow.int64()), ("probability", arrow.float64())])
        return arrow.array(answers(cells_of("join", tables, statement.to_pylist())), arrow.list_(found))

    text = "VARCHAR"
    functions: list[tuple[str, Any, list[str], str]] = [
        ("ask", ask_texts, [text, text], text),
        ("ask_choice", ask_labels, [text, text, "VARCHAR[]"], "STRUCT(label VARCHAR, probability DOUBLE)"),
        ("extract_json", extract_json, [text, text], text),
        ("banyan_map_json", map_rows, [text, text, "VARCHAR[]"], text),
        ("banyan_filter_json", filter_rows, [text, text], "BOOLEAN"),
        ("banyan_score_json", score_rows, [text, text], "DOUBLE"),
        ("banyan_pairs", pairs, ["VARCHAR[]", "VARCHAR[]", text], "STRUCT(n BIGINT, l BIGINT, r BIGINT, probability DOUBLE)[]")]
    if answers.encoder is not None:
        functions.append(("embed", embed_texts, [text], "FLOAT[]"))
    for name in _FUNCTIONS:
        try:
            con.remove_function(name)
        except Exception:  # there was none
            pass
    for name, function, parameters, result in functions:
        con.create_function(name, function, parameters, result, type="arrow", null_handling="special")
    con.create_function("banyan_error_list", error_list, [],
                        "STRUCT(task VARCHAR, about VARCHAR, text VARCHAR, reason VARCHAR)[]", side_effects=True)
    con.execute("CREATE OR REPLACE TEMP MACRO banyan_errors() AS TABLE "
                "SELECT unnest(banyan_error_list(), recursive := true)")
    for macro in _MACROS:
        con.execute(f"CREATE OR REPLACE TEMP MACRO {macro}")
