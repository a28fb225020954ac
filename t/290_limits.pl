# Numbers past 2^31 and 2^53, and payloads at the edge, through to Kafka.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node    = outbox_node('main', extension => 1);
my $drained = q{SELECT outbox.wait_until_drained('120 s')};

sub sql { return $node->safe_psql('postgres', $_[0]); }

# The sequence passes numbers at which narrower types and JSON end.
my $topic = create_topic(unique_topic('seq'), 3);
my @expected;
foreach my $bits (31, 32, 48, 53)
{
	my $edge = sql("SELECT (2::numeric ^ $bits)::bigint");
	sql("SELECT setval('outbox.message_seq', $edge - 3)");
	sql("SELECT outbox.enqueue('order', '1', 'created', '{}', topic => '$topic') FROM generate_series(1, 5)");
	push @expected, map { sql("SELECT $edge + $_") } -2 .. 2;
	is(sql($drained), 't', "messages about 2^$bits are published");
}

# A large difference is walked in parts: also there.
sql(<<"END");
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, topic)
SELECT 'order', '1', 'created', '$topic' FROM generate_series(1, 2500)
END
push @expected, map { sql("SELECT (2::numeric ^ 53)::bigint + 2 + $_") } 1, 2500;
my $last = '9223372036854775807';
sql("SELECT setval('outbox.message_seq', $last - 3)");
sql("SELECT outbox.enqueue('order', '1', 'created', '{}', topic => '$topic') FROM generate_series(1, 3)");
push @expected, map { sql("SELECT $last - $_") } 2, 1, 0;
is(sql($drained), 't', 'messages up to the last number are published');
my ($status, undef, $error) =
  $node->psql('postgres', "SELECT outbox.enqueue('order', '1', 'created', '{}', topic => '$topic')");
ok($status != 0 && $error =~ /reached maximum value of sequence/, 'the one after it is refused');

my @records = consume($topic, min => 2523);
is(scalar @records, 2523, 'all arrive, once');
my @numbers = map { $_->{headers}{ce_sequence} } @records;
is(join(' ', @numbers[ 0 .. 20, 2519 .. 2522 ]), join(' ', @expected), 'ce_sequence is exact, and in order');
my %ids = map { $_->{headers}{ce_id} => 1 } @records;
is(scalar keys %ids, 2523, 'the ids are distinct');
is(sql('SELECT status, count(*) FROM outbox.delivery GROUP BY 1'), 'SENT|2523', 'all are SENT');
is(sql('SELECT outbox.healthy()'), 't', 'all is well');
my $record = $records[19];
is(sql("SELECT status, topic FROM outbox.locate('$record->{headers}{ce_id}')"), "SENT|$topic",
	'a message past 2^53 is found by its id');
is(sql("SELECT seq FROM outbox.delivery WHERE id = '$record->{headers}{ce_id}'"), $record->{headers}{ce_sequence},
	'with its number');
sql("SELECT setval('outbox.message_seq', 9007199254741000)");
is(sql(<<"END"), '9007199254741002', 'enqueue_batch() goes on from there');
SELECT max(seq) FROM outbox.delivery WHERE id = ANY (outbox.enqueue_batch(json_build_array(
	json_build_object('aggregate_type', 'order', 'aggregate_id', '2', 'event_type', 'e', 'topic', '$topic', 'payload', 1),
	json_build_object('aggregate_type', 'order', 'aggregate_id', '2', 'event_type', 'e', 'topic', '$topic', 'payload', 2))))
	OR seq BETWEEN 9007199254741001 AND 9007199254741002
END

# Payloads, byte for byte
$topic = create_topic(unique_topic('payload'), 3);
my $all = join '', map { chr } 0 .. 255;
my %hex = (all => unpack('H*', $all), nul => '00', invalid => 'c328a0ff', bom => 'efbbbf7b7d');
my %value = (
	'sql null'                  => [ 'NULL::json',            undef ],
	'null text'                 => [ 'NULL::text',            undef ],
	'null jsonb'                => [ 'NULL::jsonb',           undef ],
	'null bytes'                => [ 'NULL::bytea',           undef ],
	'json null'                 => [ q{'null'::json},         'null' ],
	'jsonb null'                => [ q{'null'::jsonb},        'null' ],
	'text null'                 => [ q{'null'},               'null' ],
	'empty bytes'               => [ q{''::bytea},            '' ],
	'empty string'              => [ q{'""'::json},           '""' ],
	'json \u0000'               => [ q{'{"a":"\u0000"}'::json}, '{"a":"\u0000"}' ],
	'text \u0000'               => [ q{'["\u0000"]'},         '["\u0000"]' ],
	'json lone surrogate'       => [ q{'["\ud800"]'::json},   '["\ud800"]' ],
	'text lone surrogate'       => [ q{'["x\udc00y"]'},       '["x\udc00y"]' ],
	'json surrogates reversed'  => [ q{'["\udc00\ud800"]'::json}, '["\udc00\ud800"]' ],
	'json pair'                 => [ q{'["\ud83d\ude00"]'::json}, '["\ud83d\ude00"]' ],
	'json with blanks'          => [ qq{' { "b" : 1,\n\t"a" : [ ] , "b":2 } '::json}, qq( { "b" : 1,\n\t"a" : [ ] , "b":2 } ) ],
	'json numbers'              => [ q{'[1e400, -0, 1.0, 12345678901234567890]'::json}, '[1e400, -0, 1.0, 12345678901234567890]' ],
	'jsonb numbers'             => [ q{'[12345678901234567890.10]'::jsonb}, '[12345678901234567890.10]' ],
	'jsonb pair'                => [ q{'["\ud83d\ude00"]'::jsonb}, qq(["\xf0\x9f\x98\x80"]) ],
	(map { ("bytes $_" => [ "'\\x$hex{$_}'::bytea", pack('H*', $hex{$_}) ]) } keys %hex));
my $n = 0;
my %key;
foreach my $what (sort keys %value)
{
	my $key = 'k' . $n++;
	$key{$key} = $what;
	sql("SELECT outbox.enqueue('t', '$key', 'e', $value{$what}[0], topic => '$topic')");
	sql("SELECT outbox.enqueue_json('t', 'json $key', 'e', $value{$what}[0], topic => '$topic')")
	  if $value{$what}[0] =~ /::json$/;
	sql("SELECT outbox.enqueue_bytes('t', 'bytes $key', 'e', $value{$what}[0], topic => '$topic')")
	  if $value{$what}[0] =~ /::bytea$/;
	my ($column) = $value{$what}[0] =~ /::bytea$/ ? 'payload_bytes' : 'payload';
	next if $value{$what}[0] =~ /::(jsonb|text)$/;
	sql("INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, topic, $column)
		VALUES ('t', 'insert $key', 'e', '$topic', $value{$what}[0])");
}
is(sql($drained), 't', 'payloads at the edge are published');
my $count = sql("SELECT count(*) FROM outbox.message WHERE topic = '$topic'");
my @payloads = consume($topic, min => $count);
is(scalar @payloads, $count, 'all arrive');
foreach my $payload (sort { $a->{key} cmp $b->{key} } @payloads)
{
	my ($way, $key) = $payload->{key} =~ /^(?:(\w+) )?(k\d+)$/;
	is($payload->{value}, $value{ $key{$key} }[1], join(' by ', $key{$key}, $way // ()) . ': as it was given');
	is(!!$payload->{tombstone}, !defined $value{ $key{$key} }[1], 'a tombstone or not');
}

# What cannot be carried is refused at once.
my %refused = (
	'\u0000 in jsonb'          => [ q{'["\u0000"]'::jsonb},      '22P05|22P02' ],
	'a lone surrogate in jsonb' => [ q{'["\ud800"]'::jsonb},     '22P02' ],
	'an empty text'            => [ q{''},                       '22P02' ],
	'an open bracket'          => [ q!'{"a":'!,                  '22P02' ],
	'invalid UTF-8 in text'    => [ qq{E'["\\xff"]'},            '22021' ]);
foreach my $what (sort keys %refused)
{
	($status, undef, $error) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT outbox.enqueue('t', '1', 'e', $refused{$what}[0], topic => '$topic');");
	ok($status != 0 && $error =~ /ERROR:  ($refused{$what}[1]): /, "$what is refused") or diag($error);
}
is(sql("SELECT count(*) FROM outbox.message WHERE topic = '$topic'"), $count, 'and nothing of it is left');

done_testing();
