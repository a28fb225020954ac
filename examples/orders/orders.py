#!/usr/bin/python3
"""A small shop: clients that place, pay and ship orders at the same time.

    orders.py DSN [--seconds 5] [--clients 8] [--journal FILE]

Every change of an order and the message about it are one transaction. Some
transactions fail after they have enqueued (a payment is declined) and roll
back, and their messages with them.

The journal gets a line for each enqueued message: "committed ID TIME", with
the time at which the database had acknowledged the commit, or
"rolled-back ID".
"""
import argparse
import json
import multiprocessing
import random
import time

import psycopg2

PRODUCTS = {"tea": 450, "coffee": 790, "mug": 1250, "kettle": 3990}
NEXT_STATUS = {"created": "paid", "paid": "shipped", "shipped": "delivered"}


class Declined(Exception):
    """The payment service said no, after everything else was done."""


def enqueue(cursor, order_id, event_type, payload):
    """Tell others about an order, if and when this transaction commits."""
    cursor.execute(
        "SELECT outbox.enqueue('order', %s, %s, %s)",
        (order_id, event_type, json.dumps(payload)),
    )
    return cursor.fetchone()[0]


def place_order(cursor, customer):
    items = random.sample(sorted(PRODUCTS), random.randint(1, 3))
    total = sum(PRODUCTS[product] for product in items)
    cursor.execute(
        "INSERT INTO orders (customer, total_cents) VALUES (%s, %s) RETURNING id",
        (customer, total),
    )
    order_id = cursor.fetchone()[0]
    for product in items:
        cursor.execute(
            "INSERT INTO order_item VALUES (%s, %s, 1, %s)",
            (order_id, product, PRODUCTS[product]),
        )
    return enqueue(
        cursor,
        order_id,
        "order_created",
        {"order": order_id, "customer": customer, "items": items, "total_cents": total},
    )


def advance_order(cursor):
    """Pay, ship or deliver some order; returns None if there is none."""
    # The lock is taken in a statement before enqueue(), so two clients that
    # change the same order publish in the order in which they changed it.
    cursor.execute(
        """SELECT id, status FROM orders
            WHERE id >= (SELECT ceil(max(id) * random()) FROM orders)
              AND status <> 'delivered'
            ORDER BY id LIMIT 1 FOR UPDATE"""
    )
    row = cursor.fetchone()
    if row is None:
        return None
    order_id, status = row
    status = NEXT_STATUS[status]
    cursor.execute("UPDATE orders SET status = %s WHERE id = %s", (status, order_id))
    return enqueue(cursor, order_id, "order_" + status, {"order": order_id, "status": status})


def client(number, dsn, seconds, lines):
    """One client's working day."""
    random.seed()
    journal = []
    connection = psycopg2.connect(dsn)
    end = time.time() + seconds
    while time.time() < end:
        message_id = None
        try:
            with connection.cursor() as cursor:
                if random.random() < 0.4:
                    message_id = place_order(cursor, f"customer-{number}")
                else:
                    message_id = advance_order(cursor)
                if random.random() < 0.1:
                    raise Declined
            connection.commit()
            if message_id:
                journal.append(f"committed {message_id} {time.time():.6f}")
        except Declined:
            connection.rollback()
            if message_id:
                journal.append(f"rolled-back {message_id}")
        time.sleep(random.uniform(0, 0.02))
    connection.close()
    lines.put(journal)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("dsn")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--journal")
    arguments = parser.parse_args()

    lines = multiprocessing.Queue()
    clients = [
        multiprocessing.Process(target=client, args=(n, arguments.dsn, arguments.seconds, lines))
        for n in range(arguments.clients)
    ]
    for process in clients:
        process.start()
    journal = []
    for _ in clients:
        try:
            journal += lines.get(timeout=arguments.seconds + 30)
        except Exception:
            raise SystemExit("a client failed")
    for process in clients:
        process.join()
    if arguments.journal:
        with open(arguments.journal, "w", encoding="ascii") as file:
            file.writelines(line + "\n" for line in journal)


if __name__ == "__main__":
    main()
