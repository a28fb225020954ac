import sys
import uuid

import psycopg
from psycopg.types.json import Jsonb

topic = sys.argv[1]

with psycopg.connect("") as connection:

    def enqueue(aggregate_id, event_type, payload, headers=None):
        row = connection.execute(
            "SELECT outbox.enqueue(%s, %s, %s, %s, topic => %s, headers => %s)",
            ("order", aggregate_id, event_type, payload, topic, headers),
        ).fetchone()
        print(row[0])

    with connection.transaction():
        enqueue(42, "created", Jsonb({"total": 10}))
        enqueue("A-1", "created", '{"total": 10}', Jsonb({"trace": "00-ab"}))
        enqueue(uuid.uuid4(), "scanned", b"\x00\xff")
        enqueue(2**40, "deleted", None)

    with connection.transaction(force_rollback=True):
        connection.execute(
            "SELECT outbox.enqueue(%s, %s, %s, %s, topic => %s)",
            ("order", 42, "rolled back", Jsonb({}), topic),
        )
