# Databases that are not in UTF-8: what Kafka gets is UTF-8, and what has no
# form in UTF-8 is refused when it is enqueued, never later.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use OutboxTest::Load;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = outbox_node('main', init => [ '--locale=C', '--encoding=UTF8' ]);
my $drained = q{SELECT outbox.wait_until_drained('120 s')};

sub sql
{
	my ($db, $query) = @_;
	return $node->safe_psql($db, $query);
}

# A text as the database has it, made of bytes
sub text
{
	my ($bytes, $encoding) = @_;
	my $hex = unpack('H*', $bytes);
	return "convert_from('\\x$hex', '$encoding')";
}

# Text in the database's encoding, and the same in UTF-8. JSON has the text in
# it, too.
my @databases = (
	[ 'latin1', 'LATIN1', "caf\xe9 \xfc\xdf\xd1",   "caf\xc3\xa9 \xc3\xbc\xc3\x9f\xc3\x91" ],
	[ 'eucjp',  'EUC_JP', "\xc6\xfc\xcb\xdc\x8f\xb0\xa1 A", "\xe6\x97\xa5\xe6\x9c\xac\xe4\xb8\x82 A" ],
	[ 'utf8',   'UTF8',   "\xc3\xa9\xe6\x97\xa5",   "\xc3\xa9\xe6\x97\xa5" ]);

foreach my $database (@databases)
{
	my ($db, $encoding, $local, $utf8) = @$database;
	sql('postgres', "CREATE DATABASE $db ENCODING '$encoding' TEMPLATE template0");
	sql($db,        'CREATE EXTENSION outbox');
	my $topic = create_topic(unique_topic($db), 7);
	my $t     = text($local, $encoding);

	# Each way in, and each field
	my @ids = split /\n/, sql($db, <<"END");
SELECT outbox.start($t);
SELECT outbox.enqueue($t, $t, $t, ('{"k": "' || $t || '"}')::json, jsonb_build_object($t, $t), '$topic');
SELECT outbox.enqueue($t, $t, $t, jsonb_build_object('k', $t), NULL, '$topic', key => 'x' || $t);
SELECT outbox.enqueue($t, $t, $t, convert_to($t, '$encoding'), NULL, '$topic', key => 'y' || $t);
SELECT unnest(outbox.enqueue_batch(json_build_array(json_build_object('aggregate_type', $t, 'aggregate_id', 'z' || $t,
	'event_type', $t, 'payload', json_build_object('k', $t), 'topic', '$topic'))));
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, payload, topic, headers)
VALUES ($t, 'i' || $t, $t, ('{"k": "' || $t || '"}')::json, '$topic', jsonb_build_object($t, $t));
END
	shift @ids;
	is(scalar @ids, 4, "$db: texts are taken");
	is(sql($db, $drained), 't', "$db: and published");
	my %record;
	$record{ $_->{key} } = $_ foreach consume($topic, min => 5);
	is(join(' ', sort keys %record), join(' ', sort map { "$_$utf8" } '', qw(x y z i)), "$db: keys are UTF-8");

	# Where PostgreSQL writes jsonb it puts a blank after a colon.
	my %value = (
		''  => qq({"k": "$utf8"}),
		'x' => qq({"k": "$utf8"}),
		'y' => $local,
		'z' => qq({"k" : "$utf8"}),
		'i' => qq({"k": "$utf8"}));
	foreach my $prefix (sort keys %value)
	{
		my $r = $record{"$prefix$utf8"};
		is($r->{value}, $value{$prefix}, "$db: value of '$prefix': JSON in UTF-8, bytes as they are");
		is($r->{headers}{ce_type},          $utf8, "$db: ce_type of '$prefix'");
		is($r->{headers}{ce_aggregatetype}, $utf8, "$db: ce_aggregatetype of '$prefix'");
		is($r->{headers}{ce_source},        $utf8, "$db: ce_source of '$prefix'");
		is($r->{headers}{ce_subject}, $prefix =~ /[zi]/ ? "$prefix$utf8" : $utf8, "$db: ce_subject of '$prefix'");
		is($r->{headers}{$utf8}, $prefix =~ /^i?$/ ? $utf8 : undef, "$db: header of '$prefix'");
		is($r->{partition}, (OutboxTest::Load::murmur2("$prefix$utf8") & 0x7fffffff) % 7,
			"$db: the partition of '$prefix' is that of the key in UTF-8");
	}
	my ($lane) = sql($db, "SELECT DISTINCT lane FROM outbox.message WHERE aggregate_id = $t AND key IS NULL");
	is(sql($db, "SELECT outbox.message_lane($t)"), $lane, "$db: message_lane() is the lane of the message");
	is(sql('utf8', "SELECT outbox.message_lane(" . text($utf8, 'UTF8') . ')'), $lane, 'the same in each encoding')
	  if $db eq 'utf8';

	# The limit counts the bytes that are sent.
	my ($status, undef, $error) = $node->psql($db, <<"END");
SET outbox.max_message_bytes = 2048;
SELECT outbox.enqueue('t', '1', 'e', to_json(repeat($t, @{[ int(2048 / length $local) - 1 ]})), topic => '$topic');
END
	if (length $utf8 > length $local)
	{
		ok($status != 0 && $error =~ /message is too large/, "$db: what is too large in UTF-8 is too large");
	}
	else
	{
		is($status, 0, "$db: what is not too large is taken");
	}
}

# What has no form in UTF-8: in every field and on every way in. In EUC_JP
# these are two bytes that are well formed and stand for nothing; SQL_ASCII
# takes any bytes.
sql('postgres', q{CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0});
sql('ascii',    'CREATE EXTENSION outbox');
foreach my $case ([ 'eucjp', "\xa9\xa1" ], [ 'ascii', "\xff" ])
{
	my ($db, $bytes) = @$case;
	my $topic = create_topic(unique_topic('refused'), 1);
	my $bad = "E'" . join('', map { sprintf '\\x%02x', ord } split //, $bytes) . "'";
	my %enqueue = (
		aggregate_type => "SELECT outbox.enqueue($bad, '1', 'e', '{}', topic => '$topic')",
		aggregate_id   => "SELECT outbox.enqueue('t', $bad, 'e', '{}', topic => '$topic')",
		'aggregate_id beside a key' => "SELECT outbox.enqueue('t', $bad, 'e', '{}', topic => '$topic', key => 'k')",
		event_type                  => "SELECT outbox.enqueue('t', '1', $bad, '{}', topic => '$topic')",
		key                         => "SELECT outbox.enqueue('t', '1', 'e', '{}', topic => '$topic', key => $bad)",
		topic                       => "SELECT outbox.enqueue('t', '1', 'e', '{}', topic => '$topic' || $bad)",
		json       => "SELECT outbox.enqueue('t', '1', 'e', to_json($bad\::text), topic => '$topic')",
		jsonb      => "SELECT outbox.enqueue('t', '1', 'e', to_jsonb($bad\::text), topic => '$topic')",
		'json key' => "SELECT outbox.enqueue('t', '1', 'e', json_build_object($bad\::text, 1), topic => '$topic')",
		'text'     => "SELECT outbox.enqueue('t', '1', 'e', ('[\"' || $bad || '\"]')::text, topic => '$topic')",
		'name of a header' =>
		  "SELECT outbox.enqueue('t', '1', 'e', '{}', headers => jsonb_build_object($bad\::text, 1), topic => '$topic')",
		'header' =>
		  "SELECT outbox.enqueue('t', '1', 'e', '{}', headers => jsonb_build_object('h', $bad\::text), topic => '$topic')",
		'a batch' => "SELECT outbox.enqueue_batch(json_build_array(json_build_object('aggregate_type', 't', 'aggregate_id',
			'1', 'event_type', $bad\::text, 'payload', 1, 'topic', '$topic')))",
		'a plain INSERT' => "INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, topic, key)
			VALUES ('t', '1', $bad, '$topic', 'k')",
		'the source' => "SELECT outbox.start($bad)");

	sql($db, "SELECT outbox.enqueue('t', '1', 'e', '{}', topic => '$topic')");
	is(sql($db, $drained), 't', "$db: publishes");
	foreach my $field (sort keys %enqueue)
	{
		my ($status, undef, $error) = $node->psql($db, "$enqueue{$field}");
		isnt($status, 0, "$db: a character without a form in UTF-8 is refused in $field");
		like($error, qr/has no equivalent in encoding "UTF8"|invalid byte sequence for encoding "UTF8"|Kafka|topic/,
			"$db: by its name ($field)");
	}
	sql($db, "SELECT outbox.enqueue('t', '1', 'e', '\\xff'::bytea, topic => '$topic')");
	is(sql($db, $drained), 't', "$db: the relay is not held up");
	is(scalar consume($topic, min => 2), 2, "$db: bytes are bytes");
}

# Names of databases are in no encoding in particular.
{
	my $bytes = "caf\xe9";
	sql('latin1', "SET client_encoding = 'LATIN1'; CREATE DATABASE \"$bytes\" ENCODING 'EUC_JP' TEMPLATE template0");
	sql($bytes, 'CREATE EXTENSION outbox');
	my $topic = create_topic(unique_topic('name'), 1);
	sql($bytes, "SELECT outbox.enqueue('t', '1', 'e', '{}', topic => '$topic')");
	my ($record) = consume($topic, min => 1);
	like($record->{headers}{ce_source}, qr/^database-\w+$/, 'a database with an alien name publishes');
}

done_testing();
