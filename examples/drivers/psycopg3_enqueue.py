"""psycopg3_enqueue.py TOPIC: enqueues a message, prints its id (libpq's environment)."""
import sys

import psycopg
from psycopg.types.json import Json

with psycopg.connect("") as connection:
    row = connection.execute(
        "SELECT outbox.enqueue('order', %s, %s, %s, topic => %s)",
        (42, "order_paid", Json({"amount": "9.90"}), sys.argv[1])).fetchone()
    print(row[0])
