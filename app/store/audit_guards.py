"""Whether the database itself still refuses what the domain forbids (D3, D4).

Of an adopter's tables nothing is expected: they are guarded by their owner, and the doctor knows
what the product needs there.
"""

from app.store import catalogue
from app.store.audit import Check, Severity
from app.store.catalogue import Kind

INDEXES = ("ux_appointments_one_active_per_slot", "ix_appointments_pending_expires_at")
_OURS = "(SELECT NOT adopted FROM calendar.schema_level)"


def _rows(kind: Kind) -> str:
    """By name, and whether it stands on an adoptable table."""
    return ", ".join(
        f"('calendar.{one.table}', '{one.name}', {one.table in catalogue.ADOPTABLE})"
        for one in catalogue.OBJECTS
        if one.kind is kind
    )


CHECKS = (
    Check(
        name="guards-stand",
        rule="D4",
        says="Constraints, triggers and the two indexes of the rules are there and at work",
        table="pg_catalog.pg_constraint",
        severity=Severity.WARNING,
        sql=f"""
        SELECT relation || '.' || name AS id, 'missing or off' AS found, 'at work' AS wanted
        FROM (VALUES {_rows(Kind.CONSTRAINT)}) guard (relation, name, adoptable)
        WHERE ({_OURS} OR NOT adoptable) AND NOT EXISTS (
            SELECT FROM pg_constraint WHERE conrelid = to_regclass(relation) AND conname = name
                AND convalidated)
        UNION ALL
        SELECT relation || '.' || name, 'missing or off', 'at work'
        FROM (VALUES {_rows(Kind.TRIGGER)}) guard (relation, name, adoptable)
        WHERE ({_OURS} OR NOT adoptable) AND NOT EXISTS (
            SELECT FROM pg_trigger WHERE tgrelid = to_regclass(relation) AND tgname = name
                AND tgenabled IN ('O', 'A'))
        UNION ALL
        SELECT 'calendar.' || name, 'missing or invalid', 'at work'
        FROM unnest(ARRAY{list(INDEXES)}) name WHERE {_OURS} AND NOT EXISTS (
            SELECT FROM pg_index WHERE indexrelid = to_regclass('calendar.' || name)
                AND indisvalid)
        """,
    ),
)
