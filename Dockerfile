# One image for every role; the command decides: worker, beat, flower, migrate.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements/runtime.lock requirements/runtime.lock
RUN python -m venv /opt/app \
 && /opt/app/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.lock
COPY pyproject.toml README.md celeryconfig.py ./
COPY app app
COPY tasks tasks
RUN /opt/app/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 calendar && useradd --uid 10001 --gid 10001 --no-create-home calendar
COPY --from=build /opt/app /opt/app
ENV PATH=/opt/app/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
# /tmp must be writable (a tmpfs will do): metrics files and the job slots of the node live there.
WORKDIR /opt/app
COPY flowerconfig.py .
# By effect: the database is reachable, and its schema fits this program.
HEALTHCHECK --interval=30s --timeout=20s --start-period=20s CMD ["python", "-m", "app", "health"]
CMD ["celery", "-q", "-A", "tasks", "worker"]
