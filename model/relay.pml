/*
 * relay.pml
 *		The relay's protocol: what is read, sent, acknowledged and recorded,
 *		by whom, and what a crash leaves of it.
 *
 * README.md tells what is modelled and how to run it.  Each d_step is one
 * atomic action; what may come between two actions of the C code and matter is
 * a step of its own.  Where the C code has a function for it, the step has its
 * name in the comment.
 *
 * Sets are bit masks: of messages, of transactions, of lanes, of workers, of
 * xids (bit x is xid x).  A snapshot and a progress are sets of xids.  Spin
 * replaces the parameters of an inline textually, hence the capitals, and a
 * loop must not be the last thing in a d_step.
 */

/* ----------------------------------------------------------------------
 * Bounds
 * ---------------------------------------------------------------------- */

#ifndef NTX
#define NTX 3 /* transactions that enqueue, a message each */
#endif
#ifndef EXTRA
#define EXTRA 0 /* so many of them, the first ones, enqueue a second one */
#endif
#ifndef KEYS
#define KEYS 0 /* messages with key 1; the others have key 0 */
#endif
#ifndef EARLY
#define EARLY 1 /* transactions that may take their xid before they lock */
#endif
#ifndef PREPARED
#define PREPARED 0 /* transactions that may be prepared */
#endif
#ifndef NLANES
#define NLANES 1 /* with two, each key has its own */
#endif
#ifndef NWORKERS
#define NWORKERS 1
#endif
#ifndef CRASHES
#define CRASHES 0 /* of the server */
#endif
#ifndef EXITS
#define EXITS 0 /* of worker 0 alone, without a record */
#endif
#ifndef RENEWALS
#define RENEWALS 0 /* of worker 0's producer, with messages in flight */
#endif
#ifndef MOVES
#define MOVES 0 /* changes of who should own lane 0 */
#endif
#ifndef REWRITES
#define REWRITES 0 /* 1: an ALTER TABLE rewrites leaf 0 */
#endif
#ifndef LEAVES
#define LEAVES 1 /* 2: a second leaf is attached at some time */
#endif
#ifndef CLOSING
#define CLOSING 0 /* 1: after that the first one is closed */
#endif
#ifndef HORIZON
#define HORIZON 0 /* 1: below a border, commits are known to be durable */
#endif
#ifndef INSTALL
#define INSTALL 0 /* 1: transaction 0 creates the extension */
#endif
#ifndef BATCH
#define BATCH 2 /* outbox.batch_size */
#endif
#ifndef COLLECT
#define COLLECT 2 /* so many entries does a walk give out at once */
#endif
#ifndef TAIL
#define TAIL 3 /* records of the WAL that may be not yet on disk */
#endif
#ifndef WITNESS
#define WITNESS 0
#endif

#define NKEYS 2
#define NMSG (NTX + EXTRA)
#define NT (NTX + REWRITES) /* the last one is the ALTER TABLE */
#define DDL NTX

#define BIT(x) (1 << (x))
#define HAS(set, x) (((set) >> (x)) & 1)

/* Message m belongs to transaction m, and the extra ones to 0, 1, ... */
#define TX(m) ((m) < NTX -> (m) : (m) - NTX)
#define MSGS(t) \
	((t) == NTX -> 0 : BIT(t) | ((t) < EXTRA -> BIT((t) + NTX) : 0))
#define KEY(m) HAS(KEYS, m)
#define ALL (BIT(NMSG) - 1)
#define OF_KEY(k) ((k) == 1 -> KEYS : ALL & ~KEYS)
#if NLANES == 1
#define LANE(k) 0
#define OF_LANE(l) ALL
#else
#define LANE(k) (k)
#define OF_LANE(l) OF_KEY(l)
#endif

/* ----------------------------------------------------------------------
 * State of the database
 * ---------------------------------------------------------------------- */

#define IDLE 0
#define OPEN 1	 /* has an xid, is in progress */
#define LOGGED 2 /* its commit record is written, nobody sees it yet */
#define COMMITTED 3
#define ABORTED 4
#define PENDING 5 /* prepared: in progress, also after a crash */

byte tx[NT];
byte xid[NT];
byte next_xid = 1;
byte durable_xid = 1; /* next_xid of the last recovery */
byte two_phase;		  /* transactions that were prepared */

/*
 * The completed xids.  Every snapshot that is taken now sees exactly these: an
 * xid above the highest completed one is in the future, one below that is not
 * among them is in progress.
 */
byte ended;

byte rows; /* in the log, whatever became of their transactions */
byte held; /* those of transactions in progress, with their keys' locks */
byte seq[NMSG];
byte next_seq = 1;

byte second_leaf; /* rows that are in the second leaf */
bool attached;	  /* there is a second leaf */
byte rewritten;	  /* rows that belong to the ALTER TABLE now */
bool exclusive;	  /* it holds its lock on leaf 0 */
#if CLOSING
bool closed;   /* leaf 0 takes no more rows */
byte close_at; /* all that it holds is below this xid; 0 = not known */
#endif

/*
 * The end of the WAL that a crash may lose, oldest first: the end of a
 * transaction (1 + t), or a row of the ledger (LEDGER + lane).  All commits
 * are asynchronous ones: where a crash cuts is free, so any of them may have
 * been flushed.
 */
#define LEDGER 16

byte wal_length;
byte wal_kind[TAIL];
byte wal_then[TAIL];
byte wal_target[TAIL];
byte wal_last[TAIL];

/* The ledger on disk.  Target 0 = none: outside a walk. */
byte disk_then[NLANES];
byte disk_target[NLANES];
byte disk_last[NLANES];

/* ----------------------------------------------------------------------
 * State of the relay
 * ---------------------------------------------------------------------- */

/* Shared memory. */
byte owner[NLANES]; /* 1 + worker, 0 = free */
byte wake;			/* lanes that a commit has marked */
byte home;			/* lanes that worker 1 should own, not worker 0 */

/* A lane in its owner's memory. */
byte then[NLANES];
byte target[NLANES];
byte last[NLANES];
byte entries[NLANES]; /* collected, not yet passed by the progress */
byte flying[NLANES];  /* sent, not acknowledged */
byte arrived[NLANES]; /* of these, stored by the broker */
byte done[NLANES];	  /* acknowledged or never committed, not yet passed */
byte dirty;			  /* these four are sets of lanes */
byte wanted;
byte complete;	/* the difference has no more than the entries */
byte displaced; /* the entries' places are those before the rewrite */

/* A worker does one thing at a time; a read takes it several steps. */
#define RESTING 0
#define TAKING 1
#define UNLOCKED 2 /* has a snapshot, but no locks: a fault */
#define LOCKED 3
#define READING 4

byte phase[NWORKERS];
byte lane[NWORKERS]; /* that the phase is about */
byte snapshot[NWORKERS];
byte listed; /* workers that know of the second leaf */
#if HORIZON
byte horizon[NWORKERS]; /* xids below are durable; 0 = not known */
byte moved;				/* workers that have moved it in the open read */
#endif

/* ----------------------------------------------------------------------
 * The broker, and what the checks remember
 * ---------------------------------------------------------------------- */

byte delivered;
byte late;		 /* may still arrive from a producer that is gone */
byte may_repeat; /* was not recorded in time, so may be sent again */

byte crashes = CRASHES;
byte exits = EXITS;
byte renewals = RENEWALS;
byte moves = MOVES;

/* The promises, named for the message that Spin prints. */
hidden byte nothing_lost, no_phantom, order_kept, no_duplicate;

#define CHECK(what, condition) \
	what = (condition); \
	assert(what)

/*
 * Situations that the correct model has to come to, or its checks would say
 * little: Spin must find the one that WITNESS names.
 */
#define REPEATED 1		   /* a message is sent again after a crash */
#define OVERTAKEN 2		   /* a gone producer's request comes after another's */
#define COMMITTED_LATE 3   /* a lower seq of a lane goes after a higher one */
#define CONTINUED 4		   /* a lane changes hands in the middle of a walk */
#define FORGOTTEN 5		   /* a commit that others saw is lost */
#define REISSUED 6		   /* an xid is issued again */
#define PARTIAL 7		   /* a collection leaves messages out */
#define RELISTED 8		   /* a read finds a new leaf after its snapshot */
#define MISPLACED 9		   /* rows are rewritten before they are sent */
#define SKIPPED 10		   /* acknowledged ahead of a gap, not sent again */
#define NEVER_COMMITTED 11 /* an entry of a batch turns out to be aborted */
#define OUTLIVED 12		   /* a prepared transaction is there after a crash */
#define SPARED 13		   /* a commit needs no flush, being old */
#define PASSED_BY 14	   /* a read leaves a closed leaf out */

#define REACHED(n) assert(WITNESS != n)

/* With -DTRACE a run that is replayed tells what happens. */
#ifdef TRACE
#define SAY(words) printf words;
#else
#define SAY(words)
#endif

/* Used within one step only. */
hidden byte i_, j_, k_, m_, n_, t_, best_, set_, left_, lost_;

/* A progress on its way: then, target, last. */
hidden byte a_, b_, c_;

/* ----------------------------------------------------------------------
 * Small parts
 * ---------------------------------------------------------------------- */

#ifdef BY_XID
#define ORDER(m) (xid[TX(m)] * 8 + (m))
#else
#define ORDER(m) seq[m]
#endif

/* The first message of set_ is to be m_. */
inline first()
{
	best_ = 255;
	for (i_ : 0 .. NMSG - 1) {
		if
		:: HAS(set_, i_) && ORDER(i_) < best_ -> best_ = ORDER(i_); m_ = i_
		:: else
		fi
	}
}

/* Does the progress (a, b, c) say that a message has left the log? */
#define LEFT(m, a, b, c) (HAS(a, xid[TX(m)]) || \
	((b) != 0 && HAS(b, xid[TX(m)]) && ORDER(m) <= (c)))

/* --- WAL --- */

/* The oldest record becomes durable. */
inline wal_harden()
{
	if
	:: wal_kind[0] >= LEDGER ->
		disk_then[wal_kind[0] - LEDGER] = wal_then[0];
		disk_target[wal_kind[0] - LEDGER] = wal_target[0];
		disk_last[wal_kind[0] - LEDGER] = wal_last[0]
	:: else
	fi;
	wal_length--;
	for (j_ : 0 .. TAIL - 2) {
		wal_kind[j_] = wal_kind[j_ + 1];
		wal_then[j_] = wal_then[j_ + 1];
		wal_target[j_] = wal_target[j_ + 1];
		wal_last[j_] = wal_last[j_ + 1]
	}
	wal_kind[TAIL - 1] = 0;
	wal_then[TAIL - 1] = 0;
	wal_target[TAIL - 1] = 0;
	wal_last[TAIL - 1] = 0
}

/*
 * A record with the progress (a_, b_, c_).  Where there is no room, the WAL
 * writer has been at work.
 */
inline wal_append(KIND)
{
	if
	:: wal_length == TAIL -> wal_harden()
	:: else
	fi;
	wal_kind[wal_length] = KIND;
	wal_then[wal_length] = a_;
	wal_target[wal_length] = b_;
	wal_last[wal_length] = c_;
	wal_length++
}

/* The end of a transaction. */
inline wal_end(T)
{
	a_ = 0;
	b_ = 0;
	c_ = 0;
	k_ = 1 + T;
	wal_append(k_)
}

inline wal_flush_all()
{
	do
	:: wal_length > 0 -> wal_harden()
	:: else -> break
	od
}

/* XLogFlush() of a transaction's commit */
inline wal_flush(T)
{
	n_ = 0;
	for (j_ : 0 .. TAIL - 1) {
		if
		:: wal_kind[j_] == 1 + T -> n_ = j_ + 1
		:: else
		fi
	}
	do
	:: n_ > 0 -> wal_harden(); n_--
	:: else -> break
	od
}

/* What is before the cut is on disk, the rest never was. */
inline wal_cut(CUT)
{
	n_ = wal_length - CUT;
	do
	:: n_ > 0 ->
		wal_length--;
		wal_kind[wal_length] = 0;
		wal_then[wal_length] = 0;
		wal_target[wal_length] = 0;
		wal_last[wal_length] = 0;
		n_--
	:: else -> break
	od;
	wal_flush_all()
}

/* LedgerLoad(): the newest row about a lane, into (a_, b_, c_) */
inline ledger_read(L)
{
	a_ = disk_then[L];
	b_ = disk_target[L];
	c_ = disk_last[L];
	for (j_ : 0 .. TAIL - 1) {
		if
		:: wal_kind[j_] == LEDGER + L ->
			a_ = wal_then[j_];
			b_ = wal_target[j_];
			c_ = wal_last[j_]
		:: else
		fi
	}
}

/* ----------------------------------------------------------------------
 * Applications
 * ---------------------------------------------------------------------- */

inline begin(T)
{
	SAY(("transaction %d: begins, xid %d\n", T, next_xid))
	xid[T] = next_xid;
	next_xid++;
	tx[T] = OPEN
}

/* Lock the key, take the seq, insert. */
inline enqueue(M)
{
	t_ = TX(M);
	if
	:: tx[t_] == IDLE -> begin(t_)
	:: else
	fi;
	SAY(("transaction %d: enqueues message %d, key %d, seq %d\n", t_, M, KEY(M), next_seq))
	seq[M] = next_seq;
	next_seq++;
	rows = rows | BIT(M);
	held = held | BIT(M)
}

/* The end of a transaction, as others see it; then its locks go. */
inline become_visible(T, STATE)
{
	tx[T] = STATE;
	ended = ended | BIT(xid[T]);
	held = held & ~MSGS(T)
}

inline wake_up(T)
{
	for (i_ : 0 .. NMSG - 1) {
		if
		:: HAS(MSGS(T) & rows, i_) -> wake = wake | BIT(LANE(KEY(i_)))
		:: else
		fi
	}
	i_ = 0
}

/*
 * What a transaction that has an xid must not do: its own xid is not among
 * those in progress, so it counts as completed as soon as a higher one is.
 */
inline record_own_snapshot()
{
	SAY(("transaction 0: records its own snapshot\n"))
	a_ = ended | ((ended >> (xid[0] + 1)) > 0 -> BIT(xid[0]) : 0);
	b_ = 0;
	c_ = 0;
	for (n_ : 0 .. NLANES - 1) {
		k_ = LEDGER + n_;
		wal_append(k_)
	}
}

/*
 * Transactions with the same part to play are interchangeable: let them begin
 * in the order of their numbers.
 */
#define SAME(set, t) (HAS(set, t) == HAS(set, (t) - 1))
#define TURN(t) ((t) == 0 || tx[(t) - 1] != IDLE || (t) <= INSTALL || \
	(t) <= EXTRA || !SAME(KEYS, t) || !SAME(EARLY, t) || !SAME(PREPARED, t))

#ifdef NO_KEY_LOCK
#define LOCKABLE(m) true
#else
#define LOCKABLE(m) ((held & OF_KEY(KEY(m)) & ~MSGS(TX(m))) == 0)
#endif

#if INSTALL
#define INSTALLED (tx[0] == COMMITTED)
#else
#define INSTALLED true
#endif

#define MAY_ENQUEUE(t, m) ((tx[t] == OPEN || (tx[t] == IDLE && TURN(t))) && \
	!HAS(rows, m) && LOCKABLE(m) && (INSTALLED || (t) == 0))

#if LEAVES == 2
#if CLOSING
#define IS_CLOSED closed
#else
#define IS_CLOSED false
#endif
#define LEAF_FREE (attached || !exclusive)
#define NEW_LEAF(m) (attached -> BIT(m) : 0)
#else
#define LEAF_FREE !exclusive
#define NEW_LEAF(m) 0
#endif

proctype application(byte t)
{
end:
	do
	/* The xid may come long before the lock, and so before the seq. */
	:: d_step {
		tx[t] == IDLE && TURN(t) && HAS(EARLY, t) -> begin(t)
	}

	:: d_step {
		MAY_ENQUEUE(t, t) && LEAF_FREE ->
		enqueue(t);
		second_leaf = second_leaf | NEW_LEAF(t)
	}
#if LEAVES == 2
	/* Rows of other days go on into the first leaf. */
	:: d_step {
		MAY_ENQUEUE(t, t) && attached && !exclusive && !IS_CLOSED -> enqueue(t)
	}
#endif
#if EXTRA
	:: d_step {
		t < EXTRA && HAS(rows, t) && MAY_ENQUEUE(t, t + NTX) && LEAF_FREE ->
		n_ = t + NTX;
		enqueue(n_);
		second_leaf = second_leaf | NEW_LEAF(t + NTX)
	}
#endif

	:: d_step {
		tx[t] == OPEN && HAS(rows, t) ->
#ifdef OWN_SNAPSHOT
		if
		:: t == 0 -> record_own_snapshot()
		:: else
		fi;
#endif
		SAY(("transaction %d: writes its commit\n", t))
		wal_end(t);
#ifdef UNLOCK_EARLY
		held = held & ~MSGS(t);
#endif
		tx[t] = LOGGED
	}
	:: d_step {
		tx[t] == LOGGED ->
		SAY(("transaction %d: has committed for all to see\n", t))
		become_visible(t, COMMITTED);
		if
		:: !HAS(two_phase, t) -> wake_up(t)
		:: else
		fi
	}

	:: d_step {
		tx[t] == OPEN || tx[t] == PENDING ->
		SAY(("transaction %d: rolls back\n", t))
		wal_end(t);
		become_visible(t, ABORTED)
	}

#if PREPARED
	:: d_step {
		tx[t] == OPEN && HAS(PREPARED, t) && HAS(rows, t) ->
		SAY(("transaction %d: is prepared\n", t))
		wal_flush_all();
		two_phase = two_phase | BIT(t);
		tx[t] = PENDING
	}
	:: d_step {
		tx[t] == PENDING ->
		SAY(("transaction %d: COMMIT PREPARED is written\n", t))
		wal_end(t);
		tx[t] = LOGGED
	}
#endif

#if INSTALL
	/* Without the extension there is nothing to enqueue into. */
	:: d_step { tx[t] == IDLE && tx[0] == ABORTED -> tx[t] = ABORTED }
#endif
	od
}

/* --- DDL --- */

#if NWORKERS == 2
#define READERS (phase[0] >= LOCKED || phase[1] >= LOCKED)
#else
#define READERS (phase[0] >= LOCKED)
#endif

/* An ALTER TABLE that rewrites leaf 0: the rows become its own. */
proctype rewrite()
{
end:
	do
	:: d_step {
		tx[DDL] == IDLE && (held & ~second_leaf) == 0 && !READERS ->
		SAY(("ALTER TABLE: has its lock\n"))
		exclusive = true;
		begin(DDL)
	}
	:: d_step {
		tx[DDL] == OPEN -> wal_end(DDL); tx[DDL] = LOGGED
	}
	:: d_step {
		tx[DDL] == LOGGED ->
		SAY(("ALTER TABLE: has committed for all to see, and unlocks\n"))
		tx[DDL] = COMMITTED;
		ended = ended | BIT(xid[DDL]);
		rewritten = rows & ~second_leaf;
		for (i_ : 0 .. NLANES - 1) {
			displaced = displaced | (entries[i_] != 0 -> BIT(i_) : 0)
		}
		exclusive = false
	}
	:: d_step {
		tx[DDL] == OPEN ->
		SAY(("ALTER TABLE: rolls back\n"))
		wal_end(DDL);
		tx[DDL] = ABORTED;
		ended = ended | BIT(xid[DDL]);
		exclusive = false
	}
	od
}

/*
 * ATTACH PARTITION: its invalidation goes out before others can lock the leaf,
 * so before anybody has inserted into it.
 */
proctype attach()
{
end:
	do
	:: d_step {
		!attached ->
		SAY(("ATTACH PARTITION: there is a second leaf\n"))
		wal_flush_all();
		attached = true
	}
	od
}

#if CLOSING
/* The xmax of a snapshot that is taken now. */
inline find_xmax()
{
	n_ = 1;
	do
	:: (ended >> n_) != 0 -> n_++
	:: else -> break
	od
}

/*
 * close_leaf(), in two transactions: the lock of the first proves that nobody
 * has rows in the leaf that may still commit, and the second asks for xmax.
 */
proctype close()
{
	byte noted;

end:
	do
#ifdef CLOSE_AT_ONCE
	:: d_step {
		attached && noted == 0 -> find_xmax(); noted = n_
	}
#define MAY_CLOSE (noted != 0)
#else
#define MAY_CLOSE true
#endif
	:: d_step {
		attached && !closed && MAY_CLOSE && (held & ~second_leaf) == 0 &&
			!exclusive ->
		SAY(("the first leaf: takes no more rows\n"))
		wal_flush_all();
		closed = true
	}
	:: d_step {
		closed && close_at == 0 ->
		find_xmax();
		close_at = (noted != 0 -> noted : n_);
		SAY(("the first leaf: is closed at xid %d\n", close_at))
		wal_flush_all();
		noted = 0
	}
	od
}
#endif

/* ----------------------------------------------------------------------
 * A worker's work on a lane
 * ---------------------------------------------------------------------- */

/* Is an xid of the difference between two snapshots? */
#ifdef FORGET_LATE
/* As if progress were a number: whatever is below it has left the log. */
#define DIFFERS(x, a, b) (HAS(b, x) && ((a) >> (x)) == 0)
#else
#define DIFFERS(x, a, b) (HAS(b, x) && !HAS(a, x))
#endif

/* LogLeafIsPast(): is all of leaf 0 below the progress's xmin? */
#if CLOSING
#define PAST(l) (close_at != 0 && \
	((then[l] | 1) & (BIT(close_at) - 1)) == BIT(close_at) - 1)
#else
#define PAST(l) false
#endif

/*
 * WalkNext(): of the messages that b_ sees and `then` does not, with seq
 * above c_, the first COLLECT ones, and whether these are all
 */
inline collect(W, L)
{
	set_ = 0;
	for (m_ : 0 .. NMSG - 1) {
		if
		:: HAS(rows & OF_LANE(L), m_) &&
				DIFFERS(xid[TX(m_)], then[L], b_) && ORDER(m_) > c_ &&
				(HAS(second_leaf, m_) -> HAS(listed, W) : !PAST(L)) ->
			set_ = set_ | BIT(m_)
		:: else
		fi
	}
	assert(WITNESS != PASSED_BY || !PAST(L) || (rows & ~second_leaf) == 0);
	displaced = displaced & ~BIT(L);
	complete = complete | BIT(L);
	left_ = COLLECT;
	do
	:: set_ != 0 && left_ > 0 ->
		first();
		entries[L] = entries[L] | BIT(m_);
		set_ = set_ & ~BIT(m_);
		left_--
	:: set_ != 0 && left_ == 0 ->
		REACHED(PARTIAL);
		complete = complete & ~BIT(L);
		break
	:: set_ == 0 -> break
	od
}

/* end_walk(): the difference is through */
inline end_walk(L)
{
	then[L] = target[L];
	target[L] = 0;
	last[L] = 0;
	done[L] = 0;
	dirty = dirty | BIT(L);
	wanted = wanted | BIT(L)
}

/* prepare(): sees to it that there are entries to send */
inline prepare(W, L)
{
#ifndef FORGET_LAYOUT
	if
	:: HAS(displaced, L) ->
		REACHED(MISPLACED);
		entries[L] = 0;
		displaced = displaced & ~BIT(L)
	:: else
	fi;
#endif
	if
	:: entries[L] == 0 && target[L] != 0 ->
#ifdef FORGET_TARGET
		target[L] = snapshot[W];
#endif
		b_ = target[L];
		c_ = last[L];
		collect(W, L);
		if
		:: entries[L] == 0 -> end_walk(L)
		:: else
		fi
	:: else
	fi;
	if
	:: entries[L] == 0 ->
		wanted = wanted & ~BIT(L);
		b_ = snapshot[W];
		c_ = 0;
		collect(W, L);
		if
		:: entries[L] == 0 -> then[L] = snapshot[W]
		:: else -> target[L] = snapshot[W]; last[L] = 0
		fi
	:: else
	fi
}

/* Is the row of an entry there, for the open snapshot? */
#define ITS_OWN(m, w) (tx[TX(m)] == COMMITTED && HAS(snapshot[w], xid[TX(m)]))
#if REWRITES
#define FETCHED(m, w, l) (ITS_OWN(m, w) && (!HAS(rewritten, m) || \
	(HAS(snapshot[w], xid[DDL]) && !HAS(displaced, l))))
#else
#define FETCHED(m, w, l) ITS_OWN(m, w)
#endif

#if HORIZON
#define BELOW_HORIZON(x, w) ((x) < horizon[w])
#else
#define BELOW_HORIZON(x, w) false
#endif

/* make_durable() */
inline make_durable(W, T)
{
	if
	:: BELOW_HORIZON(xid[T], W) -> REACHED(SPARED)
	:: else -> wal_flush(T)
	fi
}

/* Hands the next batch over: the first entries. */
inline send_batch(W, L)
{
	set_ = entries[L];
	left_ = BATCH;
	do
	:: set_ != 0 && left_ > 0 ->
		first();
		set_ = set_ & ~BIT(m_);
		left_--;
		if
		:: HAS(done[L], m_) -> REACHED(SKIPPED)
		:: !HAS(done[L], m_) && FETCHED(m_, W, L) ->
			SAY(("worker %d: sends message %d\n", W, m_))
			t_ = TX(m_);
#ifndef NO_FLUSH
			make_durable(W, t_);
#endif
			flying[L] = flying[L] | BIT(m_)
		:: else ->
			REACHED(NEVER_COMMITTED);
			SAY(("worker %d: finds no row of message %d\n", W, m_))
			done[L] = done[L] | BIT(m_)
		fi
	:: else -> break
	od
}

/* advance(): moves the progress over what is done without a gap */
inline advance(L)
{
	do
	:: entries[L] != 0 ->
		set_ = entries[L];
		first();
		if
		:: HAS(done[L], m_) ->
			entries[L] = entries[L] & ~BIT(m_);
			done[L] = done[L] & ~BIT(m_);
			last[L] = ORDER(m_);
			dirty = dirty | BIT(L)
		:: else -> break
		fi
	:: else -> break
	od;
	if
	:: flying[L] == 0 && entries[L] == 0 && target[L] != 0 &&
			HAS(complete, L) ->
		end_walk(L)
	:: else
	fi
}

/* LaneRead() */
inline read_lane(W, L)
{
	do
	:: flying[L] == 0 ->
		prepare(W, L);
		if
		:: entries[L] != 0 -> send_batch(W, L); advance(L)
		:: else -> break
		fi
	:: else -> break
	od
}

/* LaneDrop(), and the lane is free. */
inline drop_lane(L)
{
	then[L] = 0;
	target[L] = 0;
	last[L] = 0;
	entries[L] = 0;
	flying[L] = 0;
	arrived[L] = 0;
	done[L] = 0;
	owner[L] = 0;
	dirty = dirty & ~BIT(L);
	wanted = wanted & ~BIT(L);
	complete = complete & ~BIT(L);
	displaced = displaced & ~BIT(L)
}

/* WritebackRun(), a lane at a time: a superset of one row for all */
inline record(L)
{
	a_ = then[L];
	b_ = target[L];
	c_ = last[L];
#if defined(RECORD_FIRST)
	/* As if all that was sent were acknowledged. */
	for (i_ : 0 .. NMSG - 1) {
		c_ = (HAS(flying[L], i_) && ORDER(i_) > c_ -> ORDER(i_) : c_)
	}
#elif defined(FORGET_THEN)
	a_ = (b_ != 0 -> b_ : a_);
	b_ = 0;
	c_ = 0;
#elif defined(RECORD_NOW)
	a_ = ended;
	b_ = 0;
	c_ = 0;
#endif
	k_ = LEDGER + L;
	wal_append(k_);
	dirty = dirty & ~BIT(L)
}

#ifdef RECORD_FIRST
#define RECORDABLE(l) (HAS(dirty, l) || flying[l] != 0)
#else
#define RECORDABLE(l) HAS(dirty, l)
#endif

/* LaneAcknowledge(), in the order of the key */
inline acknowledge(K, L)
{
	set_ = arrived[L] & OF_KEY(K);
	first();
	SAY(("a worker: hears that message %d is stored\n", m_))
	arrived[L] = arrived[L] & ~BIT(m_);
	flying[L] = flying[L] & ~BIT(m_);
	done[L] = done[L] | BIT(m_);
#ifdef PASS_GAP
	for (i_ : 0 .. NMSG - 1) {
		if
		:: HAS(entries[L], i_) && ORDER(i_) < ORDER(m_) ->
			done[L] = done[L] | BIT(i_)
		:: else
		fi
	}
#endif
	advance(L)
}

/* --- a worker's steps --- */

#define HOME(w, l) (HAS(home, l) == (w))
#define MINE(w, l) (phase[w] == RESTING && owner[l] == 1 + (w))
#define MINE_IN(p, w, l) (phase[w] == p && lane[w] == (l))

/* LaneIsReady() */
#define READY(w, l) (MINE(w, l) && HOME(w, l) && flying[l] == 0 && \
	(HAS(wanted | wake, l) || target[l] != 0))

inline enter(W, P, L)
{
	phase[W] = P;
	lane[W] = L
}

inline rest(W)
{
#if HORIZON
	moved = moved & ~BIT(W);
#endif
	phase[W] = RESTING;
	lane[W] = 0;
	snapshot[W] = 0
}

/* take_wakeups() */
inline take_wakeup(L)
{
	wanted = wanted | (wake & BIT(L));
	wake = wake & ~BIT(L)
}

/* The list of leaves is the newest when their locks are held. */
inline lock_leaves(W)
{
	listed = listed | (attached -> BIT(W) : 0)
}

#if HORIZON
#define KNOWS_HORIZON(w) (horizon[w] != 0)

/* move_horizon(): what is seen is in the WAL before a record written now */
inline move_horizon(W)
{
#ifndef FLUSH_FIRST
	wal_flush_all();
#endif
	horizon[W] = 1;
	do
	:: HAS(snapshot[W], horizon[W]) -> horizon[W] = horizon[W] + 1
	:: else -> break
	od;
	moved = moved | BIT(W)
}
#else
#define KNOWS_HORIZON(w) true
#endif

#ifdef READ_BEFORE_TAKE
byte read_then[NLANES], read_target[NLANES], read_last[NLANES];
#endif

#ifdef RELEASE_BEFORE_RECORD
byte owing[NWORKERS]; /* 1 + lane */
byte owing_then[NWORKERS], owing_target[NWORKERS], owing_last[NWORKERS];
#define MAY_GO(w, l) (owing[w] == 0)
#else
#define MAY_GO(w, l) (!HAS(dirty, l))
#endif

proctype worker(byte w, l)
{
end:
	do
	/* take(): first the lane, then what the ledger says about it. */
#ifndef READ_BEFORE_TAKE
	:: d_step {
		phase[w] == RESTING && owner[l] == 0 && HOME(w, l) && INSTALLED ->
		owner[l] = 1 + w;
		enter(w, TAKING, l)
	}
	:: d_step {
		MINE_IN(TAKING, w, l) ->
		ledger_read(l);
#else
	:: d_step {
		phase[w] == RESTING && owner[l] != 1 + w && HOME(w, l) && INSTALLED ->
		ledger_read(l);
		read_then[l] = a_;
		read_target[l] = b_;
		read_last[l] = c_;
		enter(w, TAKING, l)
	}
	:: d_step {
		MINE_IN(TAKING, w, l) && owner[l] == 0 ->
		owner[l] = 1 + w;
		a_ = read_then[l];
		b_ = read_target[l];
		c_ = read_last[l];
#endif
		assert(WITNESS != CONTINUED || b_ == 0 || crashes < CRASHES);
		SAY(("worker %d: has lane %d, progress %x, %x, %d\n", w, l, a_, b_, c_))
		then[l] = a_;
		target[l] = b_;
		last[l] = c_;
		wanted = wanted | BIT(l);
		rest(w)
	}

	/* hand_over(): when nothing is in flight and the record is written. */
	:: d_step {
		MINE(w, l) && !HOME(w, l) && flying[l] == 0 && MAY_GO(w, l) ->
		SAY(("worker %d: lets lane %d go\n", w, l))
		/* What was acknowledged ahead of a gap is not in the record. */
		may_repeat = may_repeat | done[l];
#ifdef RELEASE_BEFORE_RECORD
		if
		:: HAS(dirty, l) ->
			owing[w] = 1 + l;
			owing_then[w] = then[l];
			owing_target[w] = target[l];
			owing_last[w] = last[l]
		:: else
		fi;
#endif
		drop_lane(l)
	}
#ifdef RELEASE_BEFORE_RECORD
	:: d_step {
		owing[w] == 1 + l ->
		SAY(("worker %d: records lane %d, which it had\n", w, l))
		a_ = owing_then[w];
		b_ = owing_target[w];
		c_ = owing_last[w];
		k_ = LEDGER + l;
		wal_append(k_);
		owing[w] = 0
	}
#endif

	/* A read: the wake-up, the locks and the list of leaves, the snapshot. */
#ifndef SNAPSHOT_FIRST
	:: d_step {
		READY(w, l) && !exclusive ->
		SAY(("worker %d: has locked the leaves, to read lane %d\n", w, l))
#ifndef WAKE_LATE
		take_wakeup(l);
#endif
#ifdef FLUSH_FIRST
		wal_flush_all();
#endif
		lock_leaves(w);
		enter(w, LOCKED, l)
	}
	:: d_step {
		MINE_IN(LOCKED, w, l) ->
		SAY(("worker %d: takes a snapshot, %x\n", w, ended))
		snapshot[w] = ended;
		phase[w] = READING
	}
#else
	:: d_step {
		READY(w, l) ->
		SAY(("worker %d: takes a snapshot, %x\n", w, ended))
		take_wakeup(l);
		snapshot[w] = ended;
		enter(w, UNLOCKED, l)
	}
	:: d_step {
		MINE_IN(UNLOCKED, w, l) && !exclusive ->
		SAY(("worker %d: has locked the leaves, to read lane %d\n", w, l))
		lock_leaves(w);
		phase[w] = READING
	}
#endif
#if HORIZON
	/* At the first read, and again at times. */
	:: d_step {
		MINE_IN(READING, w, l) && !HAS(moved, w) -> move_horizon(w)
	}
#endif
	/* The list of leaves again, then all the rest. */
	:: d_step {
		MINE_IN(READING, w, l) && KNOWS_HORIZON(w) ->
#ifdef WAKE_LATE
		wake = wake & ~BIT(l);
#endif
		if
#ifndef FORGET_LEAVES
		:: attached != HAS(listed, w) -> REACHED(RELISTED)
		:: else -> read_lane(w, l)
#else
		:: true -> read_lane(w, l)
#endif
		fi;
		rest(w)
	}

	:: d_step {
		MINE(w, l) && RECORDABLE(l) ->
		SAY(("worker %d: records lane %d: %x, %x, %d\n", w, l, then[l], target[l], last[l]))
		record(l)
	}

	:: d_step {
		MINE(w, l) && LANE(0) == l && (arrived[l] & OF_KEY(0)) != 0 ->
		acknowledge(0, l)
	}
	:: d_step {
		MINE(w, l) && LANE(1) == l && (arrived[l] & OF_KEY(1)) != 0 ->
		acknowledge(1, l)
	}
	od
}

/* ----------------------------------------------------------------------
 * The broker
 * ---------------------------------------------------------------------- */

/* Its first delivery: has nothing come before it that has a higher seq? */
inline check_order(M)
{
	for (i_ : 0 .. NMSG - 1) {
		if
		:: HAS(delivered, i_) && seq[i_] > seq[M] ->
			assert(WITNESS != COMMITTED_LATE || KEY(i_) == KEY(M));
			CHECK(order_kept, KEY(i_) != KEY(M))
		:: else
		fi
	}
}

/* A message is stored. */
inline deliver(M, LIVE)
{
	SAY(("broker: stores message %d\n", M))
	CHECK(no_phantom, tx[TX(M)] == COMMITTED);
	if
	:: HAS(delivered, M) && LIVE ->
		REACHED(REPEATED);
		CHECK(no_duplicate, HAS(may_repeat, M))
	:: HAS(delivered, M) && !LIVE -> REACHED(OVERTAKEN)
	:: else -> check_order(M)
	fi;
	may_repeat = may_repeat & (LIVE -> ~BIT(M) : ALL);
	delivered = delivered | BIT(M)
}

#define UNDER_WAY(k) (flying[LANE(k)] & ~arrived[LANE(k)] & OF_KEY(k))

/* A key's partition stores what comes from one producer in its order. */
proctype partition(byte k)
{
end:
	do
	:: d_step {
		UNDER_WAY(k) != 0 ->
		set_ = UNDER_WAY(k);
		first();
		deliver(m_, true);
		arrived[LANE(k)] = arrived[LANE(k)] | BIT(m_)
	}

	/* From a producer that is gone: a part of it, then nothing more. */
	:: d_step {
		(late & OF_KEY(k)) != 0 ->
		set_ = late & OF_KEY(k);
		first();
		deliver(m_, false);
		late = late & ~BIT(m_)
	}
	:: d_step { (late & OF_KEY(k)) != 0 -> late = late & ~OF_KEY(k) }
	od
}

/* ----------------------------------------------------------------------
 * Trouble
 * ---------------------------------------------------------------------- */

/*
 * What the owner knew of a lane is lost: what the ledger, (a_, b_, c_), does
 * not say may repeat, and what was under way may still arrive.
 */
inline lose_lane(L)
{
	set_ = (delivered | flying[L] | late | may_repeat) & OF_LANE(L);
	for (m_ : 0 .. NMSG - 1) {
		if
		:: HAS(set_, m_) && LEFT(m_, a_, b_, c_) -> set_ = set_ & ~BIT(m_)
		:: else
		fi
	}
	may_repeat = (may_repeat & ~OF_LANE(L)) | set_;
	late = (late & ~OF_LANE(L)) | (flying[L] & ~arrived[L]);
	drop_lane(L)
}

inline lose_worker(W)
{
	listed = listed & ~BIT(W);
#if HORIZON
	horizon[W] = 0;
#endif
	rest(W)
}

/* A fatal error: Detach() frees the lanes, another worker comes. */
inline exit_worker(W)
{
	SAY(("worker %d: ends without a record\n", W))
	for (n_ : 0 .. NLANES - 1) {
		if
		:: owner[n_] == 1 + W -> ledger_read(n_); lose_lane(n_)
		:: else
		fi
	}
	lose_worker(W)
}

/* LaneReset(): what is in flight goes again, through a new producer. */
inline renew_producer(W)
{
	SAY(("worker %d: makes a new producer\n", W))
	for (n_ : 0 .. NLANES - 1) {
		if
		:: owner[n_] == 1 + W ->
			may_repeat = may_repeat | flying[n_];
			late = (late & ~OF_LANE(n_)) | (flying[n_] & ~arrived[n_]);
			flying[n_] = 0;
			arrived[n_] = 0
		:: else
		fi
	}
	n_ = 0
}

/* Transactions after a crash, those in lost_ without their last record. */
inline recover_transactions()
{
	next_xid = durable_xid - 1;
	for (t_ : 0 .. NT - 1) {
		if
		:: HAS(two_phase, t_) && (tx[t_] == PENDING || HAS(lost_, t_)) ->
			REACHED(OUTLIVED);
			CHECK(no_phantom, (delivered & MSGS(t_)) == 0);
			tx[t_] = PENDING
		:: !HAS(two_phase, t_) && (tx[t_] == OPEN || HAS(lost_, t_)) ->
			assert(WITNESS != FORGOTTEN || tx[t_] != COMMITTED);
			CHECK(no_phantom, (delivered & MSGS(t_)) == 0);
			tx[t_] = ABORTED;
			xid[t_] = 0
		:: tx[t_] == LOGGED && !HAS(lost_, t_) -> tx[t_] = COMMITTED
		:: else
		fi;
		next_xid = (xid[t_] > next_xid -> xid[t_] : next_xid)
	}
	next_xid++;
	durable_xid = next_xid;
	ended = BIT(next_xid) - 2
}

/* What was rolled back, or never came to the disk, has no rows. */
inline recover_rows()
{
	held = 0;
	next_seq = 1;
	for (m_ : 0 .. NMSG - 1) {
		if
		:: tx[TX(m_)] == PENDING ->
			ended = ended & ~BIT(xid[TX(m_)]);
			held = held | (rows & BIT(m_))
		:: tx[TX(m_)] == ABORTED ->
			rows = rows & ~BIT(m_);
			seq[m_] = 0;
			xid[TX(m_)] = 0
		:: else
		fi;
		next_seq = (seq[m_] >= next_seq -> seq[m_] + 1 : next_seq)
	}
	second_leaf = second_leaf & rows;
	rewritten = 0;
	exclusive = false
}

/*
 * The server stops, and comes back with the first CUT records of the WAL's
 * end.  What was in progress is rolled back; xids and seqs that no record is
 * left of are issued again.
 */
inline crash(CUT)
{
	SAY(("the server: crashes, %d of %d records survive\n", CUT, wal_length))
	lost_ = 0;
	for (n_ : 0 .. TAIL - 1) {
		if
		:: n_ >= CUT && wal_kind[n_] > 0 && wal_kind[n_] < LEDGER ->
			lost_ = lost_ | BIT(wal_kind[n_] - 1)
		:: else
		fi
	}
	wal_cut(CUT);
	n_ = next_xid;
	recover_transactions();
	assert(WITNESS != REISSUED || next_xid == n_);
	recover_rows();
	for (n_ : 0 .. NLANES - 1) {
		a_ = disk_then[n_];
		b_ = disk_target[n_];
		c_ = disk_last[n_];
		lose_lane(n_)
	}
	wake = 0;
	for (n_ : 0 .. NWORKERS - 1) {
		lose_worker(n_)
	}
}

#define OVER(t) ((t) >= NTX || tx[t] == COMMITTED || tx[t] == ABORTED)
#if NTX == 4
#define ALL_OVER (OVER(0) && OVER(1) && OVER(2) && OVER(3))
#elif NTX == 3
#define ALL_OVER (OVER(0) && OVER(1) && OVER(2))
#else
#define ALL_OVER (OVER(0) && OVER(1))
#endif

proctype trouble()
{
	byte cut;

end:
	do
	:: atomic {
		crashes > 0 ->
		crashes--;
		do
		:: cut < wal_length -> cut++
		:: break
		od;
		d_step { crash(cut); cut = 0 }
	}
	:: d_step { exits > 0 -> exits--; exit_worker(0) }
	:: d_step {
		renewals > 0 && owner[0] == 1 && flying[0] != 0 ->
		renewals--;
		renew_producer(0)
	}
	:: d_step { moves > 0 -> moves--; home = home ^ 1 }

	/* There comes no more of it. */
	:: d_step {
		ALL_OVER && crashes + exits + renewals + moves > 0 ->
		crashes = 0;
		exits = 0;
		renewals = 0;
		moves = 0
	}
	od
}

/*
 * When nothing can happen any more, all that committed has arrived, without a
 * poll.  Only the commit of a prepared transaction wakes nobody.
 */
proctype quiescence()
{
	bool polled;

end:
	do
	:: timeout && two_phase != 0 && !polled ->
		d_step { wanted = BIT(NLANES) - 1; polled = true }
	:: timeout && (two_phase == 0 || polled) ->
		d_step {
			SAY(("nothing can happen any more\n"))
			assert(ALL_OVER);
			for (m_ : 0 .. NMSG - 1) {
				if
				:: HAS(rows, m_) && tx[TX(m_)] == COMMITTED ->
					n_ = LANE(KEY(m_));
					CHECK(nothing_lost, HAS(delivered, m_) &&
						LEFT(m_, then[n_], target[n_], last[n_]))
				:: else
				fi
			}
			m_ = 0
		}
		break
	od
}

init
{
	byte i;

	atomic {
		home = (NWORKERS == 2 && NLANES == 2 -> 2 : 0);
		for (i : 0 .. NTX - 1) {
			run application(i)
		}
#if REWRITES
		run rewrite();
#endif
#if LEAVES == 2
		run attach();
#endif
#if CLOSING
		run close();
#endif
		for (i : 0 .. NWORKERS - 1) {
			run worker(i, 0);
#if NLANES == 2
			run worker(i, 1);
#endif
		}
		run partition(0);
		run partition(1);
		run trouble();
		run quiescence()
	}
}
