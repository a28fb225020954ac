/*
 * shmem.h
 *		What the launcher, the relay's workers and the applications' backends
 *		share: a slot a worker, an entry a database with lane ownership, wake
 *		bits and counters.
 *
 * Without shared_preload_libraries there is no segment: ShmemReady() is
 * false, and everything here that backends call does nothing.
 */
#ifndef OUTBOX_SHMEM_H
#define OUTBOX_SHMEM_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "outbox.h"

#define OUTBOX_MAX_DATABASES 128
#define OUTBOX_ALL_LANES ((uint32) ((1U << OUTBOX_LANES) - 1))

/* OutboxShared->probe_wanted: more than one database. */
#define OUTBOX_PROBE_ALL PG_UINT32_MAX

/* Why a worker ended, for the launcher. */
typedef enum WorkerExit
{
	WORKER_EXIT_NONE,		  /* running, or died without a word */
	WORKER_EXIT_RESTART,	  /* start me again at once */
	WORKER_EXIT_NO_EXTENSION, /* nothing to do in this database */
	WORKER_EXIT_SURPLUS,	  /* fewer workers are wanted */
	WORKER_EXIT_ERROR		  /* start me again after the backoff */
} WorkerExit;

/*
 * reserved (in_use) -> attached (pid set) -> ended -> free again.  The
 * launcher reserves and frees; the worker does what is between.
 */
typedef struct WorkerSlot
{
	/* All protected by OutboxShared->lock. */
	bool in_use;
	uint32 generation; /* tells a late worker that it lost the slot */
	Oid database;
	int number;		 /* 0 is the database's first worker */
	pid_t pid;		 /* set while the worker is attached */
	int proc_number; /* valid while pid is set */
	bool ended;		 /* exit says why */
	WorkerExit exit;
} WorkerSlot;

typedef struct DatabaseCounters
{
	pg_atomic_uint64 published; /* acknowledged by the broker */
	pg_atomic_uint64 published_bytes;
	pg_atomic_uint64 failed;		 /* failed delivery reports */
	pg_atomic_uint64 batches;		 /* progress records */
	pg_atomic_uint64 producers;		 /* producers made */
	pg_atomic_uint64 last_published; /* TimestampTz, 0 = never */
	pg_atomic_uint64 last_failed;	 /* TimestampTz, 0 = never */
} DatabaseCounters;

typedef struct DatabaseEntry
{
	/* Set under OutboxShared->lock, read without it by backends. */
	pg_atomic_uint32 database; /* its OID; 0 = free */

	/* Protected by OutboxShared->lock. */
	int workers_wanted;		 /* published by the first worker */
	int owner[OUTBOX_LANES]; /* worker slot, -1 = free */

	/*
	 * Lanes that have something new; set after commit.  An owner clears the
	 * bits of its own lanes by fetch_and before it takes the snapshot to read
	 * them with, and must not sleep on a set bit that it means to read: the
	 * backends set no latch for a bit that was set already.
	 */
	pg_atomic_uint32 dirty;

	/* proc number of each lane's owner + 1; 0 = none.  A stale one is harmless. */
	pg_atomic_uint32 owner_proc[OUTBOX_LANES];

	/* Lanes whose owners shall record their progress now. */
	pg_atomic_uint32 record_wanted;

	DatabaseCounters counters;
	char last_error[256];	   /* protected by OutboxShared->lock */
	TimestampTz last_error_at; /* protected by OutboxShared->lock */

	/* Both protected by OutboxShared->lock. */
	char config_error[256]; /* why the configuration is refused; or empty */
	bool config_blocks;		/* and there is no earlier one to go on with */
} DatabaseEntry;

typedef struct OutboxShared
{
	LWLock *lock;
	pg_atomic_uint32 launcher_proc; /* proc number + 1, 0 = none */
	pid_t launcher_pid;				/* 0 = none; protected by lock */

	/* The database that may have got or lost the extension; 0 = none. */
	pg_atomic_uint32 probe_wanted;

	int nslots; /* constant: outbox.max_workers */
	DatabaseEntry databases[OUTBOX_MAX_DATABASES];
	WorkerSlot slots[FLEXIBLE_ARRAY_MEMBER];
} OutboxShared;

extern OutboxShared *Outbox; /* NULL where not preloaded */

extern void ShmemInit(void); /* from _PG_init, while preloading */

static inline bool
ShmemReady(void)
{
	return Outbox != NULL;
}

/* --- for backends --- */

/* The entry of the current database; NULL while it has none. */
extern DatabaseEntry *ShmemMyDatabase(void);

/* Tells the owners of these lanes that a commit brought something. */
extern void ShmemWakeLanes(uint32 lanes);

/* Asks the owners of all lanes to record their progress at once. */
extern void ShmemWantRecord(void);

/*
 * Tells the launcher, after a commit, that this database has got or lost the
 * extension, or wants another number of workers.
 */
extern void ShmemWakeLauncher(void);

/* --- for the launcher and the workers --- */

/* Finds or makes the entry of a database; NULL when all are taken. */
extern DatabaseEntry *ShmemDatabase(Oid database, bool create);

/* Frees the entry, unless a worker slot is in use for the database. */
extern void ShmemForgetDatabase(Oid database);

/*
 * Without the lock the answer may be out of date the next moment; only the
 * lock makes it last.
 */
extern DatabaseEntry *ShmemFindDatabase(Oid database);

/* Sets a latch; `proc` is a proc number + 1, perhaps of a process gone. */
extern void ShmemWakeProc(uint32 proc);

extern void ShmemSetLastError(DatabaseEntry *db, const char *text);

/* text: NULL where the configuration is accepted. */
extern void ShmemSetConfigError(DatabaseEntry *db, const char *text,
								bool blocks);

/* --- the same, in slots.c --- */

/* Needs the lock. */
extern bool ShmemSlotInUse(Oid database);

/* Both only for the launcher.  -1 when all slots are in use. */
extern int ShmemReserveSlot(Oid database, int number, uint32 *generation);

/* False while a worker is attached; else `was` is what the slot held. */
extern bool ShmemFreeSlot(int slot, WorkerSlot *was);

/*
 * The worker's own slot: announce, and withdraw (before_shmem_exit), which
 * also releases its lanes.  False when the slot is no longer the worker's.
 * A worker may withdraw without having announced itself.
 */
extern bool ShmemAttachWorker(int slot, uint32 generation);
extern void ShmemDetachWorker(int slot, uint32 generation, WorkerExit reason);

/*
 * Lanes that worker `slot` should own now: the lanes shared out evenly among
 * the attached workers of its database.
 */
extern uint32 ShmemWantedLanes(int slot);

/*
 * Takes those of `lanes` that are free; returns what was taken, and marks it
 * dirty, since a wake-up of the owner before may have gone astray.
 */
extern uint32 ShmemTakeLanes(int slot, uint32 lanes);
extern void ShmemReleaseLanes(int slot, uint32 lanes);

/* Wakes all workers of a database, for a new share-out. */
extern void ShmemWakeWorkers(Oid database);

#endif
