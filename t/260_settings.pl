# Settings that running workers follow, refused configurations, and a server
# without the library.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use OutboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $shared  = shared_brokers();
my $drained = q{SELECT outbox.wait_until_drained('120 s')};

# A server that does not know of any broker, with retries that come soon
my $node = outbox_node('main', brokers => '', conf => "outbox.retry_cap = '1 s'\n");

sub sql
{
	my ($db, $query) = @_;
	return $node->safe_psql($db, $query);
}

sub database
{
	my ($db) = @_;
	sql('postgres', "CREATE DATABASE $db");
	sql($db,        'CREATE EXTENSION outbox');
	return;
}

sub enqueue
{
	my ($db, $topic) = @_;
	return sql($db, "SELECT outbox.enqueue('order', '1', 'created', '{}', topic => '$topic')");
}

sub set_in
{
	my ($db, $setting) = @_;
	sql('postgres', "ALTER DATABASE $db SET $setting");
	return;
}

# As set_in, and the worker that knows of it is there.
sub restarts_for
{
	my ($db, $setting) = @_;
	my $worker = "FROM pg_stat_activity WHERE datname = '$db' AND backend_type = 'outbox worker'";
	my $pid = sql('postgres', "SELECT pid $worker");
	set_in($db, $setting);
	return $node->poll_query_until('postgres', "SELECT count(*) = 1 AND min(pid) <> $pid $worker");
}

sub health
{
	my ($db, $check) = @_;
	return sql($db, qq{SELECT status || ': ' || coalesce(advice, '') FROM outbox.health() WHERE "check" = '$check'});
}

sub in_topic
{
	my ($topic, @options) = @_;
	return map { $_->{headers}{ce_id} } consume($topic, @options);
}

sub reload
{
	my ($setting) = @_;
	sql('postgres', "ALTER SYSTEM SET $setting");
	$node->reload;
	return;
}

# Without brokers the relay idles; a setting of the database wakes it up, and
# another one sends it to another broker.
{
	my $other = own_broker();
	my ($first, $second) = map { unique_topic($_) } qw(first second);
	database('follow');
	my $a = enqueue('follow', $first);
	ok($node->poll_query_until('follow', 'SELECT workers = 1 AND lanes_owned = 0 FROM outbox.stat'),
		'a worker without brokers takes no lane');
	is(sql('follow', 'SELECT producers FROM outbox.stat'), '0', 'and makes no producer');
	like(health('follow', 'configuration'), qr/^critical: .*kafka_bootstrap_servers/, 'health() says what to set');

	set_in('follow', "outbox.kafka_bootstrap_servers = '$shared'");
	is_deeply([ in_topic($first, min => 1) ], [$a], 'a running worker follows ALTER DATABASE');
	like(health('follow', 'configuration'), qr/^ok/, 'and health() agrees');

	is(sql('follow', $drained), 't', 'nothing is left');
	ok(restarts_for('follow', sprintf q{outbox.kafka_bootstrap_servers = '%s'}, $other->brokers), 'a worker takes over');
	my $b = enqueue('follow', $second);
	is_deeply([ in_topic($second, min => 1, brokers => $other->brokers) ], [$b], 'to another broker, too');
	is_deeply([ in_topic($second) ], [], 'which alone has it');
	is_deeply([ in_topic($first, brokers => $other->brokers) ], [], 'and nothing of what was sent before');

	# One that can be told by its effect: each message is a batch of its own.
	ok(restarts_for('follow', "outbox.kafka_bootstrap_servers = '$shared'"), 'and back');
	ok(restarts_for('follow', 'outbox.batch_size = 1'), 'with another size of batches');
	my @ids = split /\n/, sql('follow', <<"END");
SELECT outbox.enqueue('order', '1', 'created', '{}', topic => '$first') FROM generate_series(1, 50)
END
	is_deeply([ in_topic($first, min => 51) ], [ $a, @ids ], 'batches of one');
	$other->stop;
}

# A new reading of unchanged settings changes nothing.
{
	my $made = sql('follow', 'SELECT producers FROM outbox.stat');
	my $pid  = sql('follow', 'SELECT min(worker_pid) FROM outbox.lane');
	$node->reload for 1 .. 3;
	enqueue('follow', unique_topic('reload'));
	is(sql('follow', $drained), 't', 'the relay goes on through reloads');
	is(sql('follow', 'SELECT producers FROM outbox.stat'), $made, 'with its producer');
	is(sql('follow', 'SELECT min(worker_pid) FROM outbox.lane'), $pid, 'and its worker');
	ok(!$node->log_contains('configuration has changed'), 'without a word');
}

# On and off, for a database and for the server
foreach my $way ('database', 'server')
{
	my $topic = unique_topic($way);
	my $set   = sub {
		return reload("outbox.enabled = $_[0]") if $way eq 'server';
		sql('postgres', 'ALTER DATABASE follow ' . ($_[0] eq 'on' ? 'RESET outbox.enabled' : 'SET outbox.enabled = off'));
	};
	$set->('off');
	ok($node->poll_query_until('follow', 'SELECT lanes_owned = 0 FROM outbox.stat'), "off for the $way: no lane is taken");
	my $id = enqueue('follow', $topic);
	is(sql('follow', "SELECT outbox.wait_until_published('$id', '0.5 s')"), 'f', "off for the $way: messages wait");
	like(health('follow', 'enabled'), qr/^warn: .*outbox\.enabled/, "off for the $way: health() says so");
	is_deeply([ in_topic($topic) ], [], "off for the $way: nothing comes out");
	$set->('on');
	is(sql('follow', "SELECT outbox.wait_until_published('$id', '60 s')"), 't', "on for the $way: they go");
	is_deeply([ in_topic($topic, min => 1) ], [$id], "on for the $way: once");
}

# The identity tells a server from its copies.
{
	my $topic = unique_topic('identity');
	my $held  = sub {
		my ($what) = @_;
		ok($node->poll_query_until('follow', 'SELECT lanes_owned = 0 FROM outbox.stat'), "$what: no lane is taken");
		my $id = enqueue('follow', $topic);
		is(sql('follow', "SELECT outbox.wait_until_published('$id', '0.5 s')"), 'f', "$what: messages are held");
		like(health('follow', 'identity'), qr/^critical: .*outbox\.start/, "$what: health() says what to do");
		return $id;
	};
	reload("outbox.identity = 'here'");
	my $a = $held->('a database that remembers none');
	sql('follow', 'SELECT outbox.start()');
	is(sql('follow', "SELECT outbox.wait_until_published('$a', '60 s')"), 't', 'outbox.start() lets them go');
	reload("outbox.identity = 'there'");
	my $b = $held->('another server');
	reload("outbox.identity = 'here'");
	is(sql('follow', "SELECT outbox.wait_until_published('$b', '60 s')"), 't', 'the right one sends them');
	is_deeply([ in_topic($topic, min => 2) ], [ $a, $b ], 'each once');

	database('fresh');
	set_in('fresh', "outbox.kafka_bootstrap_servers = '$shared'");
	my $c = enqueue('fresh', unique_topic('identity'));
	ok($node->poll_query_until('fresh', q{SELECT identity = 'here' FROM outbox.instance}),
		'a fresh database remembers the identity');
	is(sql('fresh', "SELECT outbox.wait_until_published('$c', '60 s')"), 't', 'and publishes');
	sql('postgres', 'ALTER SYSTEM RESET outbox.identity');
	$node->reload;
	$c = enqueue('fresh', unique_topic('identity'));
	is(sql('fresh', "SELECT outbox.wait_until_published('$c', '60 s')"), 't', 'where none is set, none is asked for');
}

# The file with further properties, which may be secrets
{
	my $file   = $node->data_dir . '/kafka.conf';
	my $secret = 'TopSecret4711';
	my $topic  = unique_topic('file');
	my $sent   = 0;
	my $write  = sub {
		my ($text, $mode) = @_;
		unlink $file;
		append_to_file($file, $text) if defined $text;
		chmod $mode // 0600, $file;
	};
	my $works = sub {
		my ($what) = @_;
		my $id = enqueue('follow', $topic);
		is(sql('follow', "SELECT outbox.wait_until_published('$id', '60 s')"), 't', "$what: published");
		is(scalar in_topic($topic, min => ++$sent), $sent, "$what: once");
	};
	my $told = sub {
		my ($what, $status, $words, $last) = @_;
		ok($node->poll_query_until('follow', <<"END"), "$what: health() is $status");
SELECT status = '$status' FROM outbox.health() WHERE "check" = 'configuration'
END
		like(health('follow', 'configuration'), $words, "$what: and has the reason");
		like(sql('follow', 'SELECT last_error FROM outbox.stat'), $last // $words, "$what: outbox.stat has it");
	};

	# A producer that is there goes on; a new worker cannot make one.
	my $refused = sub {
		my ($what, $words, $status) = @_;
		my $from = -s $node->logfile;
		$node->reload;
		$told->($what, $status // 'warn', $words);
		ok($node->wait_for_log($words, $from), "$what: the log has it");
		$works->("$what: as before") if !$status;
	};

	$write->("# a comment\n\nsasl.username=me\nsasl.password=$secret\n");
	reload("outbox.kafka_config_file = 'kafka.conf'");
	$works->('with a file');
	$write->("sasl.username=me\nsasl.password=$secret\nclient.id=mine\n");
	my $made = sql('follow', 'SELECT producers FROM outbox.stat');
	$node->reload;
	ok($node->poll_query_until('follow', "SELECT producers > $made FROM outbox.stat"), 'a changed file makes a new producer');
	$works->('with a changed file');

	$write->("sasl.password=$secret\nacks=0\n");
	$refused->('a property that breaks a promise', qr/acks/);
	sql('follow', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = 'follow' AND backend_type = 'outbox worker'});
	$told->('a new worker', 'critical', qr/acks/);
	ok($node->poll_query_until('follow', q{SELECT bool_and(state = 'retrying' AND last_error ~ 'acks') FROM outbox.lane}),
		'outbox.lane has the reason');
	my $id = enqueue('follow', $topic);
	is(sql('follow', "SELECT outbox.wait_until_published('$id', '0.5 s')"), 'f', 'messages wait');
	$write->("sasl.password=$secret\nclient.id=mine\n");
	$node->reload;
	is(sql('follow', "SELECT outbox.wait_until_published('$id', '60 s')"), 't', 'until the file is right again');
	$sent++;
	like(health('follow', 'configuration'), qr/^ok/, 'which health() notices');
	ok($node->poll_query_until('follow', q{SELECT bool_and(state = 'running') FROM outbox.lane}), 'and outbox.lane');

	$write->("sasl.password=$secret\n", 0644);
	$refused->('a file that others can read', qr/open to others/);
	$write->("sasl.password $secret\n");
	$refused->('a line that is no property', qr/line 1/);
	$write->("no.such.property=$secret\n");
	$refused->('a property that nobody knows', qr/no\.such\.property/);
	$write->("sasl.password=$secret\nssl.ca.location=/no/such/file\nsecurity.protocol=ssl\n");
	$refused->('a property that the client cannot use', qr/ssl\.ca\.location/, 'critical');
	$write->("sasl.password=$secret\n");
	$node->reload;
	$told->('a right one', 'ok', qr/^ok: $/, qr/./);
	$write->(undef);
	$refused->('no file at all', qr/No such file/);
	$write->("sasl.password=$secret\n");
	$node->reload;
	ok($node->poll_query_until('follow', q{SELECT status = 'ok' FROM outbox.health() WHERE "check" = 'configuration'}),
		'in the end all is well');
	$works->('in the end');

	unlike(slurp_file($node->logfile), qr/\Q$secret\E/, 'the secret is in no log');
	foreach my $place ('outbox.stat', 'outbox.lane', 'outbox.health()', 'pg_stat_activity', 'pg_settings')
	{
		unlike(sql('follow', "SELECT * FROM $place"), qr/\Q$secret\E/, "nor in $place");
	}
	sql('follow', 'CREATE ROLE somebody');
	my ($status, undef, $error) = $node->psql('follow', 'SET ROLE somebody; SHOW outbox.kafka_config_file');
	isnt($status, 0, 'nor does everybody see where the file is');
	($status, undef, $error) =
	  $node->psql('follow', "SET outbox.kafka_options = 'sasl.password=$secret'", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	isnt($status, 0, 'a secret is refused outside of the file');
	unlike($error =~ s/^LINE .*//mr, qr/\Q$secret\E/, 'without repeating it');
}

# A server that was started without the library
{
	my $bare  = outbox_node('bare', preload => 0, brokers => '');
	my $topic = unique_topic('bare');
	my ($status, undef, $error) = $bare->psql('postgres', 'CREATE EXTENSION outbox');
	is($status, 0, 'without the library CREATE EXTENSION works');
	like($error, qr/NOTICE:  messages are accepted, but none is published yet.*shared_preload_libraries/s, 'and says what is missing');
	my $a = $bare->safe_psql('postgres', "SELECT outbox.enqueue('order', '1', 'created', '{}', topic => '$topic')");
	$bare->safe_psql('postgres', <<"END");
INSERT INTO outbox.message (aggregate_type, aggregate_id, event_type, topic) VALUES ('order', '1', 'inserted', '$topic');
COPY outbox.message (aggregate_type, aggregate_id, event_type, topic) FROM STDIN;
order	1	copied	$topic
\\.
END
	is($bare->safe_psql('postgres', 'SELECT count(*) FROM outbox.pending'), '3', 'messages are taken');
	like($bare->safe_psql('postgres', q{SELECT status, advice FROM outbox.health() WHERE "check" = 'preload'}),
		qr/^critical\|.*shared_preload_libraries/, 'health() says that none is published');
	is($bare->safe_psql('postgres', 'SELECT outbox.healthy()'), 'f', 'it is not healthy');
	is($bare->safe_psql('postgres', "SELECT outbox.wait_until_published('$a', '0 s')"), 'f', 'waiting is in vain');
	is($bare->safe_psql('postgres', "SELECT outbox.wait_until_drained('0 s')"), 'f', 'for all, too');
	is($bare->safe_psql('postgres', 'SELECT workers FROM outbox.stat'), '', 'outbox.stat is empty');
	is($bare->psql('postgres', 'CALL outbox.maintain()'), 0, 'maintenance works');
	is($bare->psql('postgres', 'SELECT outbox.start()'), 0, 'so does outbox.start()');

	$bare->append_conf('postgresql.conf',
		"shared_preload_libraries = 'outbox'\noutbox.kafka_bootstrap_servers = '$shared'\n");
	$bare->restart;
	is($bare->safe_psql('postgres', $drained), 't', 'with the library they go out');
	my @records = consume($topic, min => 3);
	is(join(' ', map { $_->{headers}{ce_type} } @records), 'created inserted copied', 'all, in their order');
	is($bare->safe_psql('postgres', 'SELECT outbox.healthy()'), 't', 'and all is well');
}

done_testing();
