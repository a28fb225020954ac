import json
import os
import sys

import django
from django.conf import settings
from django.db import connection, models, transaction

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": os.environ.get("PGHOST", ""),
            "PORT": os.environ.get("PGPORT", ""),
            "USER": os.environ.get("PGUSER", ""),
            "NAME": os.environ.get("PGDATABASE", "postgres"),
        }
    },
    USE_TZ=True,
)
django.setup()


class NextSeq(models.Func):
    template = "outbox.next_seq()"
    output_field = models.BigIntegerField()


class NextCreatedAt(models.Func):
    template = "outbox.next_created_at()"
    output_field = models.DateTimeField()


class Message(models.Model):
    """A row of the log: the server fills in what is not given."""

    seq = models.BigIntegerField(primary_key=True, db_default=NextSeq())
    created_at = models.DateTimeField(db_default=NextCreatedAt())
    aggregate_type = models.TextField()
    aggregate_id = models.TextField()
    event_type = models.TextField()
    topic = models.TextField(null=True)
    payload = models.JSONField(null=True)
    headers = models.JSONField(null=True)

    class Meta:
        app_label = "outbox"
        db_table = 'outbox"."message'
        managed = False


topic = sys.argv[1]

with transaction.atomic():
    message = Message.objects.create(
        aggregate_type="order",
        aggregate_id="A-1",
        event_type="created",
        topic=topic,
        payload={"total": 10},
        headers={"trace": "00-ab"},
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT outbox.message_id(created_at, xid, seq) FROM outbox.message WHERE seq = %s",
            [message.seq],
        )
        print(cursor.fetchone()[0])
        cursor.execute(
            "SELECT outbox.enqueue(%s, %s, %s, %s, topic => %s)",
            ["order", 42, "created", json.dumps({"total": 10}), topic],
        )
        print(cursor.fetchone()[0])

try:
    with transaction.atomic():
        Message.objects.create(
            aggregate_type="order",
            aggregate_id="42",
            event_type="rolled back",
            topic=topic,
        )
        raise RuntimeError("the order is refused")
except RuntimeError:
    pass
