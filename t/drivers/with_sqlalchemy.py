import sys
import uuid
from datetime import datetime

from sqlalchemy import BigInteger, cast, create_engine, func, null, select, text
from sqlalchemy.dialects.postgresql import BYTEA, JSON, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Message(Base):
    """A row of the log: the server fills in what is not given."""

    __tablename__ = "message"
    __table_args__ = {"schema": "outbox"}

    seq: Mapped[int] = mapped_column(
        BigInteger, primary_key=True, server_default=text("outbox.next_seq()")
    )
    created_at: Mapped[datetime] = mapped_column(
        primary_key=True, server_default=text("outbox.next_created_at()")
    )
    aggregate_type: Mapped[str]
    aggregate_id: Mapped[str]
    event_type: Mapped[str]
    topic: Mapped[str | None]
    # Python's None is SQL's NULL, a tombstone, and not JSON's null.
    payload: Mapped[dict | None] = mapped_column(JSON(none_as_null=True))
    headers: Mapped[dict | None] = mapped_column(JSONB(none_as_null=True))


topic = sys.argv[1]
engine = create_engine("postgresql+psycopg://")

with Session(engine) as session, session.begin():

    def enqueue(aggregate_id, event_type, payload):
        # SQLAlchemy has no notation for arguments by name: here are the first six.
        call = func.outbox.enqueue(
            "order", aggregate_id, event_type, payload, null(), topic
        )
        print(session.execute(select(call)).scalar_one())

    enqueue(42, "created", cast({"total": 10}, JSONB))
    enqueue(uuid.uuid4(), "scanned", cast(b"\x00\xff", BYTEA))
    # cast(None, JSON) would be JSON's null.
    enqueue("A-1", "deleted", cast(null(), JSON))

    message = Message(
        aggregate_type="order",
        aggregate_id="A-2",
        event_type="created",
        topic=topic,
        payload={"total": 10},
        headers={"trace": "00-ab"},
    )
    session.add(message)
    session.flush()
    print(
        session.execute(
            text(
                "SELECT outbox.message_id(created_at, xid, seq)"
                " FROM outbox.message WHERE created_at = :at AND seq = :seq"
            ),
            {"at": message.created_at, "seq": message.seq},
        ).scalar_one()
    )

with Session(engine) as session:
    session.add(
        Message(
            aggregate_type="order",
            aggregate_id="42",
            event_type="rolled back",
            topic=topic,
        )
    )
    session.flush()
    session.rollback()
