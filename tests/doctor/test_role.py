"""The connected role: each missing privilege is named with its GRANT, too many are a warning."""

from collections.abc import Iterator

import pytest

from app.store.privileges import GRANTS, Grant
from tests.doctor.patient import Patient, prescribed


@pytest.mark.parametrize("grant", GRANTS, ids=lambda one: f"{one.privilege} {one.table}")
def test_a_privilege_that_is_revoked_is_named_and_granted_by_the_remedy(
    patient: Patient, grant: Grant
) -> None:
    patient.sql(
        grant.statement.replace("GRANT", "REVOKE").removesuffix("TO") + f"FROM {patient.role}"
    )
    [complaint] = patient.found()
    assert complaint.serious
    assert prescribed(complaint) == [f"{grant.statement} {patient.role}"]
    patient.mend([complaint])
    assert patient.found() == []


def test_of_columns_only_the_missing_ones_are_named(patient: Patient) -> None:
    patient.sql(f"REVOKE UPDATE (version) ON calendar.appointments FROM {patient.role}")
    [complaint] = patient.found()
    assert "lacks the privilege UPDATE (version) ON calendar.appointments." in complaint.found


def test_a_role_that_may_not_use_the_schema(patient: Patient) -> None:
    patient.sql(f"REVOKE USAGE ON SCHEMA calendar FROM {patient.role}")
    [complaint] = patient.found()
    assert prescribed(complaint) == [f"GRANT USAGE ON SCHEMA calendar TO {patient.role}"]
    patient.mend([complaint])
    assert patient.found() == []


def test_a_role_that_does_not_see_other_sessions_is_warned_of(patient: Patient) -> None:
    patient.sql(f"REVOKE pg_read_all_stats FROM {patient.role}")
    [complaint] = patient.found()
    assert not complaint.serious
    patient.mend([complaint])
    assert patient.found() == []


@pytest.fixture
def too_mighty(patient: Patient) -> Iterator[Patient]:
    """The worker's role will be given more than it needs."""
    yield patient
    patient.sql(f"ALTER ROLE {patient.role} NOSUPERUSER")


def test_a_superuser_is_warned_of(too_mighty: Patient) -> None:
    too_mighty.sql(f"ALTER ROLE {too_mighty.role} SUPERUSER")
    [complaint] = too_mighty.found()
    assert "is a superuser" in complaint.found
    assert not complaint.serious


def test_an_owner_is_warned_of(patient: Patient) -> None:
    patient.sql(f"ALTER TABLE calendar.brake OWNER TO {patient.role}")
    [complaint] = patient.found()
    assert "owns the tables" in complaint.found
    assert not complaint.serious
    patient.sql("ALTER TABLE calendar.brake OWNER TO postgres")


def test_rows_that_are_hidden_from_the_worker_are_a_complaint(patient: Patient) -> None:
    """Section 4: the system worker is explicitly cross-tenant."""
    patient.sql("ALTER TABLE calendar.appointments ENABLE ROW LEVEL SECURITY")
    [complaint] = patient.found()
    assert "hides rows of calendar.appointments" in complaint.found
    assert complaint.serious
    patient.mend([complaint])
    assert patient.found() == []
