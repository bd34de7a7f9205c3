"""What a claim costs: neither a key's long line, nor a stale plan, nor odd statistics slow it."""

import pytest
from sqlalchemy import text

from app.kafka import Sender
from app.store import outbox as store
from dev.servers.mock_kafka import MockKafka
from tests.publish.conftest import MOCKED, OTHER
from tests.publish.outbox_world import OutboxWorld, everything_on

BATCH = 200
PAGES_PER_ROW = 40
"""A generous bound: a handful of index pages for each look, and the row itself, locked."""


def pages(outbox: OutboxWorld, after_id: int = 0) -> int:
    """How many pages the product's own statement touches, for one batch."""
    with outbox.engine.begin() as connection:
        found = connection.execute(
            text("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + store.CLAIM.text),
            {"after_id": after_id, "started_at": outbox.now(), "batch_size": BATCH},
        ).scalar_one()
        connection.rollback()
    plan = found[0]["Plan"]
    assert plan["Actual Rows"] == BATCH
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.parametrize("statistics", ["unknown", "known"])
def test_o3_a_claim_deep_in_one_keys_long_line_costs_what_any_claim_costs(
    mocked: OutboxWorld, statistics: str
) -> None:
    mocked.add_all(["k"] * 20_000)
    if statistics == "known":
        mocked.execute("ANALYZE calendar.outbox_messages")
    last = int(mocked.one("SELECT max(id) AS id FROM calendar.outbox_messages")["id"])
    assert pages(mocked) < BATCH * PAGES_PER_ROW
    assert pages(mocked, last - BATCH) < BATCH * PAGES_PER_ROW


def test_o3_a_claim_stays_cheap_when_statistics_know_a_single_key_and_much_is_published(
    mocked: OutboxWorld,
) -> None:
    mocked.add_all(["k"] * 20_000)
    mocked.execute("UPDATE calendar.outbox_messages SET published_at = now()")
    mocked.execute("ANALYZE calendar.outbox_messages")
    mocked.add_all([str(number) for number in range(2 * BATCH)])
    assert pages(mocked) < BATCH * PAGES_PER_ROW


def test_o1_a_publisher_that_met_an_almost_empty_outbox_copes_with_a_backlog(
    mocked: OutboxWorld, quick: Sender, mock: MockKafka
) -> None:
    """Whatever was planned for five rows may not read the whole table for every row."""
    mocked.execute("ALTER TABLE calendar.outbox_messages SET (autovacuum_enabled = false)")
    mocked.add_all("abcde")
    mocked.execute("ANALYZE calendar.outbox_messages")
    assert mocked.drain(quick).published == 5
    backlog = mocked.add_all([str(number) for number in range(12_000)])
    report = mocked.drain(quick)
    assert (report.outcome, report.published) == ("completed", len(backlog)), report.detail
    assert len(everything_on(mock.bootstrap, MOCKED)) == 5 + len(backlog)


def test_o4_a_long_line_behind_a_set_aside_message_is_left_out_of_the_claim(
    mocked: OutboxWorld, quick: Sender
) -> None:
    line = mocked.add_all(["k"] * 5_000)
    mocked.execute(
        "UPDATE calendar.outbox_messages SET set_aside_at = now() WHERE message_id = :id",
        id=line[0],
    )
    mocked.add(topic=OTHER)
    with mocked.engine.begin() as connection:
        [row] = store.claim(connection, 0, mocked.now(), 100)
    assert (row.topic, row.previous) == (OTHER, None)
    assert mocked.drain(quick, batch_size=100).published == 1
