// node node_pg.js TOPIC
const { Client } = require('pg');

async function main(topic) {
  const client = new Client();
  await client.connect();

  const enqueue = async (call, values) => {
    const result = await client.query(`SELECT ${call} AS id`, [...values, topic]);
    console.log(result.rows[0].id);
  };

  await client.query('BEGIN');
  await enqueue('outbox.enqueue($1, $2, $3, $4::jsonb, topic => $5)',
    ['order', 42, 'created', JSON.stringify({ total: 10 })]);
  await enqueue('outbox.enqueue($1, $2, $3, $4, topic => $5)',
    ['order', 'A-1', 'created', { total: 10 }]);
  await enqueue('outbox.enqueue($1, $2, $3, $4::bytea, topic => $5)',
    ['order', 'A-2', 'scanned', Buffer.from([0, 255])]);
  await enqueue('outbox.enqueue($1, $2, $3, $4, topic => $5)',
    ['order', 'A-1', 'deleted', null]);
  await client.query('COMMIT');

  await client.query('BEGIN');
  await client.query('SELECT outbox.enqueue($1, $2, $3, $4, topic => $5)',
    ['order', '42', 'rolled back', '{}', topic]);
  await client.query('ROLLBACK');
  await client.end();
}

main(process.argv[2]).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
