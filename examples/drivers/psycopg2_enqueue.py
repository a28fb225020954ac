"""psycopg2_enqueue.py TOPIC: enqueues a message, prints its id (libpq's environment)."""
import json
import sys

import psycopg2

with psycopg2.connect("") as connection, connection.cursor() as cursor:
    cursor.execute(
        "SELECT outbox.enqueue('order', %s, %s, %s, topic => %s)",
        (42, "order_paid", json.dumps({"amount": "9.90"}), sys.argv[1]))
    print(cursor.fetchone()[0])
