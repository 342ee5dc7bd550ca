"""SQL queries become dataflows: those of the documents, their variations, and a clear error for the rest."""

from __future__ import annotations

from typing import Any

import pytest

from wmlab import dataflow as flow
from wmlab.core.errors import ScenarioError
from wmlab.core.values import Problems

OF_THE_DOCUMENT = """
select
  window_start window_start_inner,
  window_end window_end_inner,
  time2,
  count(*)
from tumble(my_stream, descriptor(time1), 5 seconds)
group by 1, 2, 3
"""
"""Source: "Keyed watermark support", Changes to window aggregation processors."""
MY_STREAM = flow.Source(
    "my_stream",
    columns=["time1", "time2", "price"],
    rows=[[700 * n, 1_000 * (n // 4), n] for n in range(20)],
    times=[flow.EventTime("time1"), flow.EventTime("time2", key=1)],
    ends=True,
)
ORDERS = flow.Source("orders", columns=["t", "id"], rows=[[700 * n, n] for n in range(10)], times="t", ends=True)
DELIVERIES = flow.Source(
    "deliveries",
    columns=["t", "order_id"],
    rows=[[700 * n + 300 * (n % 3), n] for n in range(10)],
    times=[flow.EventTime("t", key=1)],
    ends=True,
)


def run(query: str, *sources: flow.Source) -> Any:
    frame = flow.sql(query, *sources, duration_ms=5_000).record().results()
    return frame.drop(columns="at_ms")


def test_the_query_of_the_document_is_a_window_over_one_time_that_groups_by_another() -> None:
    dataflow = flow.sql(OF_THE_DOCUMENT, MY_STREAM, duration_ms=5_000)
    window = dataflow.vertex("window")
    assert (window.size_ms, window.step_ms, window.column, window.by) == (5_000, 5_000, "time1", ("time2",))
    frame = dataflow.record().results()
    assert list(frame) == ["window_start_inner", "window_end_inner", "time2", "count", "at_ms"]
    rows = {(row.window_start_inner, row.time2): row.count for row in frame.itertuples(index=False, name="Row")}
    expected: dict[tuple[int, int], int] = {}
    for time1, time2, _ in MY_STREAM.rows or ():
        group = time1 // 5_000 * 5_000, time2
        expected[group] = expected.get(group, 0) + 1
    counts = {group: int(n) for group, n in zip(rows, frame["count"], strict=True)}
    assert counts == expected


def test_the_end_of_a_window_keeps_its_watermark_under_the_name_that_the_query_gives() -> None:
    assert flow.sql(OF_THE_DOCUMENT, MY_STREAM).plan.outputs["select"].keys == ((0, "window_end_inner"),)


def test_a_hop_slides_and_a_condition_filters() -> None:
    query = """select window_end, sum(price) as total from table(hop(table my_stream, descriptor(time1),
        interval '10' second, interval '5' seconds))
        where price > 3 and not price between 7 and 8 group by window_end"""
    rows = [(row[0], row[2]) for row in MY_STREAM.rows or () if row[2] > 3 and not 7 <= row[2] <= 8]
    expected = {end: sum(p for t, p in rows if end - 10_000 <= t < end) for end in range(5_000, 30_000, 5_000)}
    assert dict(run(query, MY_STREAM).values.tolist()) == {end: total for end, total in expected.items() if total}


@pytest.mark.parametrize("outer", ["", "left ", "left outer "])
def test_two_streams_are_joined_within_bounds(outer: str) -> None:
    query = f"""select o.id, d.t as came, d.t - o.t took from orders o {outer}join deliveries as d
        on d.t between o.t and o.t + interval '1' second and o.id = d.order_id where o.id <> 4"""
    dataflow = flow.sql(query, ORDERS, DELIVERIES)
    assert dataflow.vertex("join").outer == (outer.strip().split(" ")[0] or None)
    frame = run(query, ORDERS, DELIVERIES)
    expected = {n: (700 * n + 300 * (n % 3), 300 * (n % 3)) for n in range(10) if n != 4}
    assert {row[0]: tuple(row[1:]) for row in frame.values.tolist()} == expected


def test_a_stream_is_selected_from() -> None:
    query = "SELECT id * 2 AS double, 'it''s' it FROM orders WHERE (id + 1) * 2 >= - -10 AND id IS NOT NULL -- last\n;"
    assert run(query, ORDERS).values.tolist() == [[2 * n, "it's"] for n in range(4, 10)]
    assert run("select * from orders", ORDERS).values.tolist() == [list(row) for row in ORDERS.rows or ()]
    either = run("select id from orders where id is null or not id < 9", ORDERS)
    assert either.values.tolist() == [[9]]


WINDOWED = "select window_end, count(*) from tumble(orders, descriptor(t), 5 seconds) group by 1"


@pytest.mark.parametrize(
    ("query", "marked", "problem"),
    [
        ("", "", "'select' is expected, not the end"),
        ("selct id from orders", "selct", "'select' is expected, not 'selct id from orders'"),
        ("select id, from orders", "from", "a column or a value is expected"),
        ("select id from order", "order", "the name of a stream is expected"),
        ("select id from order_s", "order_s", "no source is called 'order_s'"),
        ("select x from orders", "x from", "there is no column 'x'"),
        ("select o.id, x.id from orders o", "x.id", "no stream here is called 'x'"),
        ("select id, t id from orders", "t id", "another result is called 'id' too"),
        ("select id + 1 from orders", "id + 1", "this expression has no name"),
        ("select id from orders limit 5", "limit", "the query cannot go on here"),
        ("select id from orders where id / 2 = 1", "/", "the query cannot go on here"),
        ("select id from orders where id = 'a", "'a", "a column or a value is expected"),
        ("select id from orders where " + "(" * 200 + "id" + ")" * 200, "(" * 170 + "id", "nested deeper than 30"),
        ("select count(*) from orders", "count", "aggregated in windows only"),
        ("select id from orders group by id", "id", "aggregated in windows only"),
        (WINDOWED.replace("count(*)", "count(id)"), "id)", "'*' is expected"),
        (WINDOWED.replace("5 seconds", "5 secs"), "secs", "a unit of time"),
        (WINDOWED.replace("5 seconds", "5.5 seconds"), "5.5", "a duration such as 5 seconds is expected"),
        (WINDOWED.replace("5 seconds", "interval 5 seconds"), "5 sec", "a whole number in quotation marks"),
        (WINDOWED.replace(", count(*)", ""), "window_end", "no aggregate of their rows"),
        (WINDOWED.replace("count", "id, count"), "id", "neither an aggregate nor a column that the query groups by"),
        (WINDOWED.replace("window_end", "id"), "1", "does not group by them"),
        (WINDOWED.replace("group by 1", "group by 3"), "3", "nothing selected has the number 3"),
        (WINDOWED.replace("group by 1", "group by 2"), "2", "this is not a column"),
        ("select t from orders join deliveries on id = order_id", "t from", "both streams have a column 't'"),
        ("select * from orders a join deliveries a on id = order_id", "a on", "both streams are called 'a'"),
    ],
)
def test_what_cannot_be_read_is_marked_at_its_character(query: str, marked: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        flow.sql(query, ORDERS, DELIVERIES)
    message, line, mark = raised.value.problem.split("\n")
    assert problem in message
    index = mark.index("^") - 4
    assert line[4:] == query
    assert query[index:].startswith(marked)
    assert message.startswith(f"Character {index + 1} of the query is wrong: ")


def test_of_several_lines_that_of_the_mistake_is_written() -> None:
    with pytest.raises(ScenarioError) as raised:
        flow.sql(OF_THE_DOCUMENT.replace("5 seconds", "5 parsecs"), MY_STREAM)
    lines = raised.value.problem.split("\n")
    assert lines[0].startswith("Character 45 in line 7 of the query is wrong")
    assert lines[1] == "    from tumble(my_stream, descriptor(time1), 5 parsecs)"


def test_what_sql_allows_and_watermarks_do_not_is_refused_by_the_dataflow() -> None:
    with pytest.raises(Problems, match="its rows would be kept for ever"):
        flow.sql("select * from orders o join deliveries d on o.id = d.order_id", ORDERS, DELIVERIES)
    with pytest.raises(Problems, match="carries no watermark here"):
        flow.sql(WINDOWED.replace("descriptor(t)", "descriptor(id)"), ORDERS)
    with pytest.raises(ScenarioError, match="5 is not text"):
        flow.sql(5, ORDERS)  # type: ignore[arg-type]
