"""A PostgreSQL in perfect health, in which a test plants what the doctor is to find and mend."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.doctor import examine
from app.doctor.complaint import Complaint
from dev.servers.database import autocommit
from dev.servers.postgres import Postgres
from tests import worker_role

_DEFINITIONS = """
    SELECT pg_get_constraintdef(oid), conname, conrelid::regclass::text, convalidated
    FROM pg_constraint
    WHERE connamespace = 'calendar'::regnamespace AND contype IN ('p', 'f', 'c', 'u')
    UNION ALL
    SELECT pg_get_triggerdef(oid), tgname, tgrelid::regclass::text, tgenabled = 'O'
    FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL
    SELECT pg_get_indexdef(indexrelid), '', indrelid::regclass::text, indisvalid
    FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
    WHERE relnamespace = 'calendar'::regnamespace
    ORDER BY 3, 2, 1
"""


def prescribed(complaint: Complaint) -> list[str]:
    """The statements and commands of its remedy, in their order."""
    quoted = re.findall(r"`([^`]+)`", complaint.remedy)
    return [one.strip() for statements in quoted for one in statements.split(";")]


@dataclass(frozen=True)
class Patient:
    """A migrated database of a durable server, and the worker's role there."""

    server: Postgres
    name: str

    @property
    def role(self) -> str:
        """Whom the product connects as."""
        return f"worker_{self.name}"

    @property
    def url(self) -> str:
        """As the worker."""
        return self.server.url(self.name).replace("postgres@", f"{self.role}@")

    def make_role(self) -> None:
        """As the shipped file makes it, with the grant that the doctor only advises."""
        worker_role.make(self.server, self.name, self.role)
        self.sql(f"ALTER ROLE {self.role} LOGIN", f"GRANT pg_read_all_stats TO {self.role}")

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """As the server's superuser, each in a transaction of its own; the last one's rows."""
        with autocommit(self.server.url(self.name)) as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def found(self) -> list[Complaint]:
        """What the doctor says of PostgreSQL."""
        return list(examine("postgresql"))

    def mend(self, complaints: Sequence[Complaint]) -> None:
        """Do what the doctor says."""
        for complaint in complaints:
            assert prescribed(complaint), complaint
            self.sql(*prescribed(complaint))

    def definitions(self) -> list[tuple[Any, ...]]:
        """Every constraint, index and trigger, as PostgreSQL itself spells it."""
        return self.sql(_DEFINITIONS)
