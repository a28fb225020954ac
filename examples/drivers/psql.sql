-- psql -v topic=some.topic -f psql.sql: prints the message id
\set payload '{"amount": "9.90"}'
SELECT outbox.enqueue('order', 42, 'order_paid', :'payload', topic => :'topic');
