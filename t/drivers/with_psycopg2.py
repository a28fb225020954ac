import sys
import uuid

import psycopg2
import psycopg2.extras
from psycopg2 import Binary
from psycopg2.extras import Json

psycopg2.extras.register_uuid()
topic = sys.argv[1]
connection = psycopg2.connect("")

with connection, connection.cursor() as cur:

    def enqueue(aggregate_id, event_type, payload, headers=None):
        cur.execute(
            "SELECT outbox.enqueue(%s, %s, %s, %s, topic => %s, headers => %s)",
            ("order", aggregate_id, event_type, payload, topic, headers),
        )
        print(cur.fetchone()[0])

    enqueue(42, "created", Json({"total": 10}))
    enqueue("A-1", "created", '{"total": 10}', Json({"trace": "00-ab"}))
    enqueue(uuid.uuid4(), "scanned", Binary(b"\x00\xff"))
    # None has no type: say which payload there is none of.
    cur.execute(
        "SELECT outbox.enqueue(%s, %s, %s, %s::json, topic => %s)",
        ("order", 42, "deleted", None, topic),
    )
    print(cur.fetchone()[0])

with connection.cursor() as cur:
    cur.execute(
        "SELECT outbox.enqueue(%s, %s, %s, %s, topic => %s)",
        ("order", 42, "rolled back", Json({}), topic),
    )
    connection.rollback()
