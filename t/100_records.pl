# What arrives in Kafka: order within a transaction, and every part of a record.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use PostgreSQL::Test::Utils;
use Test::More;

my $node  = outbox_node('main', extension => 1);
my $topic = create_topic(unique_topic('records'), 7);

sub sql { return $node->safe_psql('postgres', $_[0]); }

# The record of a message, waited for.
my %seen;

sub record_of
{
	my ($id, $what) = @_;
	is(sql("SELECT outbox.wait_until_published('$id', '60 s')"), 't', "$what is published");
	if (!$seen{$id})
	{
		%seen = ();
		push @{ $seen{ $_->{headers}{ce_id} } }, $_ foreach consume($topic);
	}
	is(scalar @{ $seen{$id} // [] }, 1, "$what arrived once");
	return $seen{$id}[0];
}

# Everything that the application chooses.
my $id = sql(<<"END");
SELECT outbox.enqueue('customer', 'Ñandú 7', 'renamed', '{"b": 1,  "a":"ü"}'::json,
	headers => '{"trace": "00-ab", "tries": 3, "big": 9007199254740993, "yes": true, "none": null, "empty": ""}',
	topic => '$topic', key => 'kéy');
END
my $row = sql("SELECT seq, created_at AT TIME ZONE 'UTC', trunc(extract(epoch FROM created_at) * 1000)::bigint,
	(SELECT source FROM outbox.instance) FROM outbox.message");
my ($seq, $created_at, $ms, $source) = split /\|/, $row;
$created_at =~ s/ /T/;
$created_at .= '.000000' if $created_at !~ /\./;
$created_at .= '0' while $created_at !~ /\.\d{6}$/;

my $record = record_of($id, 'a message');
is($record->{value}, qq({"b": 1,  "a":"\xc3\xbc"}), 'the payload, byte for byte');
is($record->{key}, "k\xc3\xa9y", 'the key that was given');
is($record->{timestamp}, $ms, 'the timestamp is created_at in ms');
is($record->{partition}, (OutboxTest::Load::murmur2($record->{key}) & 0x7fffffff) % 7,
	"the partition is the one that Java's clients choose");
is_deeply(
	[ @{ $record->{header_list} }[ 0 .. 7 ] ],
	[
		[ 'ce_specversion',   '1.0' ],
		[ 'ce_id',            $id ],
		[ 'ce_source',        $source ],
		[ 'ce_type',          'renamed' ],
		[ 'ce_subject',       "\xc3\x91and\xc3\xba 7" ],
		[ 'ce_time',          "${created_at}Z" ],
		[ 'ce_aggregatetype', 'customer' ],
		[ 'ce_sequence',      $seq ]
	],
	'the headers of CloudEvents, in their order');
my %own = map { $_->[0] => $_->[1] } @{ $record->{header_list} }[ 8 .. $#{ $record->{header_list} } ];
is_deeply(
	\%own,
	{
		'trace'        => '00-ab',
		'tries'        => '3',
		'big'          => '9007199254740993',
		'yes'          => 'true',
		'none'         => undef,
		'empty'        => '',
		'content-type' => 'application/json'
	},
	"the message's own headers, and the content type");

# The hash of Java's clients, from values that stand in Kafka's own tests.
is(OutboxTest::Load::murmur2('21'),                  unpack('L', pack('l', -973932308)),  'murmur2 of 21');
is(OutboxTest::Load::murmur2('foobar'),              unpack('L', pack('l', -790332482)),  'murmur2 of foobar');
is(OutboxTest::Load::murmur2('a-little-bit-long-string'), unpack('L', pack('l', -985981536)), 'murmur2 of a longer one');

# The shapes of a value.
foreach my $case (
	[ 'a tombstone',       'NULL::json',               undef,              undef ],
	[ 'an empty value',    q(''::bytea),               '',                 'application/octet-stream' ],
	[ 'JSON null',         q('null'::json),            'null',             'application/json' ],
	[ 'jsonb',             q('{"b":1, "a":2}'::jsonb), '{"a": 2, "b": 1}', 'application/json' ],
	[ 'an untyped literal', q('[1 , 2]'),              '[1 , 2]',          'application/json' ],
	[ 'bytes',             q('\\x00ff0a'::bytea),      "\x00\xff\x0a",     'application/octet-stream' ])
{
	my ($name, $payload, $value, $type) = @$case;
	my $got = record_of(
		sql("SELECT outbox.enqueue('customer', 8, 'changed', $payload, topic => '$topic')"), $name);
	is($got->{value}, $value, "$name: value");
	is($got->{headers}{'content-type'}, $type, "$name: content type");
	is($got->{key}, '8', "$name: the key is the id of the aggregate");
}
my $avro = record_of(
	sql("SELECT outbox.enqueue('customer', 8, 'changed', '\\x01'::bytea, headers => '{\"content-type\": \"avro/binary\"}', topic => '$topic')"), 'Avro');
is_deeply([ grep { $_->[0] eq 'content-type' } @{ $avro->{header_list} } ],
	[ [ 'content-type', 'avro/binary' ] ], 'bytes may bring a content type of their own');

# A value that the server stores compressed and out of line.
my $long = record_of(
	sql("SELECT outbox.enqueue('customer', 9, 'changed', json_build_object('text', repeat('long', 100000)), topic => '$topic')"), 'a long one');
is($long->{value}, '{"text" : "' . 'long' x 100000 . '"}', 'a long value');

# Without a topic, and with a route.
my $routed = unique_topic('routed');
sql("INSERT INTO outbox.route (aggregate_type, topic) VALUES ('routed', '$routed')");
sql("SELECT outbox.enqueue('routed', 1, 'made', '{}'); SELECT outbox.enqueue('invoice', 1, 'made', '{}');");
is((consume($routed, min => 1))[0]{headers}{ce_aggregatetype}, 'routed', 'a route leads to its topic');
my $invoice = sql("SELECT outbox.message_id(created_at, xid, seq) FROM outbox.message WHERE aggregate_type = 'invoice'");
is(sql("SELECT outbox.wait_until_published('$invoice', '60 s')"), 't', 'a message without topic is published');
my @invoices = grep { $_->{headers}{ce_id} eq $invoice } consume('outbox.event.invoice', min => 1);
is(scalar @invoices, 1, 'without one it goes to the topic of its type');

# 200 messages of one aggregate in one transaction, with equal timestamps.
my $many = unique_topic('many');
$node->safe_psql('postgres', <<"END");
BEGIN;
SELECT outbox.enqueue('order', '14', 'changed', to_json(n), topic => '$many') FROM generate_series(1, 100) AS n;
DO \$\$ BEGIN FOR n IN 101 .. 200 LOOP
	PERFORM outbox.enqueue('order', '14', 'changed', to_json(n), topic => '$many'); END LOOP; END \$\$;
COMMIT;
END
my @many = consume($many, min => 200);
is(join(' ', map { $_->{value} } @many), join(' ', 1 .. 200), '200 messages of a transaction arrive in order');
is(scalar(keys %{ { map { $_->{partition} => 1 } @many } }), 1, 'in one partition');
my @sequences = map { $_->{headers}{ce_sequence} } @many;
is(join(' ', sort { $a <=> $b } @sequences), "@sequences", 'ce_sequence rises');
is(scalar(keys %{ { map { $_ => 1 } @sequences } }), 200, 'and is different for each');

$node->stop;
done_testing();
