"""Long random histories of everything that may happen, against the specification's model.

Hypothesis draws them, and on a failure prints the shortest one that fails. In CI always the same.
"""

from collections import Counter
from uuid import UUID

from hypothesis import Phase

from app.domain.outbox import TOPICS
from dev.servers.kafka import Kafka
from tests.interleaving.history import play
from tests.interleaving.rows import Rows
from tests.publish.outbox_world import everything_on, message_id, sender_to
from tests.world import World

EXAMPLES = 40
PUBLISHED = """SELECT message_id, topic, key, payload::text AS payload
    FROM calendar.outbox_messages WHERE published_at IS NOT NULL"""


class Kept:
    """What all histories leave: how appointments ended, and what must be in Kafka."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.statuses: Counter[str] = Counter()
        self.sent: dict[UUID, tuple[str, str, bytes]] = {}

    def __call__(self, rows: Rows) -> None:
        """A history is over."""
        self.statuses.update(row["status"] for row in rows.appointments.values())
        for row in self.world.all(PUBLISHED):
            self.sent[row["message_id"]] = (row["topic"], row["key"], row["payload"].encode())


def test_c3_o2_in_long_random_histories_rows_and_topics_are_what_the_specification_says(
    world: World, kafka: Kafka
) -> None:
    sender, kept = sender_to(kafka.bootstrap), Kept(world)
    play(world, sender, kept, EXAMPLES, tuple(Phase))
    sender.close()
    records = [record for topic in TOPICS for record in everything_on(kafka.bootstrap, topic, 3)]
    assert {message_id(r): (r.topic, r.key, r.value) for r in records} == kept.sent
    assert len(records) == len(kept.sent), "without a fault each is sent once"
    assert len(kept.statuses) > 2, f"nothing ever happened: {kept.statuses}"
    assert kept.sent
