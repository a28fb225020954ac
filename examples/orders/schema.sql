-- The order application's own tables. It knows nothing of Kafka: it enqueues
-- a message in the transaction that changes an order.
CREATE TABLE orders (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer     text NOT NULL,
    status       text NOT NULL DEFAULT 'created',
    total_cents  integer NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE order_item (
    order_id     bigint NOT NULL REFERENCES orders (id),
    product      text NOT NULL,
    quantity     integer NOT NULL,
    price_cents  integer NOT NULL,
    PRIMARY KEY (order_id, product)
);
