"""Which views can stand for a table."""

import pytest

from tests.adoption.team import Team


def as_view(changed: str) -> str:
    return f"""ALTER TABLE calendar.alarms ADD COLUMN naive timestamp;
        DROP VIEW timeout.event_reminders; CREATE VIEW timeout.event_reminders {changed}"""


REMINDER = (
    'alarm_id AS id, "entry:%s" AS calendar_event_id, rings AS remind_at, changed AS updated_at'
)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (
            f"AS SELECT {REMINDER}, state AS status FROM calendar.alarms",
            "timeout.event_reminders has no column xmax.",
        ),
        (
            f"AS SELECT {REMINDER}, lower(state::text) AS status, xmax FROM calendar.alarms",
            "timeout.event_reminders.status cannot be written: it is computed.",
        ),
        (
            (
                f"AS SELECT {REMINDER}, state AS status, alarms.xmax FROM calendar.alarms"
                ' CROSS JOIN calendar."Slots"'
            ),
            "timeout.event_reminders is neither a table nor a plain view of one.",
        ),
        (
            (
                f"WITH (security_barrier) AS SELECT {REMINDER}, state AS status, xmax"
                " FROM calendar.alarms WHERE channel <> ''"
            ),
            "timeout.event_reminders is neither a table nor a plain view of one.",
        ),
    ],
)
def test_a_view_that_will_not_do_is_refused(viewings: Team, planted: str, said: str) -> None:
    viewings.run(as_view(planted))
    assert [one.found for one in viewings.look().obstacles] == [said]


def test_a_view_of_some_of_the_rows_will_do(viewings: Team) -> None:
    viewings.run(
        as_view(
            f"AS SELECT {REMINDER}, state AS status, xmax FROM calendar.alarms"
            " WHERE channel <> 'fax'"
        )
    )
    viewings.adopt()
    viewings.book()
    assert viewings.world().run().expired == 1
