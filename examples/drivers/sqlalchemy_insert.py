"""sqlalchemy_insert.py TOPIC: inserts a message by the ORM, prints its id (libpq's environment)."""
import sys

from sqlalchemy import JSON, BigInteger, Column, DateTime, FetchedValue, Text, create_engine, func, select
from sqlalchemy.orm import Session, declarative_base

Base = declarative_base()


class Message(Base):
    """The application's columns; the server gives the others."""
    __tablename__ = "message"
    __table_args__ = {"schema": "outbox"}
    seq = Column(BigInteger, FetchedValue(), primary_key=True)
    created_at = Column(DateTime(timezone=True), FetchedValue())
    xid = Column(Text, FetchedValue())
    aggregate_type = Column(Text)
    aggregate_id = Column(Text)
    event_type = Column(Text)
    topic = Column(Text)
    payload = Column(JSON)


with Session(create_engine("postgresql+psycopg2://")) as session, session.begin():
    message = Message(aggregate_type="order", aggregate_id="42", event_type="order_paid",
                      payload={"amount": "9.90"}, topic=sys.argv[1])
    session.add(message)
    session.flush()
    print(session.execute(select(func.outbox.message_id(Message.created_at, Message.xid, Message.seq)).where(
        Message.seq == message.seq)).scalar_one())
