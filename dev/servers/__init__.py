"""Real PostgreSQL, Valkey and Kafka-protocol servers out of wheels, for tests, demo and bench.

They listen on 127.0.0.1 only, start in about a second and are gone when their launcher is,
however it died. Each room knows one thing: `process` a child, `server` what all three share,
`postgres`, `valkey` and `kafka` one server each, `postgres_release` PostgreSQL of other versions,
`stack` the three together, `consumer` how to read topics back, `mock_kafka` a broker that fails on
demand; `prometheus` and `pgbouncer`, from the system's packages, how they are watched and what may
stand before PostgreSQL.
"""

import os

if os.name != "posix":
    raise ImportError("the embedded servers need Linux or macOS")
