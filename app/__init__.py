"""Appointment expiry and transactional outbox: what is true with or without Celery."""
